// The product for dozens of tokens on matrix instructions of warpgroups:
// runtime/ref/mul_mat_q2_0.go. A tile of 64 rows x TOKENS is shared by PARTS warpgroups,
// which take slices in turn; sums of slices go from one to the next through shared
// memory, in order. BLOCKS blocks are multiplied at a time. A lane reads its codes from
// memory into registers one turn ahead; activations lie in a ring of RING turns. What a
// warpgroup needs two slices later is on its way to the L2 cache.
#define COLUMNS TOKENS
#include "q2_0_terms.cuh"

// Shared memory: rings of each part, and the sum of the slices so far if there are several.
#define AT_X 0u
#define AT_TOTAL (AT_X + PARTS * RING * BLOCKS * X_BYTES)
#define AT_XS (AT_TOTAL + (PARTS > 1 ? 64u * TOKENS * 4u : 0u))
DYNAMIC_SHARED(memory);

// A turn's weights of rows r and r + 8, as they come from memory.
struct Weights { u32x4 upper[BLOCKS], lower[BLOCKS]; u32 upper_scales, lower_scales; };

// The scale of such weights. Times that of activations it may stay below infinity where the
// scale that it stands for does not, if that is large: sums with such a term are made anew.
DEVICE float scale_of(float d) { return __builtin_fabsf(d) < 64.0f ? d * -0x1p-6f : float_of(0x7fc00000u); }

KERNEL_TIMES(128 * PARTS, TIMES) kernel(const u32x4 *codes, const u32x2 *scales, const u32x4 *a, float *y, Push p, Spec spec) {
    u32 lane = thread() % 128, part = first_lane(thread() / 128), nb = p.nb, slices = (nb + SLICE - 1) / SLICE;
    u32 m0 = group_x() * 64, n0 = group_y() * TOKENS, base = shared_address(memory);
    u32 at_x = base + AT_X + part * (RING * BLOCKS * X_BYTES), at_xs = base + AT_XS + part * (RING * BLOCKS * XS_BYTES);

    // Weights of a lane: rows r and r + 8 are of one group, and groups are whole.
    u32 c4 = lane % 4, r = lane / 32 * 16 + lane % 32 / 4, fours = (((nb - 1) >> spec.share) + 4) / 4, to_top = to_top_of(lane);
    u32 last_group = (p.rows - 1) / GROUP;
    u64 group = min((m0 + r) / GROUP, last_group);
    const u8 *w_from = (const u8 *)(codes + group * nb * GROUP + r % GROUP), *ws_from = (const u8 *)(scales + group * fours * GROUP + r % GROUP);
    auto read_weights = [&](u32 b, Weights &w) __attribute__((always_inline)) {
        b = min(b, (nb - 1) / BLOCKS * BLOCKS);
        const u8 *from = w_from + (u64)b * (GROUP * 16), *second = b + 1 < nb ? from + GROUP * 16 : from;
#pragma unroll
        for (u32 i = 0; i < BLOCKS; i++) {
            w.upper[i] = read_once(i == 0 ? from : second);
            w.lower[i] = read_once((i == 0 ? from : second) + 8 * 16);
        }
        u32 d = b >> spec.share; // BLOCKS blocks have scales of one word
        const u8 *ws = ws_from + (d / 4 * (GROUP * 8) + d % 4 / 2 * 4);
        w.upper_scales = read(ws);
        w.lower_scales = read(ws + 8 * 8);
    };
    auto prefetch_slice = [&](u32 s) __attribute__((always_inline)) {
        if (s >= slices || lane != 0) return;
        u32 d = (s * SLICE >> spec.share) / 4;
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u64 g = min(m0 / GROUP + i, last_group);
            prefetch(codes + (g * nb + s * SLICE) * GROUP, min(nb - s * SLICE, SLICE) * GROUP * 16);
            prefetch(scales + (g * fours + d) * GROUP, min(fours - d, 2) * GROUP * 8);
        }
    };

    // Activations that a lane copies, of tokens that are there: quarters of blocks, and a scale.
    u32 quarter = lane % 4, row = lane / 4, token = lane % TOKENS, of_turn = lane / TOKENS, x_end[TOKENS / 32];
    const u8 *x_from[TOKENS / 32], *xs_from = (const u8 *)a + (u64)p.n * nb * 64 + ((u64)of_turn * p.n + n0 + token) * 8;
    u32 x_to = at_x + row * 64 + (quarter ^ row / 2 % 4) * 16, xs_to = at_xs + of_turn * XS_BYTES + place_of_scale(token);
    u32 xs_end = of_turn < min(BLOCKS, nb) && n0 + token < p.n ? nb - of_turn : 0;
