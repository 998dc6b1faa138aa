// The product for many tokens on matrix instructions of halves, within the bound "product"
// of runtime/ref/bound_product.go: weights are exact as halves, activations are x * d / 4
// rounded to halves, sums are floats over the whole of K, in the order of the hardware.
//
// ROWS x TOKENS by WGS warpgroups of 64 rows, which make halves of codes in registers
// while the matrices of the block before are multiplied; four more warps make halves of
// activations, one block ahead, in shared memory.
//
// A lane's codes are bits 8 g to 8 g + 7, and 16 further on, of words 2 a and 2 a + 1 of a
// quad, where 2 a + g is its number in four. That gives the order of a block in memory:
// part 4 i + u of 16 bytes has elements 16 (2 a + i) + 4 g + u and 8 more, of all a and g.
#include "q2_0.cuh"

#define ROWS (64 * WGS)
#define STAGES 2u
#define TURN 4u  // blocks with stages and parities as constants; beyond the last one are zeros
#define AHEAD 4u // blocks whose codes are under way
#define X_BYTES (TOKENS * 128u)
#define PER_LANE (TOKENS / 64) // tokens that a lane converts
#if TOKENS == 128
#define N 128
#define SUMS REGS_64(sum)
#else
#define N 64
#define SUMS REGS_32(sum)
#endif

#define AT_FULL (STAGES * X_BYTES)
#define AT_EMPTY (AT_FULL + STAGES * 8u)
DYNAMIC_SHARED(stage);

DEVICE u32 both(u32 half) { return bytes_of(half, 0, 0x1010); }

// code - 1, times a scale, of the two codes at bits 2 u and 2 u + 16; base is halves in whose
// mantissas bit 2 u counts 1.
DEVICE u32 weights_of(u32 codes, u32 u, u32 scale) {
    u32 base = 0x64006400u - u * 0x08000800u, one = 0x00010001u << 2 * u;
    return mul_halves(add_halves(and_xor(codes, 3 * one, base), (base | one) ^ 0x80008000u), scale);
}

// x / 128, times a scale, of the signed bytes 0 and 2; with 128 more they follow 8 as fractions.
DEVICE u32 activations_of(u32 x, u32 scale) { return mul_halves(add_halves(and_xor(x, 0x00ff00ff, 0x48804880), 0xc880c880u), scale); }

DEVICE void bring_stages(u32 base, const u8 *a, const Push &p, u32 n0, u32 blocks) {
    u32 lane = thread() % 128, i = lane % 2, t = lane / 2, to[4];
    const u8 *from[PER_LANE], *scale_from[PER_LANE];
    u32 end[PER_LANE]; // blocks of a token, none if it is not there
    u32x4 next[STAGES][PER_LANE][2];
    float next_scale[STAGES][PER_LANE];
#pragma unroll
    for (u32 k = 0; k < PER_LANE; k++) {
        u64 token = n0 + t + 64 * k;
        from[k] = a + token * 64 + 16 * i;
        scale_from[k] = a + (u64)p.n * p.nb * 64 + token * 8;
        end[k] = token < p.n ? p.nb : 0;
    }
#pragma unroll
    for (u32 u = 0; u < 4; u++) to[u] = base + t * 128 + ((4 * i + u) ^ t % 8) * 16;
    auto read_block = [&](u32 b, u32 s) __attribute__((always_inline)) {
#pragma unroll
        for (u32 k = 0; k < PER_LANE; k++) {
            next_scale[s][k] = 0;
            if (b >= end[k]) continue;
            next[s][k][0] = read_quad(from[k] + (u64)b * p.n * 64);
            next[s][k][1] = read_quad(from[k] + (u64)b * p.n * 64 + 32);
            next_scale[s][k] = float_of(read(scale_from[k] + (u64)b * p.n * 8));
        }
    };
#pragma unroll
    for (u32 s = 0; s < STAGES; s++) {
#pragma unroll
        for (u32 k = 0; k < PER_LANE; k++) next[s][k][0] = next[s][k][1] = u32x4{0, 0, 0, 0};
        read_block(s, s);
    }
#pragma unroll 1
    for (u32 b = 0; b < blocks; b += STAGES) {
#pragma unroll
        for (u32 s = 0; s < STAGES; s++) {
            u32x4 x[PER_LANE][4];
#pragma unroll
            for (u32 k = 0; k < PER_LANE; k++) {
                float d = next_scale[s][k], scaled = d * 32.0f;
                scaled = (scaled < 65504.0f ? scaled : 65504.0f) + (d - d); // infinite: not a number
                u32 scale = both(half_of(scaled));
#pragma unroll
                for (u32 u = 0; u < 4; u++) {
                    u32 lower = next[s][k][0][u], upper = next[s][k][1][u];
                    x[k][u] = u32x4{activations_of(lower, scale), activations_of(lower >> 8, scale), activations_of(upper, scale), activations_of(upper >> 8, scale)};
                }
            }
            read_block(b + s + STAGES, s);
            wait(base + AT_EMPTY + 8 * s, (b / STAGES & 1) ^ 1);
#pragma unroll
            for (u32 k = 0; k < PER_LANE; k++) {
#pragma unroll
                for (u32 u = 0; u < 4; u++) store_quad(to[u] + s * X_BYTES + k * 64 * 128, x[k][u]);
            }
            for_matrices();
            arrive(base + AT_FULL + 8 * s);
        }
    }
}

