#version 450
#include "tern.glsl"
#include "cache.glsl"
// Norm and rope of q and k heads, k and v into the cache:
// runtime/ref/qkv_rope_cache_f16.go. A head a workgroup, or a subgroup of 32.
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint ROTATED = 128u; // dimensions of a head
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) writeonly buffer Cache { uint cache[]; };
layout(binding = 2) buffer Batch { uint batch[]; };
layout(binding = 3) readonly buffer Consts { float consts[]; };
layout(push_constant) uniform P {
    uint heads, stride, positions, tables, v_base, q_norm, k_norm, rope;
    float inv_dim, eps, q_scale;
};

#ifdef SHUFFLE
#include "tree.glsl"
const uint LANES = 32u, GROUPS = LOCAL / LANES;
shared float rows[GROUPS][256];
#define row rows[gl_SubgroupID]
void meet() { subgroupBarrier(); }
#else
const uint LANES = LOCAL, GROUPS = 1u;
shared float part[256];
shared float row[256];
void meet() { barrier(); }
#endif

uint saturates(float x) { return uint(mag(x) >= 0x477ff000u && mag(x) < INF_BITS); }
#ifdef QUANTIZED
#include "store_q.glsl"
#endif

// The sum of the squares of row in the order of sumSquares.
float squares(uint lane) {
#ifdef SHUFFLE
    meet();
    float s[8];
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        float v = lane + 32u * j < HEAD_DIM ? row[lane + 32u * j] : 0.0;
        s[j] = mul(v, v);
    }
    return tree(s, HEAD_DIM);
#else
    for (uint i = lane; i < HEAD_DIM; i += LANES) part[i] = mul(row[i], row[i]);
    for (uint h = HEAD_DIM / 2u; h > 0u; h /= 2u) {
        barrier();
        for (uint i = lane; i < h; i += LANES) part[i] = add(part[i], part[i + h]);
    }
    barrier();
    return part[0];
#endif
}

void main() {
    uint lane = gl_LocalInvocationIndex % LANES, t = gl_WorkGroupID.y;
    uint slot = group_x() * GROUPS + gl_LocalInvocationIndex / LANES;
    if (slot >= heads + 2u * KV_HEADS) return;
    uint at = t * stride + slot * HEAD_DIM, half_dim = HEAD_DIM / 2u, pairs = ROTATED / 2u;
    uint pos = batch[positions + t];
    bool is_q = slot < heads, is_v = slot >= heads + KV_HEADS;
    for (uint i = lane; i < HEAD_DIM; i += LANES) row[i] = x[at + i];
    if (!is_v) {
        float r = rsqrt(add(mul(squares(lane), inv_dim), eps));
        uint norm = is_q ? q_norm : k_norm;
        for (uint i = lane; i < pairs; i += LANES) {
            float a = mul(mul(row[i], r), consts[norm + i]);
            float b = mul(mul(row[i + pairs], r), consts[norm + i + pairs]);
            float c = consts[rope + (pos * pairs + i) * 2u], s = consts[rope + (pos * pairs + i) * 2u + 1u];
            row[i] = sub(mul(a, c), mul(b, s));
            row[i + pairs] = add(mul(a, s), mul(b, c));
        }
        for (uint i = ROTATED + lane; i < HEAD_DIM; i += LANES) row[i] = mul(mul(row[i], r), consts[norm + i]);
    }
    meet();
    if (is_q) {
        for (uint i = lane; i < HEAD_DIM; i += LANES) x[at + i] = tidy(round13(mul(row[i], q_scale)));
        return;
    }
    uint page = batch[batch[tables + t] + pos / PAGE], head = slot - heads - (is_v ? KV_HEADS : 0u), full = 0u;
#ifdef QUANTIZED
    for (uint i = lane; i < HEAD_DIM; i += LANES) full += saturates(row[i]);
    if (is_v) store_row(v_base, VALUE_BITS, page, head, pos % PAGE, true);
    else store_row(0u, KEY_BITS, page, head, pos % PAGE, false);
#else
    for (uint i = lane; i < half_dim; i += LANES) {
        uint d = 2u * i;
        full += saturates(row[d]) + saturates(row[d + 1u]);
        uint w = f16_rte(row[d]) | (f16_rte(row[d + 1u]) << 16);
        if (is_v) cache[v_base + value_word(page, head, pos, d)] = w;
        else cache[key_word(page, head, pos, d)] = w;
    }
#endif
    if (full != 0u) atomicAdd(batch[1], full);
}
