#include "warp.cuh"
// Norm and rope of q and k heads, k and v into the cache: runtime/ref/cache.go. Sixteen
// lanes have a head of 128 dimensions; lane l has dimensions 4 l to 4 l + 3 and those 64
// further, which are its pairs of a rotation of the whole head.
struct Push { u32 heads, stride, positions, tables, v_base, q_norm, k_norm, rope; float inv_dim, eps, q_scale; };
struct Spec { u32 dim, kv_heads, rotated; };

const u32 DIM = 128, HALF = 64, PAGE = 64, TEAMS = 8;

SHARED float rows[TEAMS][DIM];

DEVICE u32 saturates(float x) { return mag(x) >= 0x477ff000u && mag(x) < INF_BITS; }

// Whether a half of x is not what the card's conversion makes of it.
DEVICE bool special(float x) { return mag(x) - 0x33000001u >= 0x477fe000u - 0x33000001u; }

// Element i of a row of which the first `rotated` are turned.
DEVICE float turned(const float *row, const float *turn, u32 rotated, u32 i) {
    u32 pairs = rotated / 2;
    if (i >= rotated) return row[i];
    if (i < pairs) return row[i] * turn[2 * i] - row[i + pairs] * turn[2 * i + 1];
    i -= pairs;
    return row[i] * turn[2 * i + 1] + row[i + pairs] * turn[2 * i];
}

// Four floats of constants, which need not start at a quad unless they are plain.
template <bool plain> DEVICE f32x4 four(const float *from, u32 offset) {
    from += offset;
    return !plain && offset % 4 ? f32x4{from[0], from[1], from[2], from[3]} : *(const f32x4 *)from;
}

// Plain rotations are of whole heads, with all constants in quads.
template <bool plain> DEVICE void rope(float *x, u32 *cache, u32 *batch, const float *consts, const Push &p, const Spec &s) {
    u32 lane = thread() % 16, team = thread() / 16, t = group_y(), slots = p.heads + 2 * s.kv_heads, slot = group_x() * TEAMS + team;
    f32x4 *at = (f32x4 *)(x + (u64)t * p.stride) + min(slot, slots - 1) * (DIM / 4) + lane, a = load_once(at), b = load_once(at + HALF / 4);
    u32 pos = batch[p.positions + t], table = batch[p.tables + t];
    bool all = plain || s.rotated == DIM, upper = lane & 8, odd = lane & 4;
    u32 turn = p.rope + pos * s.rotated;
    f32x4 cosine = 0, sine = 0;
    if (all) {
        f32x4 low = four<plain>(consts, turn + 8 * lane), high = four<plain>(consts, turn + 8 * lane + 4);
        cosine = f32x4{low.x, low.z, high.x, high.z};
        sine = f32x4{low.y, low.w, high.y, high.w};
    }
    bool is_q = slot < p.heads, is_v = slot >= p.heads + s.kv_heads;
    if (any(!is_v)) {
        f32x4 squares = a * a + b * b;
        // The tree over 128 partial sums, of which lanes keep two, then one.
        float low = upper ? squares.z : squares.x, high = upper ? squares.w : squares.y;
        low = low + shuffle_xor(upper ? squares.x : squares.z, 8);
        high = high + shuffle_xor(upper ? squares.y : squares.w, 8);
        float sum = odd ? high : low;
        sum = sum + shuffle_xor(odd ? low : high, 4);
        sum = sum + shuffle_xor(sum, 2);
        sum = sum + shuffle_xor(sum, 1);
        sum = sum + shuffle_xor(sum, 8);
        sum = sum + shuffle_xor(sum, 4);
        float r = rsqrt(sum * p.inv_dim + p.eps);
        u32 norm = (is_q ? p.q_norm : p.k_norm) + 4 * lane;
        f32x4 c = a * r * four<plain>(consts, norm), d = b * r * four<plain>(consts, norm + HALF);
        if (all) {
            f32x4 u = c;
            c = u * cosine - d * sine;
            d = u * sine + d * cosine;
        } else {
            float *turns = rows[team];
            ((f32x4 *)turns)[lane] = c;
            ((f32x4 *)turns)[lane + HALF / 4] = d;
            warp_barrier();
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                c[e] = turned(turns, consts + turn, s.rotated, 4 * lane + e);
                d[e] = turned(turns, consts + turn, s.rotated, 4 * lane + e + HALF);
            }
        }
        a = is_v ? a : c;
        b = is_v ? b : d;
    }
    if (slot >= slots) return;
    if (is_q) {
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            a[e] = tidy(round13(a[e] * p.q_scale));
            b[e] = tidy(round13(b[e] * p.q_scale));
        }
        at[0] = a;
        at[HALF / 4] = b;
        return;
    }
    u32 page = batch[table + pos / PAGE], head = slot - p.heads - (is_v ? s.kv_heads : 0), word = (page * s.kv_heads + head) * (PAGE * DIM / 2);
    word += pos % PAGE * (is_v ? DIM / 2 : 4) + (is_v ? p.v_base + 2 * lane : lane / 2 * PAGE * 4 + lane % 2 * 2);
    u32x2 v = {halves(a.x, a.y), halves(a.z, a.w)}, w = {halves(b.x, b.y), halves(b.z, b.w)};
    bool odd_ones = false;
    u32 full = 0;
#pragma unroll
    for (u32 e = 0; e < 4; e++) odd_ones = odd_ones || special(a[e]) || special(b[e]);
    if (odd_ones) {
        v = {f16_rte(a.x) | f16_rte(a.y) << 16, f16_rte(a.z) | f16_rte(a.w) << 16};
        w = {f16_rte(b.x) | f16_rte(b.y) << 16, f16_rte(b.z) | f16_rte(b.w) << 16};
#pragma unroll
        for (u32 e = 0; e < 4; e++) full += saturates(a[e]) + saturates(b[e]);
    }
    *(u32x2 *)(cache + word) = v;
    *(u32x2 *)(cache + word + (is_v ? DIM / 4 : PAGE * DIM / 4)) = w;
    if (full) count(batch + 1, full);
}

KERNEL(16 * TEAMS) kernel(float *x, u32 *cache, u32 *batch, const float *consts, Push p, Spec s) {
    if (s.rotated == DIM && (p.q_norm | p.k_norm | p.rope) % 4 == 0)
        rope<true>(x, cache, batch, consts, p, s);
    else
        rope<false>(x, cache, batch, consts, p, s);
}
