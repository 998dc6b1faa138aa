#include "stages.cuh"
// Attention of many queries in the orders of runtime/ref/attention.go: a workgroup takes
// ROWS rows, which are (token, query head) of one kv head, and four chunks of 64 positions
// at once, two by each half of its warps, a side. A lane has the scores of 8 rows by 4
// positions of either chunk, then, one chunk after the other, sums of values of 8 rows by
// 8 dimensions; after each the sides exchange what they made, and each joins both chunks
// for half of the rows. Queries come into the place of weights; keys and values are widened
// once into a slab of the warp.
//
// What it waits for are registers: a card has one port for even and one for odd ones, so
// that products of 8 by 8 go back and forth, and their operands alternate.

const u32 DIM = 128, PAGE = 64, EIGHTS = DIM / 8, LOCAL = 4 * ROWS;
const u32 TX = 256 / ROWS, TY = ROWS / 8, WARPS = ROWS / 16; // lanes of a warp along positions or dimensions, along rows; warps of a side
const u32 POSITIONS = 4 * TX, FOURS = 2 * TX; // of a warp: in each chunk, and quads of dimensions
const u32 SLAB = 8 * TX, STREAMS = TX / 4;    // quads of a slab, and what a lane loads at a time
const u32 TX_BITS = TX == 4 ? 0x11 : 0x0d;    // of the lane's number

struct Push { u32 n, q_stride, positions, tables, v_base; };
struct Spec { u32 dim, kv_heads, share; };

SHARED f32x4 weight[2][PAGE * ROWS / 4]; // [side][position][rows, quads in an order that spares banks]; or queries; or what sides exchange
SHARED f32x4 first_query[2 * ROWS];      // of dimensions 0..7
SHARED f32x4 slab[2 * WARPS][2][SLAB];   // of a warp, two: four dimensions of keys [dimension][chunk][position], or four positions of values
SHARED float top[2][WARPS][ROWS], exponent[2][ROWS], sum[2][ROWS], factor[4][ROWS];
SHARED u32 live_of[ROWS], table_of[ROWS];

// Halves that are NaN become zeros, as some rows may not see them; tells of any.
DEVICE bool without_nan(u32x2 &v) {
    u32x2 bad = ((v & 0x7fff7fffu) + 0x03ff03ffu) & 0x80008000u;
    v &= ~((bad >> 15) * 0xffffu);
    return (bad.x | bad.y) != 0;
}

DEVICE f32x4 widen(u32 a, u32 b) { return f32x4{low_half(a), high_half(a), low_half(b), high_half(b)}; }

DEVICE f32x4 loaded(const f32x4 *from) { return __builtin_bit_cast(f32x4, quad_now(shared_address(from))); }

template <u32 N> struct Count { static const u32 n = N; };

