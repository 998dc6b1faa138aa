#include "warp.cuh"
// Norm and rope of q and k heads, k and v into the cache: runtime/ref/cache.go. A warp
// has a head of 128 dimensions; a lane has dimensions 2 lane, 2 lane + 1 and those 64
// further, which are its pairs of a rotation of the whole head.
struct Push { u32 heads, stride, positions, tables, v_base, q_norm, k_norm, rope; float inv_dim, eps, q_scale; };
struct Spec { u32 dim, kv_heads, rotated; };

const u32 DIM = 128, HALF = 64, PAGE = 64, WARPS = 8;

SHARED float rows[WARPS][DIM];

DEVICE u32 saturates(float x) { return mag(x) >= 0x477ff000u && mag(x) < INF_BITS; }

// Element i of a row of which the first `rotated` are turned.
DEVICE float turned(const float *row, const float *turn, u32 rotated, u32 i) {
    u32 pairs = rotated / 2;
    if (i >= rotated) return row[i];
    if (i < pairs) return row[i] * turn[2 * i] - row[i + pairs] * turn[2 * i + 1];
    i -= pairs;
    return row[i] * turn[2 * i + 1] + row[i + pairs] * turn[2 * i];
}

KERNEL(32 * WARPS) kernel(float *x, u32 *cache, u32 *batch, const float *consts, Push p, Spec s) {
    u32 lane = thread() % 32, warp = thread() / 32, t = group_y(), slot = group_x() * WARPS + warp;
    if (slot >= p.heads + 2 * s.kv_heads) return;
    f32x2 *at = (f32x2 *)(x + (u64)t * p.stride + slot * DIM) + lane;
    f32x2 a = at[0], b = at[HALF / 2];
    u32 pos = batch[p.positions + t];
    bool is_q = slot < p.heads, is_v = slot >= p.heads + s.kv_heads;
    if (!is_v) {
        bool all = s.rotated == DIM;
        const float *norm = consts + (is_q ? p.q_norm : p.k_norm) + 2 * lane, *turn = consts + p.rope + (u64)pos * s.rotated;
        f32x2 wa = {norm[0], norm[1]}, wb = {norm[HALF], norm[HALF + 1]}, cosine = 0, sine = 0, sum = a * a + b * b;
        if (all) {
            const float *mine = turn + 4 * lane;
            cosine = f32x2{mine[0], mine[2]};
            sine = f32x2{mine[1], mine[3]};
        }
#pragma unroll
        for (u32 h = 16; h > 0; h /= 2) {
            sum.x = sum.x + shuffle_xor(sum.x, h);
            sum.y = sum.y + shuffle_xor(sum.y, h);
        }
        float r = rsqrt((sum.x + sum.y) * p.inv_dim + p.eps);
        a = a * r * wa;
        b = b * r * wb;
        if (all) {
            f32x2 u = a;
            a = u * cosine - b * sine;
            b = u * sine + b * cosine;
        } else {
            float *row = rows[warp];
            ((f32x2 *)row)[lane] = a;
            ((f32x2 *)row)[lane + HALF / 2] = b;
            warp_barrier();
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                a[e] = turned(row, turn, s.rotated, 2 * lane + e);
                b[e] = turned(row, turn, s.rotated, 2 * lane + e + HALF);
            }
        }
    }
    if (is_q) {
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            a[e] = tidy(round13(a[e] * p.q_scale));
            b[e] = tidy(round13(b[e] * p.q_scale));
        }
        at[0] = a;
        at[HALF / 2] = b;
        return;
    }
    u32 page = batch[batch[p.tables + t] + pos / PAGE], head = slot - p.heads - (is_v ? s.kv_heads : 0);
    u32 word = (page * s.kv_heads + head) * (PAGE * DIM / 2) + pos % PAGE * (is_v ? DIM / 2 : 4);
    word += is_v ? p.v_base + lane : lane / 4 * PAGE * 4 + lane % 4;
    cache[word] = f16_rte(a.x) | f16_rte(a.y) << 16;
    cache[word + (is_v ? DIM / 4 : PAGE * DIM / 4)] = f16_rte(b.x) | f16_rte(b.y) << 16;
    u32 full = saturates(a.x) + saturates(a.y) + saturates(b.x) + saturates(b.y);
    if (full) count(batch + 1, full);
}
