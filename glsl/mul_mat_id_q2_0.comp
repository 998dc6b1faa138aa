#version 450
#define EXPERTS
#define WIDTH nb
#define Y_BINDING 3
#include "tern.glsl"
#include "q2_0.glsl"
#include "act.glsl"
#include "product.glsl"
// The matrix product by experts, a row an invocation: runtime/ref/experts.go,
// mul_mat_q2_0.go. LANES invocations share the slices of a row, whose sums the first
// of them adds in order.
layout(local_size_x = 32 * LANES) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };

float term(uvec4 q, float d, uint at) {
#if ACT == ACT_I8
    int c = 0;
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uvec4 x = a[at * 4u + j];
        [[unroll]] for (int i = 0; i < 4; i++) {
            uint w = (q[j] >> (2 * i)) & 0x03030303u;
#ifdef DOT
            c += dotPacked4x8EXT(int(w), int(x[i]));
#else
            [[unroll]] for (int m = 0; m < 32; m += 8) c += int(bitfieldExtract(w, m, 8)) * bitfieldExtract(int(x[i]), m, 8);
#endif
        }
    }
    uvec2 ds = ACT_PAIR(at);
    return mul(float(c - int(ds.y)), mul(d, uintBitsToFloat(ds.x)));
#else
    float s[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        s[j] = 0.0;
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
#if ACT == ACT_F32
            float x = uintBitsToFloat(a[at * 16u + j * 4u + i / 4u][i % 4u]);
#else
            vec2 two = f32_of(a[at * 8u + j * 2u + i / 8u][i / 2u % 4u]);
            float x = i % 2u == 0u ? two.x : two.y;
#endif
            s[j] = act_mac(s[j], q2_0_value(q[j], i), x);
        }
    }
    return mul(add(add(s[0], s[1]), add(s[2], s[3])), d);
#endif
}

void slice_sums(uint row, uint s, uint t0, out float sum[TOKENS]) {
    sum[0] = 0.0;
    for (uint b = s * SLICE; b < min(nb, s * SLICE + SLICE); b++)
        sum[0] = add(sum[0], term(Q2_0_CODE(row, nb, b), Q2_0_SCALE(row, nb, b), ACT_BLOCK(act_row(t0), b)));
}
#define BLOCKS nb
#include "slices.glsl"
