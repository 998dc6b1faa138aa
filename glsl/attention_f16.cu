#include "warp.cuh"
// Attention of many queries in the orders of runtime/ref/attention.go: a workgroup
// takes 32 rows, which are (token, query head) of one kv head, and two chunks of 64
// positions at once, each by a pair of warps. A warp has the scores of 32 positions,
// 8 rows by 4 positions a lane, then the values of 64 dimensions, 8 by 8 a lane; keys
// and values are widened once into a slab of the warp. Then the pairs exchange what
// they made, and each joins both chunks for half of the rows.

const u32 DIM = 128, PAGE = 64, ROWS = 32, EIGHTS = DIM / 8;
const u32 PROCESSORS = 132; // of an H200; the order of tiles suits other cards less, the words are the same

struct Push { u32 n, q_stride, positions, tables, v_base; };
struct Spec { u32 dim, kv_heads, share; };

SHARED f32x4 query[DIM * ROWS / 4];   // [dim][row]
SHARED f32x4 weight[2 * PAGE * ROWS / 4]; // [chunk][position][row, quads in an order that spares banks]; then what pairs exchange
SHARED f32x4 slab[4][32 * 3 * 2];     // of a warp, two: keys [position][8 dims, 4 unused], or values [4 positions][64 dims]
SHARED float top[2][2][ROWS], exponent[2][ROWS], sum[2][ROWS];
SHARED u32 live_of[ROWS], table_of[ROWS];

// Halves that are NaN become zeros, as some rows may not see them; tells of any.
DEVICE bool without_nan(u32x4 &v) {
    u32x4 bad = ((v & 0x7fff7fffu) + 0x03ff03ffu) & 0x80008000u;
    v &= ~((bad >> 15) * 0xffffu);
    return (bad.x | bad.y | bad.z | bad.w) != 0;
}

DEVICE void meet_pair(u32 side) {
    if (side) meet(1, 64);
    else meet(2, 64);
}
DEVICE f32x4 widen(u32 a, u32 b) { return f32x4{low_half(a), high_half(a), low_half(b), high_half(b)}; }

