#version 450
#include "tern.glsl"
#include "q2_0.glsl"
#include "act.glsl"
// The matrix product, one row and TOKENS tokens an invocation:
// runtime/ref/mul_mat_q2_0.go
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

#if ACT == ACT_I8
#ifdef DOT
int dot16(uint q, uvec4 v) {
    int c = 0;
    [[unroll]] for (int k = 0; k < 4; k++) c += dotPacked4x8EXT(int((q >> (2 * k)) & 0x03030303u), int(v[k]));
    return c;
}
int dot64(uvec4 q, uint at) {
    int c = 0;
    [[unroll]] for (uint j = 0u; j < 4u; j++) c += dot16(q[j], a[at + j]);
    return c;
}
#else
// Without a dot instruction: two products a multiplication. (c' + c<<16) * (x + x'<<16)
// has c*x + c'*x' above bit 16; the part below is signed and is taken off at the end.
int dot64(uvec4 q, uint at) {
    uint acc = 0u;
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uint swapped = (q[j] << 16) | (q[j] >> 16);
        uvec4 v = a[at + j] ^ 0x80808080u;
        [[unroll]] for (int k = 0; k < 4; k++) {
            acc += ((swapped >> (2 * k)) & 0x00030003u) * ((v[k] & 0x00ff00ffu) - 0x00800080u);
            acc += ((swapped >> (2 * k + 8)) & 0x00030003u) * (((v[k] >> 8) & 0x00ff00ffu) - 0x00800080u);
        }
    }
    int low = int(acc << 16) >> 16;
    return (int(acc) - low) >> 16;
}
#endif
#else
float quarter(uint q, uint at) {
    float s = 0.0;
#if ACT == ACT_F32
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        vec4 v = uintBitsToFloat(a[at + i]);
        [[unroll]] for (uint e = 0u; e < 4u; e++) s = add(s, mul(q2_0_value(q, 4u * i + e), v[e]));
    }
#else
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uvec4 v = a[at + i];
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            vec2 h = f32_of(v[e]);
            s = add(s, mul(q2_0_value(q, 8u * i + 2u * e), h.x));
            s = add(s, mul(q2_0_value(q, 8u * i + 2u * e + 1u), h.y));
        }
    }
#endif
    return s;
}
#endif

void main() {
    uint row = group_x() * LOCAL + gl_LocalInvocationIndex, t0 = gl_WorkGroupID.y * TOKENS;
    if (row >= rows) return;
    float total[TOKENS], slice[TOKENS];
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = slice[t] = 0.0;
    for (uint b = 0u; b < nb; b++) {
        uvec4 q = Q2_0_CODE(row, nb, b);
        float dw = Q2_0_SCALE(row, nb, b);
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
            uint at = min(t0 + t, n - 1u) * nb + b;
#if ACT == ACT_I8
            uvec2 ds = ACT_PAIR(at);
            int c = dot64(q, at * 4u) - int(ds.y);
            slice[t] = add(slice[t], mul(float(c), mul(dw, uintBitsToFloat(ds.x))));
#elif ACT == ACT_F16
            at *= 8u;
            float s = add(add(quarter(q.x, at), quarter(q.y, at + 2u)), add(quarter(q.z, at + 4u), quarter(q.w, at + 6u)));
            slice[t] = add(slice[t], mul(s, dw));
#else
            at *= 16u;
            float s = add(add(quarter(q.x, at), quarter(q.y, at + 4u)), add(quarter(q.z, at + 8u), quarter(q.w, at + 12u)));
            slice[t] = add(slice[t], mul(s, dw));
#endif
        }
        if (b % SLICE == SLICE - 1u || b + 1u == nb) {
            [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
                total[t] = add(total[t], slice[t]);
                slice[t] = 0.0;
            }
        }
    }
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        if (t0 + t < n) y[(t0 + t) * stride + row0 + row] = tidy(total[t]);
}
