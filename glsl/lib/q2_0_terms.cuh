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

// Four codes in bytes, each minus 1.
DEVICE u32 signed4(u32 q) { return ((q & 0x03030303u) + 0x7f7f7f7fu) ^ 0x80808080u; }

DEVICE void add_term(float &slice, float sum, float w, float x) { slice = slice + sum * (w * x); }
#define TERMS_4(slice, c, g, i0, i1, i2, i3) do { \
    if ((g) % 2 == 0) xs4_ = shared_quad(xs_ + (g) * 8); \
    float x = float_of((g) % 2 == 0 ? xs4_.x : xs4_.z), y = float_of((g) % 2 == 0 ? xs4_.y : xs4_.w), f; \
    SUM_AS_FLOAT(f, c, i0); add_term(slice[i0], f, upper_, x); \
    SUM_AS_FLOAT(f, c, i1); add_term(slice[i1], f, upper_, y); \
    SUM_AS_FLOAT(f, c, i2); add_term(slice[i2], f, lower_, x); \
    SUM_AS_FLOAT(f, c, i3); add_term(slice[i3], f, lower_, y); } while (0)
#define TERMS_16(slice, c) TERMS_4(slice, c, 0, 0, 1, 2, 3); TERMS_4(slice, c, 1, 4, 5, 6, 7); TERMS_4(slice, c, 2, 8, 9, 10, 11); TERMS_4(slice, c, 3, 12, 13, 14, 15)
#if COLUMNS == 64
#define TERMS_N(slice, c) TERMS_16(slice, c); TERMS_4(slice, c, 4, 16, 17, 18, 19); TERMS_4(slice, c, 5, 20, 21, 22, 23); \
    TERMS_4(slice, c, 6, 24, 25, 26, 27); TERMS_4(slice, c, 7, 28, 29, 30, 31)
#else
#define TERMS_N TERMS_16
#endif
// Adds the terms of the sums c to a slice: the scales of a lane's two rows, the upper and
// the lower, by those of its columns in shared memory at xs.
#define TERMS(slice, c, upper, lower, xs) do { u32 xs_ = (xs); u32x4 xs4_; float upper_ = (upper), lower_ = (lower); TERMS_N(slice, c); } while (0)