KERNEL_TIMES(128, 2) kernel(const float *q, const u32x4 *cache, const u32 *batch, float *y, Push p, Spec s) {
    u32 lane = thread() % 32, warp = thread() / 32, side = warp / 2, half = warp % 2, ty = lane / 8, tx = lane % 8;
    // The n-th longest tile; the second round of workgroups comes in reverse, the shortest to the longest.
    u32 heads = s.kv_heads * s.share, per_head = (p.n * s.share + ROWS - 1) / ROWS, tiles = per_head * s.kv_heads;
    u32 at = group_y() * heads + group_x();
    if (at >= tiles) return;
    if (at >= PROCESSORS && at < 2 * PROCESSORS) at = PROCESSORS + (tiles < 2 * PROCESSORS ? tiles : 2 * PROCESSORS) - 1 - at;
    u32 head = at % s.kv_heads, row0 = (per_head - 1 - at / s.kv_heads) * ROWS;
    u32 rows = p.n * s.share - row0 < ROWS ? p.n * s.share - row0 : ROWS;
    // Queries: a warp takes a quarter of the dimensions of all rows.
    {
        u32 row = row0 + (lane < rows ? lane : 0), token = row / s.share;
        const f32x4 *from = (const f32x4 *)(q + (u64)token * p.q_stride + (head * s.share + row % s.share) * DIM) + warp * 8;
        float *to = (float *)query + warp * 32 * ROWS + lane;
#pragma unroll
        for (u32 d = 0; d < 8; d++) {
            f32x4 v = from[d];
#pragma unroll
            for (u32 e = 0; e < 4; e++) to[(4 * d + e) * ROWS] = v[e];
        }
        if (warp == 0) {
            live_of[lane] = lane < rows ? batch[p.positions + token] + 1 : 0;
            table_of[lane] = lane < rows ? batch[p.tables + token] : 0xffffffffu;
        }
    }
    __syncthreads();
    // The quads of rows of this lane: of those that its pair joins, and of the others.
    u32 own = side * 4 + ty, others = own ^ 4;
    f32x4 *my_slab = slab[warp], *my_weight = weight + side * PAGE * ROWS / 4;
    // Runs of rows of one sequence, one after the other; usually there is one.
    for (u32 first = 0; first < rows;) {
        u32 end = first, last = 0, full = ROWS, table = table_of[first]; // full: positions that all rows see
        for (; end < rows && table_of[end] == table; end++) {
            u32 l = live_of[end];
            last = l > last ? l : last;
            full = end == 0 || l < full ? l : full;
        }
        if (end - first < ROWS) full = 0;
        float je[4], jl[4], o[4][8];
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
            je[r] = -float_of(INF_BITS);
            jl[r] = 0;
#pragma unroll
            for (u32 d = 0; d < 8; d++) o[r][d] = 0;
        }
        for (u32 c0 = 0; c0 * PAGE < last; c0 += 2) {
            u32 c = c0 + side, count = c * PAGE < last ? (last - c * PAGE < PAGE ? last - c * PAGE : PAGE) : 0; // positions of this chunk
            u32 page = batch[table + (count ? c : 0)];
            const u32x4 *keys = cache + (u64)(page * s.kv_heads + head) * EIGHTS * PAGE + half * 32 + lane;
            float a[8][4]; // scores of the rows of both quads, at positions tx + 8 i
#pragma unroll
            for (u32 r = 0; r < 8; r++)
#pragma unroll
                for (u32 i = 0; i < 4; i++) a[r][i] = 0;
            if (half * 32 < count) {
                u32x4 k[2] = {keys[0], keys[PAGE]};
#pragma unroll 1
                for (u32 e0 = 0; e0 < EIGHTS; e0 += 2) {
#pragma unroll
                    for (u32 b = 0; b < 2; b++) {
                        f32x4 *to = my_slab + b * 96;
                        to[lane * 3] = widen(k[b].x, k[b].y);
                        to[lane * 3 + 1] = widen(k[b].z, k[b].w);
                        k[b] = keys[(e0 + 2 < EIGHTS ? e0 + 2 + b : b) * PAGE];
                        warp_barrier();
#pragma unroll
                        for (u32 h = 0; h < 2; h++) {
                            f32x4 key[4];
#pragma unroll
                            for (u32 i = 0; i < 4; i++) key[i] = to[(tx + 8 * i) * 3 + h];
#pragma unroll
                            for (u32 x = 0; x < 4; x++) {
                                u32 d = (e0 + b) * 8 + h * 4 + x;
                                f32x4 v[2] = {query[d * 8 + own], query[d * 8 + others]};
#pragma unroll
                                for (u32 r = 0; r < 8; r++)
#pragma unroll
                                    for (u32 i = 0; i < 4; i++) a[r][i] = mac(a[r][i], v[r / 4][r % 4], key[i][x]);
                            }
                        }
                    }
                }
            }
            // Values to come, while the exponents are made.
            u32 eight = half * 8 + tx, lastv = count ? count - 1 : 0;
            const u32x4 *values = cache + p.v_base / 4 + (u64)(page * s.kv_heads + head) * PAGE * EIGHTS + eight;
            u32x4 v[2];
#pragma unroll
            for (u32 b = 0; b < 2; b++) v[b] = values[(4 * b + ty < lastv ? 4 * b + ty : lastv) * EIGHTS];
            // Positions that a row does not see count as -Inf, and weigh +0; a row that sees
            // none weighs anything, which is not joined.
            bool ragged = (c + 1) * PAGE > full, spoilt = false;
            if (ragged) {
#pragma unroll
                for (u32 r = 0; r < 8; r++) {
                    u32 row = (r < 4 ? own : others) * 4 + r % 4, live = row >= first && row < end ? live_of[row] : 0;
#pragma unroll
                    for (u32 i = 0; i < 4; i++) a[r][i] = c * PAGE + half * 32 + tx + 8 * i < live ? a[r][i] : -float_of(INF_BITS);
                }
            }
            float m[8];
#pragma unroll
            for (u32 r = 0; r < 8; r++) m[r] = most(most(a[r][0], a[r][1]), most(a[r][2], a[r][3]));
#pragma unroll
            for (u32 by = 1; by < 8; by *= 2)
#pragma unroll
                for (u32 r = 0; r < 8; r++) m[r] = most(m[r], shuffle_xor(m[r], by));
            if (tx == 0) {
                ((f32x4 *)top[side][half])[own] = f32x4{m[0], m[1], m[2], m[3]};
                ((f32x4 *)top[side][half])[others] = f32x4{m[4], m[5], m[6], m[7]};
            }
            __syncthreads(); // and what was exchanged is used up
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                f32x4 other = ((f32x4 *)top[side][1 - half])[h ? others : own];
#pragma unroll
                for (u32 r = 0; r < 4; r++) m[4 * h + r] = tidy(round_even(most(m[4 * h + r], other[r])));
            }
            float acc[8][8]; // of rows as above, dimensions eight * 8 + 0..7
#pragma unroll
            for (u32 r = 0; r < 8; r++)
#pragma unroll
                for (u32 d = 0; d < 8; d++) acc[r][d] = 0;
            if (count) {
                if (tx == 0 && half == 0) {
                    ((f32x4 *)exponent[side])[own] = f32x4{m[0], m[1], m[2], m[3]};
                    ((f32x4 *)exponent[side])[others] = f32x4{m[4], m[5], m[6], m[7]};
                }
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    f32x4 w[2];
#pragma unroll
                    for (u32 r = 0; r < 8; r++) {
                        float x = a[r][i] - m[r]; // <= 1/2, or NaN, which becomes +Inf here
                        w[r / 4][r % 4] = float_of((exp2_word(x) + 0x400u) & (x < -64.0f ? 0 : 0xfffff800u));
                    }
                    u32 pos = half * 32 + tx + 8 * i;
                    my_weight[pos * 8 + (own ^ tx)] = w[0];
                    my_weight[pos * 8 + (others ^ tx)] = w[1];
                }
                meet_pair(side);
                float l = 0;
#pragma unroll 1
                for (u32 j0 = 0; j0 < count; j0 += 8) {
#pragma unroll
                    for (u32 b = 0; b < 2; b++) {
                        f32x4 *to = my_slab + b * 64;
                        if (ragged) spoilt |= without_nan(v[b]);
                        to[ty * 16 + tx] = widen(v[b].x, v[b].y);
                        to[ty * 16 + tx + 8] = widen(v[b].z, v[b].w);
                        u32 next = j0 + 8 + 4 * b + ty;
                        v[b] = values[(next < lastv ? next : lastv) * EIGHTS];
                        warp_barrier();
#pragma unroll
                        for (u32 j = 0; j < 4; j++) {
                            const u32 swap = 4 * b + j;
                            f32x4 *row = my_weight + (j0 + 4 * b + j) * 8;
                            f32x4 w[2] = {row[own ^ swap], row[others ^ swap]}, u[2] = {to[j * 16 + tx], to[j * 16 + tx + 8]};
                            l = l + ((float *)row)[lane ^ (swap * 4)];
#pragma unroll
                            for (u32 r = 0; r < 8; r++)
#pragma unroll
                                for (u32 d = 0; d < 8; d++) acc[r][d] = mac(acc[r][d], w[r / 4][r % 4], u[d / 4][d % 4]);
                        }
                    }
                }
                if (half == 0) sum[side][lane] = tidy(l);
                if (any(spoilt)) // rows that see a value that is not a number
#pragma unroll 1
                    for (u32 j = 0; j < count; j++) {
                        u32x4 u = values[j * EIGHTS];
                        f32x4 f[2] = {widen(u.x, u.y), widen(u.z, u.w)};
#pragma unroll
                        for (u32 r = 0; r < 8; r++) {
                            bool sees = c * PAGE + j < live_of[(r < 4 ? own : others) * 4 + r % 4];
#pragma unroll
                            for (u32 d = 0; d < 8; d++) {
                                float x = f[d / 4][d % 4];
                                acc[r][d] = sees && x != x ? x : acc[r][d];
                            }
                        }
                    }
                meet_pair(side); // the weights are used up
            }
            // The rows that the other pair joins go to it.
            f32x4 *out = weight + warp * 256 + lane, *in = weight + (warp ^ 2) * 256 + lane;
