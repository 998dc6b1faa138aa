#version 450
#include "tern.glsl"
#include "delta.glsl"
// The recurrence of a gated delta net, a column of the state an invocation:
// runtime/ref/delta.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer State { float state[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint n, sequences; };

const uint EACH = DIM / 8u; // elements of a part of a dot

float join(float part[8]) {
    [[unroll]] for (uint h = 4u; h > 0u; h /= 2u)
        [[unroll]] for (uint p = 0u; p < h; p++) part[p] = add(part[p], part[p + h]);
    return part[0];
}

void main() {
    uint column = group_x() * LOCAL + gl_LocalInvocationIndex;
    if (column >= VALUES * DIM) return;
    uint h = column / DIM, seq = sequences + 4u * gl_WorkGroupID.y;
    uint first = batch[seq], end = first + batch[seq + 1u], read = batch[seq + 2u], write = batch[seq + 3u];
    float m[DIM];
    for (uint i = 0u; i < DIM; i++) m[i] = 0.0;
    if (read != 0xffffffffu)
        for (uint i = 0u; i < DIM; i++) m[i] = state[(read * VALUES * DIM + column) * DIM + i];
    for (uint t = first; t < end; t++) {
        uint q = out_row(n, t) + h % KEYS * DIM, k = q + KEYS * DIM, v = out_row(n, t) + 2u * KEYS * DIM + column;
        uint gates = raw_row(t) + CHANNELS + VALUES * DIM + h;
        float beta = x[gates], decay = x[gates + VALUES], value = x[v];
        float part[8] = float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        for (uint e = 0u; e < EACH; e++) {
            [[unroll]] for (uint p = 0u; p < 8u; p++) {
                uint i = p * EACH + e;
                m[i] = mul(m[i], decay);
                part[p] = add(part[p], mul(m[i], x[k + i]));
            }
        }
        float err = mul(beta, sub(value, join(part)));
        part = float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        for (uint e = 0u; e < EACH; e++) {
            [[unroll]] for (uint p = 0u; p < 8u; p++) {
                uint i = p * EACH + e;
                m[i] = tidy(add(m[i], mul(err, x[k + i])));
                part[p] = add(part[p], mul(m[i], x[q + i]));
            }
        }
        x[v] = tidy(join(part));
    }
    for (uint i = 0u; i < DIM; i++) state[(write * VALUES * DIM + column) * DIM + i] = m[i];
}
