// Words that lie together, and memory that workgroups share while they run.
#include "warp.cuh"

struct alignas(16) Quad { u32 w[4]; };
struct alignas(16) Four { float v[4]; };
struct alignas(8) Pair { u32 w[2]; };

DEVICE Four four_of(Quad q) { return __builtin_bit_cast(Four, q); }
DEVICE Quad quad_of(Four f) { return __builtin_bit_cast(Quad, f); }

DEVICE void barrier() { __syncthreads(); }
DEVICE u32 groups_x() { return __nvvm_read_ptx_sreg_nctaid_x(); }

DEVICE u32 shuffle(u32 x, u32 from) {
    u32 r;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(x), "r"(from));
    return r;
}
// Of a lane below; the first have their own.
DEVICE float shuffle_up(float x, u32 by) {
    u32 r;
    asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(r) : "r"(bits_of(x)), "r"(by));
    return float_of(r);
}
// Of the lane below, within four; the first has its own.
DEVICE float before_of_four(float x) {
    u32 r;
    asm volatile("shfl.sync.up.b32 %0, %1, 1, 0x1c00, 0xffffffff;" : "=r"(r) : "r"(bits_of(x)));
    return float_of(r);
}

// The lanes of which it is so.
DEVICE u32 ballot(bool x) {
    u32 r;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r) : "r"((u32)x));
    return r;
}

// The larger magnitude; NaN if one is.
DEVICE float largest(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(__builtin_fabsf(a)), "f"(__builtin_fabsf(b)));
    return r;
}

// sum + the product of four unsigned and four signed bytes.
DEVICE int dot4_unsigned(int sum, u32 a, u32 b) {
    int r;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
    return r;
}

// sum += a b: 16 rows of 32 unsigned bytes by 8 columns of 32 signed ones.
DEVICE void multiply(int sum[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// What never changes while the kernel runs, read once.
DEVICE Quad load_once(const Quad *p) {
    Quad r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p));
    return r;
}
DEVICE u32 load_once(const u32 *p) {
    u32 r;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(r) : "l"(p));
    return r;
}

// What other workgroups write.
DEVICE Quad peek(const Quad *p) {
    Quad r;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p));
    return r;
}
DEVICE Pair peek(const Pair *p) {
    u64 r; // both at once
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(r) : "l"(p));
    return Pair{{(u32)r, (u32)(r >> 32)}};
}
DEVICE u32 peek(const u32 *p) {
    u32 r;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p));
    return r;
}
DEVICE u32 peek_acquire(const u32 *p) {
    u32 r;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    return r;
}
DEVICE void put(u32 *p, u32 x) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(x)); }
DEVICE void put(Quad *p, Quad x) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" : : "l"(p), "r"(x.w[0]), "r"(x.w[1]), "r"(x.w[2]), "r"(x.w[3]));
}
DEVICE void put(Pair *p, Pair x) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"((u64)x.w[1] << 32 | x.w[0])); }
DEVICE void fence() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }
// Adds, and returns what was there.
DEVICE u32 count(u32 *p, u32 x) {
    u32 r;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(x) : "memory");
    return r;
}
