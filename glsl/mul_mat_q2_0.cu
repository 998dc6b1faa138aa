// The product for many tokens on matrix instructions of warpgroups:
// runtime/ref/mul_mat_q2_0.go. ROWS x TOKENS by WGS warpgroups of 64 rows, which add
// terms of one half of the tokens while the other half's matrices are multiplied; four
// more warps bring codes, activations and scales, four blocks ahead.
#define HALF (TOKENS / 2)
#define COLUMNS HALF
#include "q2_0_terms.cuh"

#define ROWS (64 * WGS)
#define STAGES 4u

// Shared memory, each for all stages.
#define W_BYTES (ROWS * 16u)
#define WS_BYTES (ROWS * 8u) // four scales of blocks
#define AT_X 0u
#define AT_W (AT_X + STAGES * X_BYTES)
#define AT_WS (AT_W + STAGES * W_BYTES)
#define AT_XS (AT_WS + STAGES * WS_BYTES)
#define AT_FULL (AT_XS + STAGES * XS_BYTES)
#define AT_EMPTY (AT_FULL + STAGES * 8u)
DYNAMIC_SHARED(stage);

DEVICE void bring_stages(u32 base, const u32x4 *codes, const u32x2 *scales, const u32x4 *a, const Push &p, u32 share, u32 m0, u32 n0) {
    u32 lane = thread() % 128, nb = p.nb, fours = (((nb - 1) >> share) + 4) / 4;
    u32 row = min(m0 + lane % ROWS, p.rows - 1), token = min(n0 + lane % TOKENS, p.n - 1);
    const u32x4 *w_from = codes + row / GROUP * nb * GROUP + row % GROUP;
    const u32x2 *ws_from = scales + row / GROUP * fours * GROUP + row % GROUP;
    const u8 *block = (const u8 *)a, *xs_from = block + (u64)p.n * nb * 64 + token * 8;
    u32 quarter = lane % 4, t = lane / 4, x_to = base + AT_X + t * 64 + (quarter ^ t / 2 % 4) * 16, x_from[TOKENS / 32];
#pragma unroll
    for (u32 i = 0; i < TOKENS / 32; i++) x_from[i] = min(n0 + i * 32 + t, p.n - 1) * 64 + quarter * 16;
    for (u32 b = 0; b < nb; b++, block += p.n * 64, xs_from += p.n * 8, w_from += GROUP) {
        u32 s = b % STAGES;
        wait(base + AT_EMPTY + 8 * s, (b / STAGES & 1) ^ 1);
#pragma unroll
        for (u32 i = 0; i < TOKENS / 32; i++) copy16(x_to + s * X_BYTES + i * 2048, block + x_from[i]);
        if (lane < ROWS) {
            copy16(base + AT_W + s * W_BYTES + lane * 16, w_from);
            copy8(base + AT_WS + s * WS_BYTES + lane * 8, ws_from + (b >> share) / 4 * GROUP);
        }
        if (lane < TOKENS) copy4(base + AT_XS + s * XS_BYTES + place_of_scale(lane), xs_from);
        // Not by themselves: copies that arrive at a barrier are slow through Vulkan.
        copies_commit();
        if (b == 0) continue;
        copies_wait<1>();
        arrive(base + AT_FULL + 8 * ((b - 1) % STAGES));
    }
    copies_wait<0>();
    arrive(base + AT_FULL + 8 * ((nb - 1) % STAGES));
}

KERNEL_TIMES(128 * (WGS + 1), 1) kernel(const u32x4 *codes, const u32x2 *scales, const u32x4 *a, float *y, Push p, Spec spec) {
    u32 base = shared_address(stage), wg = thread() / 128, nb = p.nb, share = spec.share;
    Tile tile = tile_of(p, ROWS, TOKENS);
    u32 m0 = tile.row, n0 = tile.token;
    make_barriers(base + AT_FULL, base + AT_EMPTY, STAGES, 4 * WGS);
    if (wg == WGS) {
#ifdef FEW_REGISTERS
        fewer_registers<FEW_REGISTERS>();
#endif
        bring_stages(base, codes, scales, a, p, share, m0, n0);
        return;
    }
#ifdef MANY_REGISTERS
    more_registers<MANY_REGISTERS>();
#endif
    u32 lane = thread() % 128, c4 = lane % 4, r = wg * 64 + lane / 32 * 16 + lane % 32 / 4, next[8];
    float total0[SUMS], total1[SUMS], slice0[SUMS], slice1[SUMS];
    DECLARE_SUMS(first, second, 32);
    DECLARE_WGMMA();
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) total0[i] = total1[i] = 0;
    // Begins the first half of the block in a stage.
    auto begin = [&](u32 s) __attribute__((always_inline)) {
        u32 at = base + AT_W + s * W_BYTES + r * 16;
        u32x4 u = shared_quad(at), v = shared_quad(at + 8 * 16);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            next[2 * i] = signed4(u[i] >> 2 * c4);
            next[2 * i + 1] = signed4(v[i] >> 2 * c4);
        }
        for_matrices();
        MULTIPLY(N, REGS(first), next, base + AT_X + s * X_BYTES);
    };
    wait(base + AT_FULL, 0);
    begin(0);
    for (u32 from = 0; from < nb; from += SLICE) {
#pragma unroll
        for (u32 i = 0; i < SUMS; i++) slice0[i] = slice1[i] = 0;
        auto step = [&](u32 b, u32 s, u32 s_next, u32 parity) __attribute__((always_inline)) {
            u32 xs = base + AT_XS + s * XS_BYTES + c4 * XS_STRIDE, ws = base + AT_WS + s * WS_BYTES + r * 8 + (b >> share) % 4 * 2;
            float ws0 = shared_half(ws), ws1 = shared_half(ws + 8 * 8);
            wgmma_wait();
            MULTIPLY(N, REGS(second), next, base + AT_X + s * X_BYTES + HALF * 64);
            TERMS(slice0, first, ws0, ws1, xs);
            wait(base + AT_FULL + 8 * s_next, parity);
            wgmma_wait();
            begin(s_next);
            TERMS(slice1, second, ws0, ws1, xs + XS_MATRIX);
            warp_barrier();
            if (lane % 32 == 0) arrive(base + AT_EMPTY + 8 * s);
        };
        if (UNROLL && from + SLICE < nb) { // stages are constants then: 1.07 times as fast
#pragma unroll 1
            for (u32 b = from; b < from + SLICE; b += STAGES) {
                u32 parity = b / STAGES & 1;
#pragma unroll
                for (u32 u = 0; u < STAGES; u++) step(b + u, u, (u + 1) % STAGES, u + 1 < STAGES ? parity : parity ^ 1);
            }
        } else {
#pragma unroll 1
            for (u32 b = from, end = min(from + SLICE, nb); b < end; b++) {
                u32 after = min(b + 1, nb - 1); // the last one's first half is multiplied twice
                step(b, b % STAGES, after % STAGES, after / STAGES & 1);
            }
        }
#pragma unroll
        for (u32 i = 0; i < SUMS; i++) {
            total0[i] = total0[i] + slice0[i];
            total1[i] = total1[i] + slice1[i];
        }
    }
    wgmma_wait();
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) {
        u32 row = m0 + r + i / 2 % 2 * 8, t = n0 + i / 4 * 8 + 2 * c4 + i % 2;
        float *to = y + (u64)t * p.stride + p.row0 + row;
        if (row < p.rows && t < p.n) *to = tidy(total0[i]);
        if (row < p.rows && t + HALF < p.n) to[(u64)HALF * p.stride] = tidy(total1[i]);
    }
}
