#include "mma.cuh"
// Attention of many queries on matrix instructions of halves, within the bound "attention"
// of runtime/ref/bound.go: a workgroup takes 64 * TILES rows, which are (token, query
// head) of one kv head, and 32 positions at a time, whose keys and values come while those
// before are used, PART of them at once. A warp has a quarter of the rows: their queries,
// scores, weights and sums stay in its registers.

const u32 DIM = 128, EIGHTS = DIM / 8, PAGE = 64, ROWS = 64 * TILES, KEYS = 32, LOCAL = 128;
const u32 STAGE = KEYS * EIGHTS * 16; // bytes of keys or of values

// A row's weights are 2^(score - m + LIFT): m follows the largest score only when that is
// more than SLACK above it, and the largest weight is 2^15, which halves hold.
const float LIFT = 7, SLACK = 8;
const u32 ONES = 0x3c003c00;

struct Push { u32 n, q_stride, positions, tables, v_base; };
struct Spec { u32 dim, kv_heads, share; };

SHARED u32x4 keys[2][KEYS * EIGHTS];   // [dim / 8][position]
SHARED u32x4 values[2][KEYS * EIGHTS]; // [position][dim / 8, in an order that spares banks]
SHARED u32 live_of[ROWS], table_of[ROWS], spoilt;

DEVICE u32 not_numbers(u32 pair) { return ((pair & 0x7fff7fffu) + 0x03ff03ffu) & 0x80008000u; }

DEVICE u32 value_slot(u32 pos, u32 eight) { return pos * EIGHTS + (eight ^ (pos & 7)); }

