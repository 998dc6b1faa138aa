// What CUDA kernels start with, in place of NVIDIA's headers. An entry is
//   KERNEL(LOCAL) kernel(address of each binding, ..., Push p, Spec s) { ... }
// with the push constants and the specialisation constants from id 1 on as structures;
// spirv.ReflectPTX reads it. Products and sums of floats are rounded one by one
// (-ffp-contract=off).
//
// Instructions stand in this folder only, behind __CUDA__: tools/emulate compiles kernels
// for a processor, with functions of the same names from its emulated.h.
typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long long u64;

#ifdef __CUDA__
#define KERNEL(LOCAL) extern "C" __attribute__((global)) __attribute__((launch_bounds(LOCAL))) void
#define KERNEL_TIMES(LOCAL, N) extern "C" __attribute__((global)) __attribute__((launch_bounds(LOCAL, N))) void // N workgroups a multiprocessor
#define DEVICE static inline __attribute__((device, always_inline))
#define DEVICE_MEMBER inline __attribute__((device, always_inline))
#define SHARED __attribute__((shared))
#define DYNAMIC_SHARED(name) extern SHARED __attribute__((aligned(1024))) u8 name[] // shared=N bytes of the tile

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 thread_again() { // so that no register holds it, or what comes of it, until then
    u32 r;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(r));
    return r;
}
DEVICE u32 group_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 groups() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u32 group_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }

// dot4 is sum + the product of two vectors of four signed bytes.
DEVICE int dot4(int sum, u32 a, u32 b) {
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
    return r;
}

// a & mask ^ b, in one instruction.
DEVICE u32 and_xor(u32 a, u32 mask, u32 b) {
    u32 r;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(a), "r"(mask), "r"(b));
    return r;
}

// x >> by, of which the compiler knows nothing.
template <u32 x> DEVICE u32 shifted(u32 by) {
    u32 r;
    asm("shr.b32 %0, %1, %2;" : "=r"(r) : "n"(x), "r"(by));
    return r;
}

DEVICE u32 bytes_of(u32 a, u32 b, u32 which) { return __nvvm_prmt(a, b, which); }
DEVICE u32 bits_of(float x) { return __builtin_bit_cast(u32, x); }
DEVICE float most(float a, float b) { return __nvvm_fmax_f(a, b); } // NaN only of two
DEVICE float most_or_nan(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
DEVICE void count(u32 *at, u32 more) { __nvvm_atom_add_gen_i((int *)at, more); }
DEVICE void raise(u32 &flag) { flag = 1; } // in shared memory, where others may look at it without a barrier: it does no harm early
DEVICE void here(u32 &x) { asm volatile("" : "+r"(x)); } // x is made by now, not later
#else
#include "emulated.h"
#endif

DEVICE u32 min(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u32 max(u32 a, u32 b) { return a > b ? a : b; }