KERNEL(LOCAL) kernel(const float *q, const u32x4 *cache, const u32 *batch, float *y, Push p, Spec s) {
    // Lanes with the same tx, or the same ty, are pairs of neighbours: a load of quads takes half the time.
    u32 lane = thread() % 32, warp = first_lane(thread() / 32), side = warp / WARPS, part = warp % WARPS;
    u32 tx = TX == 4 ? lane % 2 + lane / 16 * 2 : lane % 2 + lane / 4 % 4 * 2, ty = TX == 4 ? lane / 2 % 8 : lane / 2 % 2 + lane / 16 * 2;
    // The n-th longest tile.
    u32 heads = s.kv_heads * s.share, per_head = (p.n * s.share + ROWS - 1) / ROWS, at = group_y() * heads + group_x();
    if (at >= per_head * s.kv_heads) return;
    u32 head = at % s.kv_heads, row0 = (per_head - 1 - at / s.kv_heads) * ROWS, rows = min(p.n * s.share - row0, ROWS);
    // This thread brings one of eight dimensions of two rows, mine and one half a tile behind.
    u32 mine = thread() / 8, slot = (thread() % 8 * (ROWS / 4) + (mine / 4 ^ thread() % 4)) * 16 + mine % 4 * 4;
    const float *queries[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        u32 row = mine + ROWS / 2 * i, r = row0 + (row < rows ? row : 0);
        queries[i] = q + (u64)(r / s.share) * p.q_stride + (head * s.share + r % s.share) * DIM + thread() % 8;
    }
    auto bring = [&](u32 e, const f32x4 *to) { // dimensions from 8 e on
#pragma unroll
        for (u32 i = 0; i < 2; i++) copy4(shared_address(to) + slot + ROWS / 2 * 4 * i, queries[i] + e * 8);
    };
    bring(0, first_query);
    copies_commit();
    if (thread() < ROWS) {
        u32 row = thread(), token = (row0 + (row < rows ? row : 0)) / s.share;
        live_of[row] = row < rows ? batch[p.positions + token] + 1 : 0;
        table_of[row] = row < rows ? batch[p.tables + token] : 0xffffffffu;
    }
    copies_wait<0>();
    __syncthreads();
    // The quads of rows of this lane: of those that its side joins, and of the others.
    u32 own = side * TY + ty, others = own ^ TY;
    u32 summed = part * 16 + lane % 16, joined = side * (ROWS / 2) + part * 8 + lane % 8; // the rows whose weights this lane sums, whose factors it makes
    f32x4 *my_slab = slab[warp][0], *my_weight = weight[side];
    u32 behind = side;
    here(behind); // in each lane: predicates of a warp are slow to get at
    // Runs of rows of one sequence, one after the other; usually there is one.
    for (u32 first = 0; first < rows;) {
        u32 table = table_of[first], end = ROWS, last = 0, full = 0xffffffffu; // full: positions that all rows see
#pragma unroll
        for (u32 row = lane; row < ROWS; row += 32) end = min(end, row > first && table_of[row] != table ? row : ROWS);
        end = least_of(end);
#pragma unroll
        for (u32 row = lane; row < ROWS; row += 32)
            if (row >= first && row < end) {
                last = max(last, live_of[row]);
                full = min(full, live_of[row]);
            }
        last = most_of(last);
        full = end - first < ROWS ? 0 : least_of(full);
        float je = -float_of(INF_BITS), jl = 0, o[4][8];
        u32 joined_live = joined >= first && joined < end ? live_of[joined] : 0;
#pragma unroll
        for (u32 r = 0; r < 4; r++)
#pragma unroll
            for (u32 d = 0; d < 8; d++) o[r][d] = 0;
        u32 pages[2]; // of the chunks of this side
        auto next_pages = [&](u32 c0) {
#pragma unroll
            for (u32 k = 0; k < 2; k++) pages[k] = batch[table + ((c0 + 2 * k + side) * PAGE < last ? c0 + 2 * k + side : 0)];
        };
        const u32x4 *keys[STREAMS]; // this lane's positions of a warp's, those of the first chunk and then of the second
        u32x4 key0[STREAMS], key1[STREAMS];
        auto next_keys = [&] {
#pragma unroll
            for (u32 n = 0; n < STREAMS; n++) {
                u32 at = n * 32 + lane;
                keys[n] = cache + (u64)((at < POSITIONS ? pages[0] : pages[1]) * s.kv_heads + head) * EIGHTS * PAGE + part * POSITIONS + at % POSITIONS;
                key0[n] = keys[n][0];
                key1[n] = keys[n][PAGE];
            }
        };
        next_pages(0);
        next_keys();
#pragma unroll 1
        for (u32 c0 = 0; c0 * PAGE < last; c0 += 4) {
            u32 begin = (c0 + side) * PAGE + part * POSITIONS; // where this warp's positions start
            __syncthreads(); // what sides exchanged is used up
#pragma unroll
            for (u32 e = 1; e < 5; e++) bring(e, weight[0] + (e - 1) * (2 * ROWS));
            copies_commit();
            auto come = [&](u32 e) { // queries behind dimensions 8 e.. have; more follow
                copies_wait<0>();
                __syncthreads();
                if (e >= 12) return;
                const f32x4 *to = weight[0] + (e + 4) * (2 * ROWS);
#pragma unroll
                for (u32 n = 0; n < 3; n++) bring(e + 5 + n, to + n * (2 * ROWS));
                if (e < 8) bring(e + 8, to + 3 * (2 * ROWS));
                copies_commit();
            };
            float a[8][8]; // scores of the rows of both quads, at positions part * POSITIONS + 4 tx + i of either chunk
#pragma unroll
            for (u32 r = 0; r < 8; r++)
#pragma unroll
                for (u32 i = 0; i < 8; i++) a[r][i] = 0;
            // Step by step, each of 4 dimensions: 8 quads of queries, and for each dimension those
            // of keys. What is to be used next is loaded while the one before is in use.
            u32x2 rest[STREAMS]; // of the keys of dimensions 8 e.., of which the second four; key1 are those of the next eight
            auto put = [&](u32 h, u32 n, u32 first, u32 second) {
                float *to = (float *)(my_slab + h * SLAB) + n * 32 + lane;
                to[0] = low_half(first);
                to[2 * POSITIONS] = high_half(first);
                to[4 * POSITIONS] = low_half(second);
                to[6 * POSITIONS] = high_half(second);
            };
            auto score = [&](auto count) {
                const u32 N = decltype(count)::n;
                f32x4 v[2], key[N / 4];
                auto load = [&](u32 d, const f32x4 *queries, const f32x4 *keys) { // of dimension d of eight
                    v[0] = loaded(queries + d * (ROWS / 4) + (own ^ d % 4));
                    v[1] = loaded(queries + d * (ROWS / 4) + (others ^ d % 4));
#pragma unroll
                    for (u32 k = 0; k < N / 4; k++) key[k] = loaded(keys + d % 4 * FOURS + k * TX + tx);
                };
#pragma unroll
                for (u32 n = 0; n < STREAMS; n++) {
                    put(0, n, key0[n].x, key0[n].y);
                    rest[n] = u32x2{key0[n].z, key0[n].w};
                }
                warp_barrier();
                const f32x4 *from = first_query;
                load(0, from, my_slab);
#pragma unroll 1
                for (u32 e = 0; e < EIGHTS; e++) {
                    const f32x4 *next = e ? from + 2 * ROWS : weight[0];
#pragma unroll
                    for (u32 h = 0; h < 2; h++) {
#pragma unroll
                        for (u32 n = 0; n < STREAMS; n++)
                            if (h == 0) {
                                put(1, n, rest[n].x, rest[n].y);
                            } else {
                                put(0, n, key1[n].x, key1[n].y);
                                rest[n] = u32x2{key1[n].z, key1[n].w};
                                key1[n] = keys[n][(e + 2 < EIGHTS ? e + 2 : 0) * PAGE];
                            }
#pragma unroll
                        for (u32 x = 0; x < 4; x++) {
                            f32x4 vn[2] = {v[0], v[1]}, kn[N / 4];
#pragma unroll
                            for (u32 k = 0; k < N / 4; k++) kn[k] = key[k];
                            if (x < 3) {
                                load(4 * h + x + 1, from, my_slab + h * SLAB);
                            } else {
                                if (h && e % 4 == 0) come(e);
                                else warp_barrier();
                                load(h ? 0 : 4, h ? next : from, my_slab + (h ^ 1) * SLAB);
                            }
#pragma unroll
                            for (u32 r = 0; r < 8; r++)
#pragma unroll
                                for (u32 n = 0; n < N; n++) {
                                    const u32 i = r % 2 ? N - 1 - n : n; // back and forth, so that most instructions read two registers
                                    a[r][i] = mac(a[r][i], vn[r / 4][r % 4], kn[i / 4][i % 4]);
                                }
                        }
                    }
                    from = next;
                }
            };
            if (begin + 2 * PAGE < last) score(Count<8>());
            else if (begin < last) score(Count<4>());
            else
#pragma unroll 1
                for (u32 e = 0; e < EIGHTS; e += 4) come(e);
            u32 page[2] = {pages[0], pages[1]};
            next_pages(c0 + 4);
            // Two chunks, one of each side, after the others.
#pragma unroll 1
            for (u32 c1 = c0; c1 < c0 + 4 && c1 * PAGE < last; c1 += 2) {
                u32 c = c1 + side, count = c * PAGE < last ? min(last - c * PAGE, PAGE) : 0; // positions of this chunk
                // Values to come, while the exponents are made.
                u32 lastv = count ? count - 1 : 0;
                const u32x2 *values = (const u32x2 *)(cache + p.v_base / 4 + (u64)((c1 == c0 ? page[0] : page[1]) * s.kv_heads + head) * PAGE * EIGHTS) + part * FOURS;
                u32x2 v0[STREAMS], v1[STREAMS], v2[STREAMS];
                auto load_values = [&](u32x2(&v)[STREAMS], u32 j) {
                    const u32x2 *from = values + min(j + lane / 8, lastv) * (2 * EIGHTS) + lane % 8;
#pragma unroll
                    for (u32 n = 0; n < STREAMS; n++) v[n] = from[n * 8];
                };
                auto put_values = [&](f32x4 *to, const u32x2(&v)[STREAMS]) {
#pragma unroll
                    for (u32 n = 0; n < STREAMS; n++) to[lane / 8 * FOURS + n * 8 + lane % 8] = widen(v[n].x, v[n].y);
                };
                load_values(v0, 0);
                load_values(v1, 4);
                load_values(v2, 8);
                // Positions that a row does not see count as -Inf, and weigh +0; a row that sees
                // none weighs anything, which is not joined.
                bool ragged = (c + 1) * PAGE > full, spoilt = false;
                u32 unclean = ragged;
                here(unclean); // in each lane, too
                if (ragged) {
#pragma unroll
                    for (u32 r = 0; r < 8; r++) {
                        u32 row = (r < 4 ? own : others) * 4 + r % 4, live = row >= first && row < end ? live_of[row] : 0;
#pragma unroll
                        for (u32 i = 0; i < 4; i++) a[r][i] = c * PAGE + part * POSITIONS + 4 * tx + i < live ? a[r][i] : -float_of(INF_BITS);
                    }
                }
                float m[8];
#pragma unroll
                for (u32 r = 0; r < 8; r++) m[r] = most(most(a[r][0], a[r][1]), most(a[r][2], a[r][3]));
#pragma unroll
                for (u32 by = 1; by < 32; by *= 2)
                    if (TX_BITS & by)
#pragma unroll
                        for (u32 r = 0; r < 8; r++) m[r] = most(m[r], shuffle_xor(m[r], by));
                if (tx == 0) {
                    ((f32x4 *)top[side][part])[own] = f32x4{m[0], m[1], m[2], m[3]};
                    ((f32x4 *)top[side][part])[others] = f32x4{m[4], m[5], m[6], m[7]};
                }
                __syncthreads(); // and queries, or what sides exchanged, are used up
#pragma unroll
                for (u32 w = 1; w < WARPS; w++)
#pragma unroll
                    for (u32 h = 0; h < 2; h++) {
                        f32x4 other = ((f32x4 *)top[side][part ^ w])[h ? others : own];
#pragma unroll
                        for (u32 r = 0; r < 4; r++) m[4 * h + r] = most(m[4 * h + r], other[r]);
                    }
#pragma unroll
                for (u32 r = 0; r < 8; r++) m[r] = tidy(round_even(m[r]));
                if (tx == 0 && part == 0) {
                    ((f32x4 *)exponent[side])[own] = f32x4{m[0], m[1], m[2], m[3]};
                    ((f32x4 *)exponent[side])[others] = f32x4{m[4], m[5], m[6], m[7]};
                }
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        f32x4 w;
#pragma unroll
                        for (u32 r = 0; r < 4; r++) {
                            float x = a[r][i] - m[r]; // <= 1/2, or NaN, which becomes +Inf here
                            w[r] = float_of((exp2_word(x) + 0x400u) & (x < -64.0f ? 0 : 0xfffff800u));
                            a[r][i] = a[4 + r][i];
                        }
                        my_weight[(part * POSITIONS + 4 * tx + i) * (ROWS / 4) + ((h ? others : own) ^ tx % 2 * 4)] = w;
                    }
#pragma unroll
                    for (u32 r = 0; r < 4; r++) m[r] = m[4 + r];
                }
                float acc[8][8]; // of rows as above, dimensions (part * TX + tx) * 8 + 0..7
#pragma unroll
                for (u32 r = 0; r < 8; r++)
#pragma unroll
                    for (u32 d = 0; d < 8; d++) acc[r][d] = 0;
                auto clean = [&](u32x2(&v)[STREAMS]) {
#pragma unroll
                    for (u32 n = 0; n < STREAMS; n++) spoilt |= without_nan(v[n]);
                };
                if (ragged) clean(v0);
                put_values(my_slab, v0);
                __syncthreads();
                // How both chunks of row joined join those before.
                bool has[2];
                float ja[2], jb[2];
#pragma unroll
                for (u32 k = 0; k < 2; k++) {
                    has[k] = (c1 + k) * PAGE < joined_live;
                    float e = has[k] ? exponent[k][joined] : je, to = c1 + k == 0 || e > je ? e : je;
                    ja[k] = pow2(je - to);
                    jb[k] = has[k] ? pow2(e - to) : 0;
                    je = to;
                    if (lane < 8) {
                        factor[2 * k][joined] = ja[k];
                        factor[2 * k + 1][joined] = jb[k];
                    }
                }
                next_keys(); // when these are the second two chunks, those of the next four
                float l = 0;
                if (count) {
                    f32x4 w[2], u[2];
                    float my_w; // of row summed
                    auto load = [&](u32 j, u32 swap, const f32x4 *row, const f32x4 *from) { // of position j of four
                        w[0] = loaded(row + j * (ROWS / 4) + (own ^ swap));
                        w[1] = loaded(row + j * (ROWS / 4) + (others ^ swap));
                        u[0] = loaded(from + j * FOURS + 2 * tx);
                        u[1] = loaded(from + j * FOURS + 2 * tx + 1);
                        my_w = ((const float *)(row + j * (ROWS / 4)))[summed ^ (swap * 4)];
                    };
                    load(0, 0, my_weight, my_slab);
#pragma unroll 1
                    for (u32 j0 = 0; j0 < count; j0 += 8) {
                        if (unclean) {
                            clean(v1);
                            clean(v2);
                        }
                        u32x2 n1[STREAMS], n2[STREAMS];
                        load_values(n1, j0 + 12);
                        load_values(n2, j0 + 16);
#pragma unroll
                        for (u32 h = 0; h < 2; h++) {
                            f32x4 *from = my_slab + h * SLAB, *to = my_slab + (h ^ 1) * SLAB, *row = my_weight + (j0 + 4 * h) * (ROWS / 4);
                            put_values(to, h ? v2 : v1);
#pragma unroll
                            for (u32 j = 0; j < 4; j++) {
                                f32x4 wn[2] = {w[0], w[1]}, un[2] = {u[0], u[1]};
                                float ln = my_w;
                                if (j < 3) {
                                    load(j + 1, h * 4, row, from);
                                } else {
                                    warp_barrier();
                                    load(0, (h ^ 1) * 4, h && j0 + 8 >= PAGE ? my_weight : row + ROWS, to);
                                }
                                l = l + ln;
#pragma unroll
                                for (u32 d = 0; d < 8; d++)
#pragma unroll
                                    for (u32 n = 0; n < 8; n++) {
                                        const u32 r = d % 2 ? 7 - n : n;
                                        acc[r][d] = mac(acc[r][d], wn[r / 4][r % 4], un[d / 4][d % 4]);
                                    }
                            }
                        }
#pragma unroll
                        for (u32 n = 0; n < STREAMS; n++) {
                            v1[n] = n1[n];
                            v2[n] = n2[n];
                        }
                    }
                    if (lane < 16) sum[side][summed] = tidy(l);
                    if (any(spoilt)) // rows that see a value that is not a number
#pragma unroll 1
                        for (u32 j = 0; j < count; j++) {
                            u32x2 t[2] = {values[j * (2 * EIGHTS) + 2 * tx], values[j * (2 * EIGHTS) + 2 * tx + 1]};
                            f32x4 f[2] = {widen(t[0].x, t[0].y), widen(t[1].x, t[1].y)};
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
                    if (side) meet(1, LOCAL / 2); // the weights are used up
                    else meet(2, LOCAL / 2);
                }
                // The rows that the other side joins go to it.
                f32x4 *out = my_weight + part * 256 + lane, *in = weight[side ^ 1] + part * 256 + lane;
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
                for (u32 k = 0; k < 2; k++) jl = tidy(mac((has[k] ? sum[k][joined] : 0) * jb[k], jl, ja[k]));
                f32x4 fa[2] = {((f32x4 *)factor[0])[own], ((f32x4 *)factor[2])[own]}, fb[2] = {((f32x4 *)factor[1])[own], ((f32x4 *)factor[3])[own]};
#pragma unroll
                for (u32 r = 0; r < 4; r++)
#pragma unroll
                    for (u32 h = 0; h < 2; h++) {
                        f32x4 t = in[(2 * r + h) * 32];
#pragma unroll
                        for (u32 x = 0; x < 4; x++) acc[4 + r][4 * h + x] = t[x];
                    }
                if ((c1 + 2) * PAGE > full) // sums of rows that see nothing of a chunk may be NaN
#pragma unroll
                    for (u32 r = 0; r < 4; r++) {
                        u32 row = own * 4 + r, live = row >= first && row < end ? live_of[row] : 0;
                        bool here = (c1 + side) * PAGE < live, there = (c1 + (side ^ 1)) * PAGE < live;
#pragma unroll
                        for (u32 x = 0; x < 8; x++) {
                            acc[r][x] = here ? acc[r][x] : 0;
                            acc[4 + r][x] = there ? acc[4 + r][x] : 0;
                        }
                    }
#pragma unroll
                for (u32 r = 0; r < 4; r++)
#pragma unroll
                    for (u32 x = 0; x < 8; x++) {
                        float now = tidy(mac((behind ? acc[4 + r][x] : acc[r][x]) * fb[0][r], o[r][x], fa[0][r]));
                        o[r][x] = tidy(mac((behind ? acc[r][x] : acc[4 + r][x]) * fb[1][r], now, fa[1][r]));
                    }
                // The second chunk's turn.
#pragma unroll
                for (u32 r = 0; r < 8; r++)
#pragma unroll
                    for (u32 i = 0; i < 4; i++) a[r][i] = a[r][4 + i];
            }
        }
        __syncthreads(); // factors are used up
        if (lane < 8) factor[0][joined] = jl < float_of(INF_BITS) ? recip(jl) : float_of(0x7fc00000u); // infinite: of a score that is NaN
        __syncthreads();
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
            u32 row = own * 4 + r;
            if (row < first || row >= end) continue;
            u32 token = (row0 + row) / s.share, h = head * s.share + (row0 + row) % s.share;
            float inv = factor[0][row];
            f32x4 *to = (f32x4 *)(y + ((u64)token * heads + h) * DIM) + (part * TX + tx) * 2;
#pragma unroll
            for (u32 g = 0; g < 2; g++) {
                f32x4 t;
#pragma unroll
                for (u32 x = 0; x < 4; x++) t[x] = tidy(o[r][4 * g + x] * inv);
                to[g] = t;
            }
        }
        first = end;
    }
}