#pragma unroll
            for (u32 r = 0; r < 8; r++)
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    f32x4 t;
#pragma unroll
                    for (u32 x = 0; x < 4; x++) t[x] = acc[r][4 * h + x] = tidy(acc[r][4 * h + x]);
                    if (r >= 4) out[(2 * (r - 4) + h) * 32] = t;
                }
            __syncthreads();
#pragma unroll
            for (u32 r = 0; r < 4; r++) {
                u32 row = own * 4 + r;
                f32x4 given[2] = {in[2 * r * 32], in[(2 * r + 1) * 32]};
                u32 live = row >= first && row < end ? live_of[row] : 0;
                float ja[2], jb[2];
#pragma unroll
                for (u32 k = 0; k < 2; k++) {
                    bool has = (c0 + k) * PAGE < live;
                    float e = has ? exponent[k][row] : je[r], to = c0 + k == 0 || e > je[r] ? e : je[r];
                    ja[k] = pow2(je[r] - to);
                    jb[k] = has ? pow2(e - to) : 0;
                    je[r] = to;
                    jl[r] = tidy(mac((has ? sum[k][row] : 0) * jb[k], jl[r], ja[k]));
                }
                if ((c0 + 2) * PAGE > full) { // not NaN of positions beyond
                    bool here = (c0 + side) * PAGE < live, there = (c0 + (side ^ 1)) * PAGE < live;
#pragma unroll
                    for (u32 x = 0; x < 8; x++) acc[r][x] = here ? acc[r][x] : 0;
                    given[0] = there ? given[0] : 0;
                    given[1] = there ? given[1] : 0;
                }
                auto join = [&](u32 x, float part0, float part1) {
                    float now = tidy(mac(part0 * jb[0], o[r][x], ja[0]));
                    o[r][x] = tidy(mac(part1 * jb[1], now, ja[1]));
                };
                if (side)
#pragma unroll
                    for (u32 x = 0; x < 8; x++) join(x, given[x / 4][x % 4], acc[r][x]);
                else
#pragma unroll
                    for (u32 x = 0; x < 8; x++) join(x, acc[r][x], given[x / 4][x % 4]);
            }
        }
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
            u32 row = own * 4 + r;
            if (row < first || row >= end) continue;
            u32 token = (row0 + row) / s.share, h = head * s.share + (row0 + row) % s.share;
            float inv = jl[r] < float_of(INF_BITS) ? recip(jl[r]) : float_of(0x7fc00000u); // infinite: of a score that is NaN
            f32x4 *to = (f32x4 *)(y + ((u64)token * heads + h) * DIM) + (half * 8 + tx) * 2;
#pragma unroll
            for (u32 g = 0; g < 2; g++) {
                f32x4 t;
#pragma unroll
                for (u32 x = 0; x < 4; x++) t[x] = tidy(o[r][4 * g + x] * inv);
                to[g] = t;
            }
        }
        first = end;
        __syncthreads(); // of a tile with several runs: exchanged parts are used up
    }
}