KERNEL_TIMES(LOCAL, TIMES) kernel(const float *q, const u32x4 *cache, const u32 *batch, float *y, Push p, Spec s) {
    u32 heads = s.kv_heads * s.share, per_head = (p.n * s.share + ROWS - 1) / ROWS;
    u32 tile = group_y() * heads + group_x();
    if (tile >= per_head * s.kv_heads) return;
    u32 head = tile % s.kv_heads, row0 = (per_head - 1 - tile / s.kv_heads) * ROWS; // long rows first
    u32 rows = min(ROWS, p.n * s.share - row0);
    u32 lane = thread() % 32, part = lane % 4, mine = thread() / 32 * 16 * TILES + lane / 4; // and every eighth
    if (thread() < ROWS) {
        u32 r = thread(), token = (row0 + min(r, rows - 1)) / s.share;
        live_of[r] = r < rows ? batch[p.positions + token] + 1 : 0;
        table_of[r] = r < rows ? batch[p.tables + token] : 0xffffffffu;
        spoilt = 0;
    }
    u32x4 query[TILES][DIM / 16];
#pragma unroll
    for (u32 i = 0; i < 2 * TILES; i++) {
        u32 r = row0 + min(mine + 8 * i, rows - 1);
        const f32x2 *from = (const f32x2 *)(q + (u64)(r / s.share) * p.q_stride + (head * s.share + r % s.share) * DIM) + part;
#pragma unroll
        for (u32 k = 0; k < DIM / 8; k++) query[i / 2][k / 2][i % 2 + k % 2 * 2] = halves(from[k * 4].x, from[k * 4].y);
    }
    __syncthreads();
    // The row of four matrices that this lane names: of keys, 8 positions at dimensions 0 and
    // 8, then the next 8 positions; of values, 16 positions, then at the next 8 dimensions.
    u32 key_at = shared_address(keys) + (lane / 8 % 2 * KEYS + lane / 16 * 8 + lane % 8) * 16;
    u32 value_at = shared_address(values) + (lane / 8 % 2 * 8 + lane % 8) * EIGHTS * 16, value_eight = lane / 16 ^ lane % 8;
    // Runs of rows of one sequence, one after the other; usually there is one.
    for (u32 first = 0; first < rows;) {
        u32 end = first, last = 0, full = 0xffffffffu, table = table_of[first]; // full: positions that all rows see
        for (; end < rows && table_of[end] == table; end++) {
            last = max(last, live_of[end]);
            full = min(full, live_of[end]);
        }
        u32 live[2 * TILES];
        float m[2 * TILES];
        f32x4 o[TILES][EIGHTS], l[TILES]; // sums of values, and of weights in all columns
#pragma unroll
        for (u32 i = 0; i < 2 * TILES; i++) {
            u32 r = mine + 8 * i;
            live[i] = r >= first && r < end ? live_of[r] : 0;
            m[i] = -float_of(INF_BITS);
        }
#pragma unroll
        for (u32 t = 0; t < TILES; t++) {
            l[t] = 0;
#pragma unroll
            for (u32 d = 0; d < EIGHTS; d++) o[t][d] = 0;
        }
        auto copy = [&](u32 at, u32 page) {
            const u32x4 *k = cache + (u64)(page * s.kv_heads + head) * EIGHTS * PAGE + at % PAGE;
            const u32x4 *v = cache + p.v_base / 4 + ((u64)(page * s.kv_heads + head) * PAGE + at % PAGE) * EIGHTS;
            u32 stage = at / KEYS % 2;
#pragma unroll
            for (u32 i = 0; i < KEYS * EIGHTS / LOCAL; i++) {
                u32 item = i * LOCAL + thread();
                copy16(shared_address(keys) + stage * STAGE + item * 16, k + item / KEYS * PAGE + item % KEYS);
                copy16(shared_address(values) + stage * STAGE + value_slot(item / EIGHTS, item % EIGHTS) * 16, v + item);
            }
        };
        copy(0, batch[table]);
        u32 page = batch[table + (KEYS < last ? KEYS / PAGE : 0)];
#pragma unroll 1
        for (u32 at = 0; at < last; at += KEYS) {
            u32 stage = at / KEYS % 2;
            bool ragged = at + KEYS > full;
            copies_wait();
            if (ragged) // values that are not numbers become zeros, as some rows do not see them
#pragma unroll
                for (u32 i = 0; i < KEYS * EIGHTS / LOCAL; i++) {
                    u32 item = i * LOCAL + thread();
                    u32x4 *v = &values[stage][value_slot(item / EIGHTS, item % EIGHTS)];
                    u32x4 bad = {not_numbers(v->x), not_numbers(v->y), not_numbers(v->z), not_numbers(v->w)};
                    if ((bad.x | bad.y | bad.z | bad.w) == 0) continue;
                    *v &= ~((bad >> 15) * 0xffffu);
                    if (at + item / EIGHTS < last) raise(spoilt); // seen early by those still at the run before, it costs them a look
                }
            __syncthreads();
            if (at + KEYS < last) {
                copy(at + KEYS, page);
                page = batch[table + (at + 2 * KEYS < last ? (at + 2 * KEYS) / PAGE : 0)];
            }
#pragma unroll 1
            for (u32 sub = 0; sub < KEYS; sub += PART) {
                u32 keys_at = key_at + stage * STAGE + sub * 16, values_at = value_at + stage * STAGE + sub * EIGHTS * 16;
                f32x4 w[TILES][PART / 8]; // scores, then weights
#pragma unroll
                for (u32 t = 0; t < TILES; t++)
#pragma unroll
                    for (u32 j = 0; j < PART / 8; j++) w[t][j] = 0;
#pragma unroll
                for (u32 k = 0; k < DIM / 16; k++)
#pragma unroll
                    for (u32 j = 0; j < PART / 8; j += 2) {
                        u32x4 b = four_matrices(keys_at + (2 * k * KEYS + j * 8) * 16);
#pragma unroll
                        for (u32 t = 0; t < TILES; t++) {
                            multiply(w[t][j], query[t][k], b.x, b.y);
                            multiply(w[t][j + 1], query[t][k], b.z, b.w);
                        }
                    }
                if (ragged)
#pragma unroll
                    for (u32 t = 0; t < TILES; t++)
#pragma unroll
                        for (u32 j = 0; j < PART / 8; j++)
#pragma unroll
                            for (u32 i = 0; i < 4; i++)
                                w[t][j][i] = at + sub + j * 8 + part * 2 + i % 2 < live[2 * t + i / 2] ? w[t][j][i] : -float_of(INF_BITS);
                float by[2 * TILES];
                bool moved = false;
#pragma unroll
                for (u32 i = 0; i < 2 * TILES; i++) {
                    float top = -float_of(INF_BITS);
#pragma unroll
                    for (u32 j = 0; j < PART / 8; j++) top = most(top, most(w[i / 2][j][i % 2 * 2], w[i / 2][j][i % 2 * 2 + 1]));
                    top = most(top, shuffle_xor(top, 1));
                    top = most(top, shuffle_xor(top, 2));
                    bool moves = top > m[i] + SLACK;
                    by[i] = moves ? exp2_near(m[i] - top) : 1;
                    m[i] = moves ? top : m[i];
                    moved |= moves;
                }
                if (any(moved))
#pragma unroll
                    for (u32 t = 0; t < TILES; t++) {
                        f32x4 f = {by[2 * t], by[2 * t], by[2 * t + 1], by[2 * t + 1]};
                        l[t] *= f;
#pragma unroll
                        for (u32 d = 0; d < EIGHTS; d++) o[t][d] *= f;
                    }
#pragma unroll
                for (u32 k = 0; k < PART / 16; k++) {
                    u32x4 weight[TILES];
#pragma unroll
                    for (u32 t = 0; t < TILES; t++) {
#pragma unroll
                        for (u32 j = 2 * k; j < 2 * k + 2; j++)
#pragma unroll
                            for (u32 i = 0; i < 4; i++) w[t][j][i] = exp2_near(w[t][j][i] - (m[2 * t + i / 2] - LIFT));
                        f32x4 a = w[t][2 * k], b = w[t][2 * k + 1];
                        weight[t] = u32x4{halves(a.x, a.y), halves(a.z, a.w), halves(b.x, b.y), halves(b.z, b.w)};
                        multiply(l[t], weight[t], ONES, ONES);
                    }
#pragma unroll
                    for (u32 d = 0; d < EIGHTS; d += 2) {
                        u32x4 v = four_matrices_turned(values_at + k * 16 * EIGHTS * 16 + (d ^ value_eight) * 16);
#pragma unroll
                        for (u32 t = 0; t < TILES; t++) {
                            multiply(o[t][d], weight[t], v.x, v.y);
                            multiply(o[t][d + 1], weight[t], v.z, v.w);
                        }
                    }
                }
            }
        }
        __syncthreads(); // keys and values are used up, and spoilt is known
#pragma unroll
        for (u32 i = 0; i < 2 * TILES; i++) {
            if (live[i] == 0) continue;
            u32 r = row0 + mine + 8 * i;
            f32x2 *to = (f32x2 *)(y + ((u64)(r / s.share) * heads + head * s.share + r % s.share) * DIM);
            float inv = recip(l[i / 2][i % 2 * 2]);
#pragma unroll
            for (u32 d = 0; d < EIGHTS; d++) to[d * 4 + part] = f32x2{tidy(o[i / 2][d][i % 2 * 2] * inv), tidy(o[i / 2][d][i % 2 * 2 + 1] * inv)};
            if (!spoilt) continue;
            for (u32 at = full / KEYS * KEYS; at < live[i]; at++) {
                const u32 *v = (const u32 *)(cache + p.v_base / 4 + ((u64)(batch[table + at / PAGE] * s.kv_heads + head) * PAGE + at % PAGE) * EIGHTS);
                for (u32 d = part; d < DIM / 2; d += 4) {
                    u32 bad = not_numbers(v[d]);
                    if (bad & 0x8000u) to[d].x = float_of(0x7fc00000u);
                    if (bad >> 31) to[d].y = float_of(0x7fc00000u);
                }
            }
        }
        first = end;
    }
}
