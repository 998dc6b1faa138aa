// The product for many tokens on matrix instructions of warpgroups:
// runtime/ref/mul_mat_q2_0.go. ROWS x TOKENS by WGS warpgroups of 64 rows, which add
// terms of one half of the tokens while the other half's matrices are multiplied; four
// more warps bring codes, activations and scales, up to four blocks ahead, and those of the
// next tile while sums of one are stored. FUSED is within the bound "product": a product is
// not rounded before it is added, which saves one instruction of four.
//
// What takes the time is the number of instructions: terms take four each, 256 a block of
// a warp, and matrices, whose sums take the same ports of registers, run beside nothing.
#define HALF (TOKENS / 2)
#define COLUMNS HALF
#include "q2_0_terms.cuh"

#define ROWS (64 * WGS)
#define STAGES 4u

// Shared memory, each for all stages; scales of weights for four blocks, twice.
#define W_BYTES (ROWS * 16u)
#define WS_BYTES (ROWS * 8u)
#define AT_X 0u
#define AT_W (AT_X + STAGES * X_BYTES)
#define AT_WS (AT_W + STAGES * W_BYTES)
#define AT_XS (AT_WS + 2 * WS_BYTES)
#define AT_FULL (AT_XS + STAGES * XS_BYTES)
#define AT_EMPTY (AT_FULL + STAGES * 8u)
DYNAMIC_SHARED(stage);

// A workgroup takes every groups()-th tile. Blocks of one tile follow those of another
// through the ring, whole slices of each: a block that only fills a slice up has scales of 0.
struct Work { u32 tiles, blocks; };
DEVICE Work work_of(const Push &p) { return {(p.rows + ROWS - 1) / ROWS * ((p.n + TOKENS - 1) / TOKENS), (p.nb + SLICE - 1) / SLICE * SLICE}; }

DEVICE void bring_stages(u32 base, const u8 *codes, const u8 *scales, const u8 *a, const Push &p, u32 share) {
    Work work = work_of(p);
    u32 lane = thread() % 128, t = lane / 4, nb = p.nb, fours = (((nb - 1) >> share) + 4) / 4;
    u32 x_to = base + AT_X + t * 64 + (lane % 4 ^ t / 2 % 4) * 16, xs_to = base + AT_XS + place_of_scale(lane % TOKENS);
    u32 w_to = base + AT_W + lane * 16, ws_to = base + AT_WS + lane * 8;
    bool first = true;
#pragma unroll 1
    for (u32 i = group_x(); i < work.tiles; i += groups()) {
        Tile tile = tile_of(p, ROWS, TOKENS, i);
        u32 row = min(tile.row + lane % ROWS, p.rows - 1), token = tile.token + lane % TOKENS;
        const u8 *w_from = codes + ((u64)(row / GROUP) * nb * GROUP + row % GROUP) * 16, *ws_from = scales + ((u64)(row / GROUP) * fours * GROUP + row % GROUP) * 8;
        const u8 *x_from = a + (u64)tile.token * 64 + lane * 16, *xs_from = a + (u64)p.n * nb * 64 + token * 8;
        u32 x_bytes[TOKENS / 32], xs_bytes = token < p.n ? 4 : 0; // none of tokens that are not there
#pragma unroll
        for (u32 j = 0; j < TOKENS / 32; j++) x_bytes[j] = tile.token + j * 32 + t < p.n ? 16 : 0;
#pragma unroll 1
        for (u32 b = 0; b < work.blocks; b += STAGES) {
#pragma unroll
            for (u32 s = 0; s < STAGES; s++) {
                wait(base + AT_EMPTY + 8 * s, (b / STAGES & 1) ^ 1);
#pragma unroll
                for (u32 j = 0; j < TOKENS / 32; j++) copy16(x_to + s * X_BYTES + j * 2048, x_from + j * 2048, x_bytes[j]);
                if (lane < ROWS) copy16(w_to + s * W_BYTES, w_from);
                if (lane < ROWS && s == 0) copy8(ws_to + b / STAGES % 2 * WS_BYTES, ws_from + (min(b, nb - 1) >> share) / 4 * (GROUP * 8));
                if (lane < TOKENS) copy4(xs_to + s * XS_BYTES, xs_from, b + s < nb ? xs_bytes : 0);
                copies_commit();
                if (b + s + 1 < nb) {
                    x_from += p.n * 64;
                    xs_from += p.n * 8;
                    w_from += GROUP * 16;
                }
                if (s == 0 && first) {
                    first = false;
                    continue;
                }
                // Not by the copies themselves: arrivals of that kind are slow through Vulkan.
                copies_wait<1>();
                for_matrices();
                arrive(base + AT_FULL + 8 * ((s + STAGES - 1) % STAGES));
            }
        }
    }
    // Behind the last block something is begun that nobody needs.
    copies_wait<0>();
    for_matrices();
    arrive(base + AT_FULL + 8 * (STAGES - 1));
    wait(base + AT_EMPTY, 1);
    arrive(base + AT_FULL);
}

