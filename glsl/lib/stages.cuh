// What brings data into shared memory while others work on what has come: copies that
// run by themselves and barriers on which one side waits for the other.
#include "warp.cuh"

#ifdef __CUDA__
DEVICE u32 shared_address(const void *p) { return (u32)(u64)(__attribute__((address_space(3))) const void *)p; }

DEVICE void barrier_init(u32 at, u32 arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory"); }
DEVICE void arrive(u32 at) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory"); }
DEVICE void wait(u32 at, u32 parity) {
    asm volatile("{ .reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE: }" ::"r"(at), "r"(parity) : "memory");
}

DEVICE void copy16(u32 to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
DEVICE void copy8(u32 to, const void *from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory"); }
DEVICE void copy4(u32 to, const void *from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory"); }

// Of so many of the bytes: all or none, in whose place zeros come.
DEVICE void copy16(u32 to, const void *from, u32 bytes) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory"); }
DEVICE void copy4(u32 to, const void *from, u32 bytes) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory"); }

// Copies of this thread in groups: ends one, and waits for all but the last so many.
DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int behind> DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(behind) : "memory"); }

// Words that nobody writes meanwhile, from memory; what is read once does not stay in the L1 cache.
DEVICE u32x4 read_once(const void *p) {
    u32x4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
DEVICE u32 read(const void *p) {
    u32 v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

DEVICE void prefetch(const void *from, u32 bytes) { asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory"); }

DEVICE u32x4 shared_quad(u32 at) {
    u32x4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}
// The same here and no later, such as behind a branch that may leave a loop.
DEVICE u32x4 quad_now(u32 at) {
    u32x4 v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}
DEVICE void store_quad(u32 at, u32x4 v) { asm volatile("st.shared.v4.u32 [%4], {%0, %1, %2, %3};" ::"r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(at) : "memory"); }
DEVICE void store_quad(u32 at, const float *v) { asm volatile("st.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(at) : "memory"); }
DEVICE float shared_half(u32 at) {
    float f;
    asm volatile("{ .reg .b16 h; ld.shared.b16 h, [%1]; cvt.f32.f16 %0, h; }" : "=f"(f) : "r"(at));
    return f;
}

// What copies or stores of this workgroup have put in shared memory is there for matrix
// instructions, too.
DEVICE void for_matrices() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Hands registers of this warpgroup back, or takes more, until each thread has n.
template <u32 n> DEVICE void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n)); }
template <u32 n> DEVICE void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n)); }
#endif

// Barriers of a ring of stages, those of one kind side by side: full once 128 threads have
// arrived, empty once one of each of so many warps has.
DEVICE void make_barriers(u32 full, u32 empty, u32 stages, u32 warps) {
    if (thread() == 0) {
        for (u32 s = 0; s < stages; s++) {
            barrier_init(full + 8 * s, 128);
            barrier_init(empty + 8 * s, warps);
        }
        for_matrices();
    }
    __syncthreads();
}