#pragma unroll
    for (u32 i = 0; i < TOKENS / 32; i++) {
        u32 t = n0 + i * 32 + row;
        x_from[i] = (const u8 *)a + (u64)t * 64 + quarter * 16;
        x_end[i] = t < p.n ? nb : 0;
    }
    auto copy_activations = [&](u32 b, u32 slot) __attribute__((always_inline)) {
#pragma unroll
        for (u32 i = 0; i < BLOCKS * TOKENS / 32; i++) {
            u32 block = i % BLOCKS, of = i / BLOCKS;
            if (b + block < x_end[of]) copy16(x_to + (slot * BLOCKS + block) * X_BYTES + of * 2048, x_from[of] + (u64)(b + block) * p.n * 64);
        }
        if (b < xs_end) copy4(xs_to + slot * BLOCKS * XS_BYTES, xs_from + (u64)b * p.n * 8);
        copies_commit();
    };

    // A turn: BLOCKS blocks from b on, q of their slice; the next ones' weights are on their way.
    float slice[SUMS];
    Weights w;
    DECLARE_SUMS(first, second, 32);
    DECLARE_WGMMA();
    auto turn = [&](u32 b, u32 q) __attribute__((always_inline)) {
        u32 slot = q / BLOCKS % RING, codes_of[BLOCKS][8], ahead = q + (RING - 1) * BLOCKS;
        float scales_of[BLOCKS][2];
#pragma unroll
        for (u32 i = 0; i < BLOCKS; i++) {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                codes_of[i][2 * j] = weights_of(w.upper[i][j], to_top);
                codes_of[i][2 * j + 1] = weights_of(w.lower[i][j], to_top);
            }
            u32 half = ((b + i) >> spec.share & 1) * 16;
            scales_of[i][0] = scale_of(low_half(w.upper_scales >> half));
            scales_of[i][1] = scale_of(low_half(w.lower_scales >> half));
        }
        copies_wait<RING - 2>();
        for_matrices();
        meet(part, 128); // all have copied, and are done with the slot that is filled next
        u32 x = at_x + slot * (BLOCKS * X_BYTES), xs = at_xs + slot * (BLOCKS * XS_BYTES) + c4 * XS_STRIDE;
        MULTIPLY(N, REGS(first), codes_of[0], x);
#if BLOCKS == 2
        MULTIPLY(N, REGS(second), codes_of[1], x + X_BYTES);
#endif
        copy_activations(b - q + ahead + ahead / SLICE * (PARTS - 1) * SLICE, ahead / BLOCKS % RING);
        read_weights(q + BLOCKS < SLICE ? b + BLOCKS : b + BLOCKS + (PARTS - 1) * SLICE, w);
        wgmma_wait();
        TERMS(NextTerm(), slice, first, scales_of[0][0], scales_of[0][1], xs);
#if BLOCKS == 2
        if (b + 1 < nb) TERMS(NextTerm(), slice, second, scales_of[1][0], scales_of[1][1], xs + XS_BYTES);
#endif
    };

    prefetch_slice(part);
    prefetch_slice(part + PARTS);
#pragma unroll
    for (u32 q = 0; q < (RING - 1) * BLOCKS; q += BLOCKS) copy_activations(part * SLICE + q, q / BLOCKS);
    read_weights(part * SLICE, w);
#if PARTS > 1
    u32 at_total = base + AT_TOTAL + lane * 16;
#else
    float total[SUMS];
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) total[i] = 0;
#endif
#pragma unroll 1
    for (u32 s = part; s < slices; s += PARTS) {
        prefetch_slice(s + 2 * PARTS);
#pragma unroll
        for (u32 i = 0; i < SUMS; i++) slice[i] = 0;
#pragma unroll
        for (u32 q = 0; q < SLICE; q += BLOCKS) {
            if (s * SLICE + q >= nb) break;
            turn(s * SLICE + q, q);
        }
#if PARTS > 1
        if (s > 0) {
            meet(PARTS + part, 256); // the part before has stored the total
#pragma unroll
            for (u32 i = 0; i < SUMS; i += 4) {
                u32x4 v = shared_quad(at_total + i * 512);
#pragma unroll
                for (u32 j = 0; j < 4; j++) slice[i + j] = float_of(v[j]) + slice[i + j];
            }
        }
        if (s + 1 < slices) {
#pragma unroll
            for (u32 i = 0; i < SUMS; i += 4) store_quad(at_total + i * 512, slice + i);
            pass_on(PARTS + (part + 1) % PARTS, 256);
        }
#else
#pragma unroll
        for (u32 i = 0; i < SUMS; i++) total[i] = total[i] + slice[i];
#endif
    }
#if PARTS > 1
    if ((slices - 1) % PARTS != part) return;
    float *total = slice;
#endif
    u32 anew = 0;
    auto store = [&](u32 i, bool made, float sum) __attribute__((always_inline)) {
        u32 row = m0 + r + i / 2 % 2 * 8, t = n0 + i / 4 * 8 + 2 * c4 + i % 2;
        if (row >= p.rows || t >= p.n) return;
        if (!made) sum = plain_sum((const u32 *)codes, (const u32 *)scales, (const u32 *)a, p, spec.share, row, t);
        else if (sum != sum) anew |= 1u << i;
        y[(u64)t * p.stride + p.row0 + row] = tidy(sum);
    };
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) store(i, true, total[i]);
#pragma unroll 1
    for (; anew; anew &= anew - 1) store(__builtin_ctz(anew), false, 0);
}
