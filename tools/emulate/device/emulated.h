// The instructions of glsl/lib/*.cuh for a processor, by functions of emulate.h.
#pragma once
#include "emulate.h"

#define KERNEL(LOCAL) extern "C" __attribute__((noinline)) void
#define KERNEL_TIMES(LOCAL, N) extern "C" __attribute__((noinline)) void
#define DEVICE static inline __attribute__((always_inline))
#define DEVICE_MEMBER inline __attribute__((always_inline))
#define SHARED __attribute__((section("shared")))
#define DYNAMIC_SHARED(name) static u8 *const name = emulated_dynamic

typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

// cuda.cuh
DEVICE u32 thread() { return emulated_thread(); }
DEVICE u32 thread_again() { return emulated_thread(); }
DEVICE u32 group_x() { return emulated_group(0); }
DEVICE u32 groups() { return emulated_groups(0); }
DEVICE u32 group_y() { return emulated_group(1); }
DEVICE void __syncthreads() { emulated_meet(0, 0); }
DEVICE int dot4(int sum, u32 a, u32 b) {
    for (u32 i = 0; i < 32; i += 8) sum += (signed char)(a >> i) * (signed char)(b >> i);
    return sum;
}
DEVICE u32 and_xor(u32 a, u32 mask, u32 b) { return (a & mask) ^ b; }
template <u32 x> DEVICE u32 shifted(u32 by) { return x >> by; }
DEVICE u32 bytes_of(u32 a, u32 b, u32 which) {
    u64 all = a | (u64)b << 32;
    u32 r = 0;
    for (u32 i = 0; i < 4; i++) r |= (u32)(all >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return r;
}
DEVICE u32 bits_of(float x) { return x == x ? __builtin_bit_cast(u32, x) : 0x7fffffffu; } // what NVIDIA's cards make of NaN
DEVICE float most(float a, float b) { return a != a || b > a ? b : a; }
DEVICE float most_or_nan(float a, float b) { return a != a || a > b ? a : b; }
DEVICE void count(u32 *at, u32 more) { *at += more; }
DEVICE void raise(u32 &flag) { emulated_raise(&flag); }
DEVICE void here(u32 &) {}

// math.cuh
DEVICE float half_float(u32 h) {
    u32 exponent = h >> 10 & 31, rest = h & 0x3ff, sign = h << 16 & 0x80000000u;
    float f = exponent == 31 ? __builtin_bit_cast(float, 0x7f800000u | rest << 13) : exponent ? __builtin_bit_cast(float, (exponent + 112) << 23 | rest << 13) : rest * 0x1p-24f;
    return __builtin_bit_cast(float, __builtin_bit_cast(u32, f) | sign);
}
DEVICE float low_half(u32 pair) { return half_float(pair & 0xffff); }
DEVICE float high_half(u32 pair) { return half_float(pair >> 16); }

// warp.cuh
DEVICE u32 shuffle_xor(u32 x, u32 by) { return emulated_lanes("shfl", &x, 1)[thread() % 32 ^ by][0]; }
DEVICE u32 first_lane(u32 x) { return emulated_lanes("shfl", &x, 1)[0][0]; }
DEVICE f32x4 load_once(const f32x4 *p) { return *p; }
DEVICE u32 of_four(u32 x, u32 i) { return emulated_lanes("shfl", &x, 1)[thread() % 32 / 4 * 4 + i][0]; }
DEVICE u32 least_of(u32 x) {
    emulated_words all = emulated_lanes("redux", &x, 1);
    for (u32 lane = 0; lane < 32; lane++) x = all[lane][0] < x ? all[lane][0] : x;
    return x;
}
DEVICE u32 most_of(u32 x) { return ~least_of(~x); }
DEVICE void warp_barrier() { emulated_warp_barrier(); }
DEVICE bool any(bool x) {
    u32 word = x, some = 0;
    emulated_words all = emulated_lanes("vote", &word, 1);
    for (u32 lane = 0; lane < 32; lane++) some |= all[lane][0];
    return some;
}
DEVICE void meet(u32 id, u32 threads) { emulated_meet(id, threads); }
DEVICE void pass_on(u32 id, u32 threads) { emulated_pass_on(id, threads); }

// stages.cuh
DEVICE u32 shared_address(const void *p) { return emulated_address(p); }
DEVICE void barrier_init(u32 at, u32 arrivals) { emulated_barrier_init(at, arrivals); }
DEVICE void arrive(u32 at) { emulated_arrive(at); }
DEVICE void wait(u32 at, u32 parity) { emulated_wait(at, parity); }
DEVICE void copy16(u32 to, const void *from) { emulated_copy(to, from, 16); }
DEVICE void copy8(u32 to, const void *from) { emulated_copy(to, from, 8); }
DEVICE void copy4(u32 to, const void *from) { emulated_copy(to, from, 4); }
DEVICE void copy16(u32 to, const void *from, u32 bytes) { emulated_copy_some(to, from, 16, bytes); }
DEVICE void copy4(u32 to, const void *from, u32 bytes) { emulated_copy_some(to, from, 4, bytes); }
DEVICE void copies_commit() { emulated_copies_commit(); }
template <int behind> DEVICE void copies_wait() { emulated_copies_wait(behind); }
DEVICE void copies_wait() {
    emulated_copies_commit();
    emulated_copies_wait(0);
}
DEVICE u32x4 read_once(const void *p) { return *(const u32x4 *)p; }
DEVICE u32 read(const void *p) { return *(const u32 *)p; }
DEVICE void prefetch(const void *from, u32 bytes) { emulated_prefetch(from, bytes); }
DEVICE u32x4 shared_quad(u32 at) { return *(u32x4 *)emulated_pointer(at); }
DEVICE u32x4 quad_now(u32 at) { return shared_quad(at); }
DEVICE float shared_half(u32 at) { return half_float(*(unsigned short *)emulated_pointer(at)); }
DEVICE void store_quad(u32 at, u32x4 v) { *(u32x4 *)emulated_pointer(at) = v; }
DEVICE void store_quad(u32 at, const float *v) {
    store_quad(at, u32x4{bits_of(v[0]), bits_of(v[1]), bits_of(v[2]), bits_of(v[3])});
}
DEVICE void for_matrices() { emulated_fence(); }
template <u32 n> DEVICE void fewer_registers() {}
template <u32 n> DEVICE void more_registers() {}

// Halves in a word: what is computed in float has enough bits to be rounded again.
DEVICE u32 half_of(float x) {
    u32 sign = bits_of(x) >> 16 & 0x8000, word = bits_of(x) & 0x7fffffff;
    if (x != x) return 0x7fff;
    if (word >= 0x477ff000u) return sign | 0x7c00;
    u32 exponent = word < 0x38800000u ? 0x38800000u : word & 0x7f800000u;
    float magic = __builtin_bit_cast(float, exponent + (13u << 23)); // whose last bit is that of the half
    return sign | (((exponent - 0x38800000u) >> 13) + bits_of(__builtin_fabsf(x) + magic) - bits_of(magic));
}

// wgmma.cuh: sums are by the number of their set.
#define DECLARE_SUMS(c, d, n) enum : u32 { c, d }
#define DECLARE_WGMMA()
#define REGS_16(c) c
#define REGS_32(c) c
#define MULTIPLY(N, c, a, x) emulated_multiply(N, c, a, x)
#define SUM_AS_FLOAT(f, c, i) f = emulated_sum(c, i)
DEVICE void wgmma_wait() { emulated_sums_wait(); }

// mma.cuh
DEVICE void multiply(f32x4 &c, u32x4 a, u32 b0, u32 b1) {
    u32 mine[] = {a.x, a.y, a.z, a.w, b0, b1}, lane = thread() % 32;
    emulated_words of = emulated_lanes("mma", mine, 6);
    for (u32 i = 0; i < 4; i++) {
        double sum = c[i];
        for (u32 k = 0; k < 16; k++) { // pairs of halves, of two rows and of the second eight
            u32 pair = k % 8 / 2, shift = k % 2 * 16;
            sum += (double)half_float(of[lane / 4 * 4 + pair][i / 2 + k / 8 * 2] >> shift & 0xffff) * half_float(of[(lane % 4 * 2 + i % 2) * 4 + pair][4 + k / 8] >> shift & 0xffff);
        }
        c[i] = sum;
    }
}
DEVICE u32x4 four_matrices(u32 at) {
    u32x4 row = shared_quad(at), r;
    u32 mine[] = {row.x, row.y, row.z, row.w}, lane = thread() % 32;
    emulated_words of = emulated_lanes("ldmatrix", mine, 4);
    for (u32 m = 0; m < 4; m++) r[m] = of[m * 8 + lane / 4][lane % 4];
    return r;
}
DEVICE u32x4 four_matrices_turned(u32 at) {
    u32x4 row = shared_quad(at), r;
    u32 mine[] = {row.x, row.y, row.z, row.w}, lane = thread() % 32, column = lane / 4;
    emulated_words of = emulated_lanes("ldmatrix.trans", mine, 4);
    auto half = [&](u32 m, u32 i) { return of[m * 8 + i][column / 2] >> column % 2 * 16 & 0xffff; };
    for (u32 m = 0; m < 4; m++) r[m] = half(m, lane % 4 * 2) | half(m, lane % 4 * 2 + 1) << 16;
    return r;
}
DEVICE u32 halves(float low, float high) { return half_of(low) | half_of(high) << 16; }
DEVICE float exp2_near(float x) { return __builtin_exp2f(x); }
