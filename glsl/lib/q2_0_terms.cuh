// What exact products of Q2_0 on matrix instructions of warpgroups share:
// runtime/ref/mul_mat_q2_0.go. The source has defined TOKENS, of a tile, and COLUMNS, of
// a matrix: 64 or 32.
#include "q2_0.cuh"

#define SLICE 8u
#define SUMS (COLUMNS / 2) // of a lane, of a matrix
#define X_BYTES (TOKENS * 64u) // of a block of activations
#if COLUMNS == 64
#define N 64
#define REGS(c) REGS_32(c)
#else
#define N 32
#define REGS(c) REGS_16(c)
#endif

// Scales of a block of activations in shared memory: of a matrix, a lane's columns, those
// of lane % 4, lie together; four words between them and the next keep them in different banks.
#define XS_STRIDE (COLUMNS + 16u)
#define XS_MATRIX (4 * XS_STRIDE)
#define XS_BYTES (TOKENS / COLUMNS * XS_MATRIX)
DEVICE u32 place_of_scale(u32 token) {
    u32 column = token % COLUMNS;
    return token / COLUMNS * XS_MATRIX + column / 2 % 4 * XS_STRIDE + column / 8 * 8 + column % 2 * 4;
}

// -64 times (code - 1) in bytes, of the codes that a product with to_top puts into their
// upper bits: 64 >> 2 (lane % 4). By shifts it would be more, and of the busiest pipe.
DEVICE u32 weights_of(u32 codes, u32 to_top) { return and_xor(codes * to_top, 0xc0c0c0c0u, 0x40404040u); }
DEVICE u32 to_top_of(u32 lane) { return shifted<64>(lane % 4 * 2); } // so that it stays a product

// Four codes in bytes, each minus 1.
DEVICE u32 signed4(u32 q) { return ((q & 0x03030303u) + 0x7f7f7f7fu) ^ 0x80808080u; }

// How a term is added to a slice. That of the first block need not be added to +0: a slice
// of -0 adds to a total, which begins with +0, as one of +0 does.
struct FirstTerm { DEVICE_MEMBER void operator()(float &slice, float sum, float w, float x) const { slice = sum * (w * x); } };
#ifdef FUSED
struct NextTerm { DEVICE_MEMBER void operator()(float &slice, float sum, float w, float x) const { slice = fma(sum, w * x, slice); } };
#else
struct NextTerm { DEVICE_MEMBER void operator()(float &slice, float sum, float w, float x) const { slice = slice + sum * (w * x); } };
#endif
#define TERMS_4(add, slice, c, g, i0, i1, i2, i3) do { \
    if ((g) % 2 == 0) xs4_ = shared_quad(xs_ + (g) * 8); \
    float x = float_of((g) % 2 == 0 ? xs4_.x : xs4_.z), y = float_of((g) % 2 == 0 ? xs4_.y : xs4_.w), f; \
    SUM_AS_FLOAT(f, c, i0); add(slice[i0], f, upper_, x); \
    SUM_AS_FLOAT(f, c, i1); add(slice[i1], f, upper_, y); \
    SUM_AS_FLOAT(f, c, i2); add(slice[i2], f, lower_, x); \
    SUM_AS_FLOAT(f, c, i3); add(slice[i3], f, lower_, y); } while (0)
#define TERMS_16(add, slice, c) TERMS_4(add, slice, c, 0, 0, 1, 2, 3); TERMS_4(add, slice, c, 1, 4, 5, 6, 7); TERMS_4(add, slice, c, 2, 8, 9, 10, 11); TERMS_4(add, slice, c, 3, 12, 13, 14, 15)
#if COLUMNS == 64
#define TERMS_N(add, slice, c) TERMS_16(add, slice, c); TERMS_4(add, slice, c, 4, 16, 17, 18, 19); TERMS_4(add, slice, c, 5, 20, 21, 22, 23); \
    TERMS_4(add, slice, c, 6, 24, 25, 26, 27); TERMS_4(add, slice, c, 7, 28, 29, 30, 31)
#else
#define TERMS_N TERMS_16
#endif
// Adds the terms of the sums c to a slice: the scales of a lane's two rows, the upper and
// the lower, by those of its columns in shared memory at xs.
#define TERMS(add, slice, c, upper, lower, xs) do { u32 xs_ = (xs); u32x4 xs4_; float upper_ = (upper), lower_ = (lower); TERMS_N(add, slice, c); } while (0)

// A sum, one block after the other.
DEVICE float plain_sum(const u32 *codes, const u32 *scales, const u32 *a, const Push &p, u32 share, u32 row, u32 t) {
    u32 fours = (((p.nb - 1) >> share) + 4) / 4;
    const u32 *q = codes + ((u64)(row / GROUP) * p.nb * GROUP + row % GROUP) * 4, *d = scales + ((u64)(row / GROUP) * fours * GROUP + row % GROUP) * 2;
    const u32 *x = a + (u64)t * 16, *pairs = a + (u64)p.n * p.nb * 16 + (u64)t * 2;
    float total = 0, slice = 0;
#pragma unroll 1
    for (u32 b = 0; b < p.nb; b++, x += p.n * 16, pairs += p.n * 2) {
        u32 at = b >> share;
        int sum = 0;
#pragma unroll 4
        for (u32 i = 0; i < 16; i++) sum = dot4(sum, signed4(q[b * GROUP * 4 + i / 4] >> i % 4 * 2), x[i]);
        slice = slice + (float)sum * (low_half(d[at / 4 * GROUP * 2 + at % 4 / 2] >> at % 2 * 16) * float_of(pairs[0]));
        if (b % SLICE < SLICE - 1 && b + 1 < p.nb) continue;
        total = total + slice;
        slice = 0;
    }
    return total;
}
