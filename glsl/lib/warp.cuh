// Vectors of words, and what the lanes of a warp do together.
#include "math.cuh"

typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

#ifdef __CUDA__
DEVICE u32 shuffle_xor(u32 x, u32 by) {
    u32 r;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(x), "r"(by));
    return r;
}
DEVICE u32 first_lane(u32 x) { // the warp's, which the compiler then knows to be one
    u32 r;
    asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(r) : "r"(x));
    return r;
}

DEVICE f32x4 load_once(const f32x4 *p) { // which the multiprocessor's cache need not keep
    f32x4 v;
    asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}
DEVICE u32 of_four(u32 x, u32 i) { // lane i's of the four that the lane is among
    u32 r;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1c1f, 0xffffffff;" : "=r"(r) : "r"(x), "r"(i));
    return r;
}

DEVICE u32 least_of(u32 x) { // the warp's least
    u32 r;
    asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x));
    return r;
}
DEVICE u32 most_of(u32 x) {
    u32 r;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x));
    return r;
}

DEVICE void warp_barrier() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

DEVICE bool any(bool x) {
    u32 r;
    asm volatile("{ .reg .pred a; setp.ne.u32 a, %1, 0; vote.sync.any.pred a, a, 0xffffffff; selp.u32 %0, 1, 0, a; }" : "=r"(r) : "r"((u32)x));
    return r;
}

// A barrier of some warps; 0 is the whole workgroup's.
DEVICE void meet(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// Arrives at one without waiting.
DEVICE void pass_on(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Two halves in a word.
DEVICE u32 halves(float low, float high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
#endif

DEVICE float shuffle_xor(float x, u32 by) { return float_of(shuffle_xor(bits_of(x), by)); }
DEVICE float of_four(float x, u32 i) { return float_of(of_four(bits_of(x), i)); }