KERNEL_TIMES(128 * (WGS + 1), 1) kernel(const u8 *codes, const u8 *scales, const u8 *a, float *y, Push p, Spec spec) {
    u32 base = shared_address(stage), wg = thread() / 128, share = spec.share;
    make_barriers(base + AT_FULL, base + AT_EMPTY, STAGES, 4 * WGS);
    if (wg == WGS) {
#ifdef FEW_REGISTERS
        fewer_registers<FEW_REGISTERS>();
#endif
        bring_stages(base, codes, scales, a, p, share);
        return;
    }
#ifdef MANY_REGISTERS
    more_registers<MANY_REGISTERS>();
#endif
    u32 lane = thread() % 128, c4 = lane % 4, r = wg * 64 + lane / 32 * 16 + lane % 32 / 4, to_top = to_top_of(lane), next[8];
    u32 w_at = base + r * 16; // scales are at half of it: another register would be one too many
    float total[2 * SUMS]; // -64 times what they stand for
    float slice0[SUMS], slice1[SUMS];
    DECLARE_SUMS(first, second, 32);
    DECLARE_WGMMA();
    // Begins the first half of the block in a stage.
    auto begin = [&](u32 s) __attribute__((always_inline)) {
        u32 at = w_at + AT_W + s * W_BYTES;
        u32x4 u = shared_quad(at), v = shared_quad(at + 8 * 16);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            next[2 * i] = weights_of(u[i], to_top);
            next[2 * i + 1] = weights_of(v[i], to_top);
        }
        MULTIPLY(N, REGS(first), next, base + AT_X + s * X_BYTES);
    };
    // A block in a stage, of which the first half has begun; begins the next stage's.
    auto step = [&](auto add, u32 b, u32 s, u32 parity) __attribute__((always_inline)) {
        u32 half_of = w_at;
        here(half_of);
        u32 xs = base + AT_XS + s * XS_BYTES + c4 * XS_STRIDE, ws = AT_WS + b / STAGES % 2 * WS_BYTES + half_of / 2 + base / 2 + (b >> share) % 4 * 2;
        u32 s_next = (s + 1) % STAGES;
        float upper = shared_half(ws), lower = shared_half(ws + 8 * 8);
        wgmma_wait();
        MULTIPLY(N, REGS(second), next, base + AT_X + s * X_BYTES + HALF * 64);
        TERMS(add, slice0, first, upper, lower, xs);
        wait(base + AT_FULL + 8 * s_next, parity);
        wgmma_wait();
        begin(s_next);
        TERMS(add, slice1, second, upper, lower, xs + XS_MATRIX);
        warp_barrier();
        if (lane % 32 == 0) arrive(base + AT_EMPTY + 8 * s);
    };
    wait(base + AT_FULL, 0);
    begin(0);
#pragma unroll 1
    for (u32 tile = group_x(); tile < work_of(p).tiles; tile += groups()) {
#pragma unroll
        for (u32 i = 0; i < 2 * SUMS; i++) total[i] = 0;
#pragma unroll 1
        for (u32 from = 0; from < p.nb; from += SLICE) {
            step(FirstTerm(), from, 0, 0);
#pragma unroll
            for (u32 i = 1; i < SLICE; i++) step(NextTerm(), from + i, i % STAGES, (i + 1) / STAGES % 2);
#pragma unroll
            for (u32 i = 0; i < SUMS; i++) {
                total[i] = total[i] + slice0[i];
                total[SUMS + i] = total[SUMS + i] + slice1[i];
            }
        }
        Tile at = tile_of(p, ROWS, TOKENS, tile);
        u32 me = thread_again(), row = at.row + me / 32 * 16 + me % 32 / 4, token = at.token + 2 * (me % 4);
        u32 tokens = p.n - min(p.n, token); // how many columns there are from the first on
        bool is_upper = row < p.rows, is_lower = row + 8 < p.rows;
        float *to[2] = {y + (u64)token * p.stride + p.row0 + row}, whole = 0;
        to[1] = to[0] + p.stride;
#pragma unroll
        for (u32 g = 0; g < TOKENS / 8; g++) {
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                float upper = total[4 * g + i], lower = total[4 * g + 2 + i];
                bool is_token = 8 * g + i < tokens;
                whole = whole + upper + lower; // not finite, if one is not
                if (is_token & is_upper) to[i][0] = tidy(upper * -0x1p-6f);
                if (is_token & is_lower) to[i][8] = tidy(lower * -0x1p-6f);
                to[i] += 8 * p.stride;
            }
        }
        if (mag(whole) < INF_BITS) continue;
        // What is too large times -64 may not be without.
#pragma unroll 1
        for (u32 i = 0; i < 2 * SUMS; i++) {
            u32 of = row + i / 2 % 2 * 8, t = token + i / 4 * 8 + i % 2;
            if (of < p.rows && t < p.n) y[(u64)t * p.stride + p.row0 + of] = tidy(plain_sum((const u32 *)codes, (const u32 *)scales, (const u32 *)a, p, share, of, t));
        }
    }
    wgmma_wait();
}
