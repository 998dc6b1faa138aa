#version 450
#define WIDTH k
#define Y_BINDING 2
#include "tern.glsl"
#include "float.glsl"
#include "act.glsl"
#include "product.glsl"
// The matrix product of float weights, a row and TOKENS tokens an invocation:
// runtime/ref/float_weights.go. LANES invocations share the slices of a row, whose
// sums the first of them adds in order.
layout(local_size_x = 32 * LANES) in;
layout(binding = 1) readonly buffer A { uint a[]; };

// Element i of block b of token t; 0 beyond the row, where the weights are 0 as well.
float element(uint t, uint b, uint i) {
#if ACT == ACT_F32
    uint e = b * 64u + i;
    return e < k ? uintBitsToFloat(a[t * k + e]) : 0.0;
#elif ACT == ACT_F16
    vec2 two = f32_of(a[(t * k + b * 64u + i) / 2u]);
    return i % 2u == 0u ? two.x : two.y;
#else
    return float(bitfieldExtract(int(a[ACT_BLOCK(t, b) * 16u + i / 16u * 4u + i % 4u]), int(i % 16u / 4u * 8u), 8));
#endif
}

void slice_sums(uint row, uint s, uint t0, out float sum[TOKENS]) {
    uint nb = (k + 63u) / 64u;
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) sum[t] = 0.0;
    for (uint b = s * SLICE; b < min(nb, s * SLICE + SLICE); b++) {
        float c[TOKENS][4];
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) [[unroll]] for (uint j = 0u; j < 4u; j++) c[t][j] = 0.0;
        for (uint i = 0u; i < 16u; i += PER_WORD) {
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uint word = weight_word(row, nb, b, (16u * j + i) / PER_WORD);
                [[unroll]] for (uint e = 0u; e < PER_WORD; e++)
                    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
                        c[t][j] = add(c[t][j], mul(weight(word, e), element(act_row(t0 + t), b, 16u * j + i + e)));
            }
        }
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
            float term = add(add(c[t][0], c[t][1]), add(c[t][2], c[t][3]));
#if ACT == ACT_I8
            term = mul(term, uintBitsToFloat(a[n * k / 4u + ACT_BLOCK(act_row(t0 + t), b) * 2u]));
#endif
            sum[t] = add(sum[t], term);
        }
    }
}
#define BLOCKS ((k + 63u) / 64u)
#include "slices.glsl"
