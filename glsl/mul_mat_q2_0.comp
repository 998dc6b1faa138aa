#version 450
#include "tern.glsl"
#include "q2_0.glsl"
#include "act.glsl"
// The matrix product, ROWS rows and TOKENS tokens an invocation:
// runtime/ref/mul_mat_q2_0.go
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

#if ACT == ACT_I8
#ifdef DOT
#define ACTS 4
void act_load(out uint x[ACTS], uvec4 v) { [[unroll]] for (int k = 0; k < 4; k++) x[k] = v[k]; }
int dot16(int c, uint q, uint x[ACTS]) {
    [[unroll]] for (int k = 0; k < 4; k++) c += dotPacked4x8EXT(int((q >> (2 * k)) & 0x03030303u), int(x[k]));
    return c;
}
int dot_end(int c) { return c; }
#else
// Without a dot instruction: two products a multiplication. (c' + c<<16) * (x + x'<<16)
// has c*x + c'*x' above bit 16; the part below is signed and is taken off at the end.
#define ACTS 8
void act_load(out uint x[ACTS], uvec4 v) {
    [[unroll]] for (int k = 0; k < 4; k++) {
        uint u = v[k] ^ 0x80808080u;
        x[k] = (u & 0x00ff00ffu) - 0x00800080u;
        x[k + 4] = ((u >> 8) & 0x00ff00ffu) - 0x00800080u;
    }
}
int dot16(int c, uint q, uint x[ACTS]) {
    uint swapped = (q << 16) | (q >> 16), acc = uint(c);
    [[unroll]] for (int s = 0; s < 8; s++) acc += ((swapped >> (2 * s)) & 0x00030003u) * x[s];
    return int(acc);
}
int dot_end(int c) {
    int low = (c << 16) >> 16;
    return (c - low) >> 16;
}
#endif
#else
// Sums of 16 exact products in order.
#define ACTS 16
#if ACT == ACT_F32
void act_load(out float x[ACTS], uint at) {
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        vec4 v = uintBitsToFloat(a[at + i]);
        [[unroll]] for (uint e = 0u; e < 4u; e++) x[4u * i + e] = v[e];
    }
}
#else
void act_load(out float x[ACTS], uint at) {
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            vec2 h = f32_of(a[at + i][e]);
            x[8u * i + 2u * e] = h.x;
            x[8u * i + 2u * e + 1u] = h.y;
        }
    }
}
#endif
float dot16(uint q, float x[ACTS]) {
    float s = 0.0;
    [[unroll]] for (uint i = 0u; i < 16u; i++) s = act_mac(s, q2_0_value(q, i), x[i]);
    return s;
}
#endif

void main() {
    // Row r of an invocation is STEP below the one before: neighbours read neighbouring rows.
    const uint STEP = min(LOCAL, GROUP);
    uint lane = gl_LocalInvocationIndex, t0 = gl_WorkGroupID.y * TOKENS;
    uint row = group_x() * LOCAL * ROWS + lane / STEP * STEP * ROWS + lane % STEP;
    if (row >= rows) return;
    float total[ROWS][TOKENS], slice[ROWS][TOKENS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[r][t] = slice[r][t] = 0.0;
    for (uint b = 0u; b < nb; b++) {
        uvec4 q[ROWS];
        float dw[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint at = min(row + r * STEP, rows - 1u);
            q[r] = Q2_0_CODE(at, nb, b);
            dw[r] = Q2_0_SCALE(at, nb, b);
        }
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
            uint at = ACT_BLOCK(min(t0 + t, n - 1u), b);
#if ACT == ACT_I8
            int c[ROWS];
            [[unroll]] for (uint r = 0u; r < ROWS; r++) c[r] = 0;
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uint x[ACTS];
                act_load(x, a[at * 4u + j]);
                [[unroll]] for (uint r = 0u; r < ROWS; r++) c[r] = dot16(c[r], q[r][j], x);
            }
            uvec2 ds = ACT_PAIR(at);
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                slice[r][t] = add(slice[r][t], mul(float(dot_end(c[r]) - int(ds.y)), mul(dw[r], uintBitsToFloat(ds.x))));
#else
            float s[ROWS][4];
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                float x[ACTS];
                act_load(x, (at * 4u + j) * (4u / ACT_PER_WORD));
                [[unroll]] for (uint r = 0u; r < ROWS; r++) s[r][j] = dot16(q[r][j], x);
            }
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                slice[r][t] = add(slice[r][t], mul(add(add(s[r][0], s[r][1]), add(s[r][2], s[r][3])), dw[r]));
#endif
        }
        if (b % SLICE == SLICE - 1u || b + 1u == nb) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
                    total[r][t] = add(total[r][t], slice[r][t]);
                    slice[r][t] = 0.0;
                }
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint t = 0u; t < TOKENS; t++)
            if (row + r * STEP < rows && t0 + t < n) y[(t0 + t) * stride + row0 + row + r * STEP] = tidy(total[r][t]);
}