KERNEL_TIMES(128 * (WGS + 1), 1) kernel(const u8 *codes, const u8 *scales, const u8 *a, float *y, Push p, Spec spec) {
    u32 base = shared_address(stage), wg = first_lane(thread() / 128), nb = p.nb, share = spec.share;
    Tile tile = tile_of(p, ROWS, TOKENS, group_y() * ((p.rows + ROWS - 1) / ROWS) + group_x());
    u32 m0 = tile.row, n0 = tile.token;
    u32 blocks = (nb + TURN - 1) / TURN * TURN;
    make_barriers(base + AT_FULL, base + AT_EMPTY, STAGES, 4 * WGS);
    if (wg == WGS) {
#ifdef FEW_REGISTERS
        fewer_registers<FEW_REGISTERS>();
#endif
        bring_stages(base, a, p, n0, blocks);
        return;
    }
#ifdef MANY_REGISTERS
    more_registers<MANY_REGISTERS>();
#endif
    u32 lane = thread() % 128, c4 = lane % 4, r = wg * 64 + lane / 32 * 16 + lane % 32 / 4, fours = (((nb - 1) >> share) + 4) / 4;
    u64 group = min((m0 + r) / GROUP, (p.rows - 1) / GROUP); // of rows r and r + 8; groups are whole
    const u8 *from = codes + (group * nb * GROUP + r % GROUP) * 16 + c4 / 2 * 8, *scales_from = scales + (group * fours * GROUP + r % GROUP) * 8;
    u32x2 upper[AHEAD], lower[AHEAD];
    u32 upper_scale[AHEAD], lower_scale[AHEAD], w[2][16];
    auto read_block = [&](u32 b, u32 q) __attribute__((always_inline)) {
        b = min(b, nb - 1);
        u32 d = b >> share;
        const u8 *block = from + (u64)b * (GROUP * 16), *scale = scales_from + (u64)(d / 4) * (GROUP * 8) + d % 4 * 2;
        upper[q] = read_pair(block);
        lower[q] = read_pair(block + 8 * 16);
        upper_scale[q] = read_half(scale);
        lower_scale[q] = read_half(scale + 8 * 8);
    };
    // Makes halves of the codes that q has, and reads those of block b in their place.
    auto unpack = [&](u32 q, u32 b) __attribute__((always_inline)) {
        u32 d0 = both(upper_scale[q]), d1 = both(lower_scale[q]);
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 c0 = upper[q][i] >> 8 * (c4 % 2), c1 = lower[q][i] >> 8 * (c4 % 2);
#pragma unroll
            for (u32 u = 0; u < 4; u++) {
                w[q % 2][8 * i + 2 * u] = weights_of(c0, u, d0);
                w[q % 2][8 * i + 2 * u + 1] = weights_of(c1, u, d1);
            }
        }
#pragma unroll
        for (u32 i = 0; i < 16; i++) here(w[q % 2][i]); // not between matrix instructions
        read_block(b, q);
    };
    DECLARE_HALVES();
#pragma unroll
    for (u32 q = 0; q < AHEAD; q++) read_block(q, q);
#pragma unroll 1
    for (u32 b = 0; b < blocks; b += TURN) {
        BEGUN(b);
#pragma unroll
        for (u32 q = 0; q < TURN; q++) {
            u32 s = q % STAGES;
            unpack(q, b + q + AHEAD);
            wait(base + AT_FULL + 8 * s, q / STAGES & 1);
            if (q == 0)
                MULTIPLY_HALVES(N, SUMS, w[0], base, begun);
            else
                MULTIPLY_HALVES(N, SUMS, w[q % 2], base + s * X_BYTES, all);
            wgmma_wait_but_last();
            warp_barrier();
            if (lane % 32 == 0 && b + q > 0) arrive(base + AT_EMPTY + 8 * ((q + 1) % STAGES)); // the block before is done
        }
    }
    wgmma_wait();
    float sums[TOKENS / 2];
#define TAKE(i0, i1, i2, i3) FLOAT_SUM(sums[i0], i0); FLOAT_SUM(sums[i1], i1); FLOAT_SUM(sums[i2], i2); FLOAT_SUM(sums[i3], i3)
    TAKE(0, 1, 2, 3); TAKE(4, 5, 6, 7); TAKE(8, 9, 10, 11); TAKE(12, 13, 14, 15);
    TAKE(16, 17, 18, 19); TAKE(20, 21, 22, 23); TAKE(24, 25, 26, 27); TAKE(28, 29, 30, 31);
#if TOKENS == 128
    TAKE(32, 33, 34, 35); TAKE(36, 37, 38, 39); TAKE(40, 41, 42, 43); TAKE(44, 45, 46, 47);
    TAKE(48, 49, 50, 51); TAKE(52, 53, 54, 55); TAKE(56, 57, 58, 59); TAKE(60, 61, 62, 63);
#endif
    u32 row = m0 + r, token = n0 + 2 * c4, tokens = p.n - min(p.n, token); // how many columns there are from the first on
    bool is_upper = row < p.rows, is_lower = row + 8 < p.rows;
    float *to[2] = {y + (u64)token * p.stride + p.row0 + row};
    to[1] = to[0] + p.stride;
#pragma unroll
    for (u32 g = 0; g < TOKENS / 8; g++) {
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            bool is_token = 8 * g + i < tokens;
            if (is_token & is_upper) to[i][0] = tidy(4 * sums[4 * g + i]);
            if (is_token & is_lower) to[i][8] = tidy(4 * sums[4 * g + 2 + i]);
            to[i] += 8 * p.stride;
        }
    }
}
