#version 450
#define WIDTH k
#define Y_BINDING 2
#define TOKENS 1
#include "tern.glsl"
#include "float.glsl"
#include "act.glsl"
#include "product.glsl"
// The matrix product of float weights with one token, for matrices of few rows:
// LANES invocations share the blocks of a row, whose terms are then added slice by
// slice in order: runtime/ref/float_weights.go
layout(local_size_x = 32 * LANES) in;
layout(binding = 1) readonly buffer A { uint a[]; };

const uint MOST = 128u; // blocks at a time, whole slices
shared float terms[MOST * GROUP];

float element(uint t, uint e) {
#if ACT == ACT_F32
    return e < k ? uintBitsToFloat(a[t * k + e]) : 0.0;
#elif ACT == ACT_F16
    vec2 two = f32_of(a[(t * k + e) / 2u]);
    return e % 2u == 0u ? two.x : two.y;
#else
    uint i = e % 64u;
    return float(bitfieldExtract(int(a[ACT_BLOCK(t, e / 64u) * 16u + i / 16u * 4u + i % 4u]), int(i % 16u / 4u * 8u), 8));
#endif
}

float term(uint row, uint nb, uint t, uint b) {
    float c[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++) c[j] = 0.0;
    for (uint i = 0u; i < 16u; i += PER_WORD) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint word = weight_word(row, nb, b, (16u * j + i) / PER_WORD);
            [[unroll]] for (uint e = 0u; e < PER_WORD; e++) c[j] = add(c[j], mul(weight(word, e), element(t, b * 64u + 16u * j + i + e)));
        }
    }
    float sum = add(add(c[0], c[1]), add(c[2], c[3]));
#if ACT == ACT_I8
    sum = mul(sum, uintBitsToFloat(a[n * k / 4u + ACT_BLOCK(t, b) * 2u]));
#endif
    return sum;
}

void main() {
    uint lane = gl_LocalInvocationIndex / GROUP, r = gl_LocalInvocationIndex % GROUP;
    uint row = group_x() * GROUP + r, t = gl_WorkGroupID.y, nb = (k + 63u) / 64u;
    if (row - r >= rows) return;
    float total = 0.0;
    for (uint first = 0u; first < nb; first += MOST) {
        uint count = min(MOST, nb - first);
        barrier();
        for (uint b = lane; b < count; b += LANES) terms[b * GROUP + r] = term(row, nb, act_row(t), first + b);
        barrier();
        for (uint s = lane * SLICE; s < count; s += LANES * SLICE) {
            float sum = 0.0;
            for (uint b = s; b < min(s + SLICE, count); b++) sum = add(sum, terms[b * GROUP + r]);
            terms[s * GROUP + r] = sum;
        }
        barrier();
        if (lane == 0u)
            for (uint s = 0u; s < count; s += SLICE) total = add(total, terms[s * GROUP + r]);
    }
    if (lane == 0u && row < rows) store(row, t, tidy(total));
}
