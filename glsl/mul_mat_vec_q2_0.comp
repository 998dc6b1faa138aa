#version 450
#include "tern.glsl"
#include "q2_0.glsl"
#define ACT 2
#include "act.glsl"
// The product for few tokens: an invocation takes one row and every
// (LANES/32)-th slice, all its loads before any use; the slices are then added
// in order. runtime/ref/mul_mat_q2_0.go
layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint LANES = 128u; // 32 rows x slices at once
layout(constant_id = 2) const uint NB = 32u;     // blocks a row
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

const uint SLICES = (NB + SLICE - 1u) / SLICE, FOURS = Q2_0_FOURS(NB);
shared float sums[TOKENS * SLICES * GROUP];

void main() {
    uint lane = gl_LocalInvocationIndex, r = lane % GROUP, g = group_x(), t0 = gl_WorkGroupID.y * TOKENS;
    if (g * GROUP >= rows) return;
    [[dont_unroll]] for (uint s = lane / GROUP; s < (nb + SLICE - 1u) / SLICE; s += LANES / GROUP) {
        uvec4 q[SLICE];
        uvec2 d[2];
        uint four = (s * SLICE >> SHARE) / 4u; // where the slice's scales begin
        [[unroll]] for (uint i = 0u; i < SLICE; i++) q[i] = codes[(g * nb + min(s * SLICE + i, nb - 1u)) * GROUP + r];
        [[unroll]] for (uint i = 0u; i < 2u; i++) d[i] = scales[(g * FOURS + min(four + i, FOURS - 1u)) * GROUP + r];
        [[dont_unroll]] for (uint t = 0u; t < TOKENS; t++) {
            uint first = min(t0 + t, n - 1u) * nb + s * SLICE;
            float sum = 0.0;
            [[unroll]] for (uint i = 0u; i < SLICE; i++) {
                if (s * SLICE + i < nb) {
                    int c = 0;
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        uvec4 v = a[(first + i) * 4u + j];
                        [[unroll]] for (int k = 0; k < 4; k++) c += dotPacked4x8EXT(int((q[i][j] >> (2 * k)) & 0x03030303u), int(v[k]));
                    }
                    uint scale = (s * SLICE + i >> SHARE) - 4u * four;
                    uvec2 ds = ACT_PAIR(first + i);
                    sum = add(sum, mul(float(c - int(ds.y)), mul(q2_0_half(scale < 4u ? d[0] : d[1], scale % 4u), uintBitsToFloat(ds.x))));
                }
            }
            sums[(t * SLICES + s) * GROUP + r] = sum;
        }
    }
    barrier();
    for (uint i = lane; i < TOKENS * GROUP; i += LANES) {
        uint t = i / GROUP, row = g * GROUP + i % GROUP;
        float total = sums[t * SLICES * GROUP + i % GROUP];
        [[dont_unroll]] for (uint s = 1u; s < (nb + SLICE - 1u) / SLICE; s++) total = add(total, sums[(t * SLICES + s) * GROUP + i % GROUP]);
        if (row < rows && t0 + t < n) y[(t0 + t) * stride + row0 + row] = tidy(total);
    }
}
