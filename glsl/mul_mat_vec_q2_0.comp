#version 450
#include "tern.glsl"
#include "q2_0.glsl"
#define ACT 2
#include "act.glsl"
// The product for few tokens: a workgroup takes ROWS rows, an invocation one row
// and every (LANES/ROWS)-th slice. All loads of a slice's weights come before any
// use; meanwhile the activations of a single token are brought to shared memory.
// The slices are then added in order. runtime/ref/mul_mat_q2_0.go
layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint LANES = 64u; // ROWS x slices at once
layout(constant_id = 2) const uint NB = 32u;    // blocks a row
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

const uint ROWS = 16u;
const uint SLICES = (NB + SLICE - 1u) / SLICE, FOURS = Q2_0_FOURS(NB);
shared float sums[TOKENS * SLICES * ROWS];

uvec4 q[SLICE];
uvec2 d[2];

// Where the scales of slice s begin, in fours.
uint four_of(uint s) { return (s * SLICE >> SHARE) / 4u; }

void load(uint row, uint s) {
    uint g = row / GROUP, r = row % GROUP;
    [[unroll]] for (uint i = 0u; i < SLICE; i++) q[i] = codes[(g * NB + min(s * SLICE + i, NB - 1u)) * GROUP + r];
    [[unroll]] for (uint i = 0u; i < 2u; i++) d[i] = scales[(g * FOURS + min(four_of(s) + i, FOURS - 1u)) * GROUP + r];
}

#if TOKENS == 1
shared uvec4 x_row[NB * 4u];
shared uvec2 x_pair[NB];
#define ACTS(t, b, j) x_row[(b) * 4u + j]
#define PAIR(t, b) x_pair[b]
#else
#define ACTS(t, b, j) a[ACT_BLOCK(t, b) * 4u + j]
#define PAIR(t, b) ACT_PAIR(ACT_BLOCK(t, b))
#endif

float slice_sum(uint t, uint s) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0u; i < SLICE; i++) {
        uint b = s * SLICE + i;
        if (NB % SLICE == 0u || b < NB) {
            int c = 0;
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uvec4 v = ACTS(t, b, j);
                [[unroll]] for (int k = 0; k < 4; k++) c += dotPacked4x8EXT(int((q[i][j] >> (2 * k)) & 0x03030303u), int(v[k]));
            }
            uint scale = (b >> SHARE) - 4u * four_of(s);
            uvec2 ds = PAIR(t, b);
            sum = add(sum, mul(float(c - int(ds.y)), mul(q2_0_half(scale < 4u ? d[0] : d[1], scale % 4u), uintBitsToFloat(ds.x))));
        }
    }
    return sum;
}

void main() {
    uint lane = gl_LocalInvocationIndex, r = lane % ROWS, row = group_x() * ROWS + r, t0 = gl_WorkGroupID.y * TOKENS;
    load(min(row, rows - 1u), lane / ROWS);
#if TOKENS == 1
    for (uint i = lane; i < NB * 4u; i += LANES) x_row[i] = a[ACT_BLOCK(t0, i / 4u) * 4u + i % 4u];
    for (uint i = lane; i < NB; i += LANES) x_pair[i] = ACT_PAIR(ACT_BLOCK(t0, i));
    barrier();
#endif
    [[dont_unroll]] for (uint s = lane / ROWS; s < SLICES; s += LANES / ROWS) {
        if (s >= LANES / ROWS) load(min(row, rows - 1u), s);
        [[dont_unroll]] for (uint t = 0u; t < TOKENS; t++) sums[(t * SLICES + s) * ROWS + r] = slice_sum(min(t0 + t, n - 1u), s);
    }
    barrier();
    for (uint i = lane; i < TOKENS * ROWS; i += LANES) {
        uint t = i / ROWS, out_row = group_x() * ROWS + i % ROWS;
        float total = sums[t * SLICES * ROWS + i % ROWS];
        for (uint s = 1u; s < SLICES; s++) total = add(total, sums[(t * SLICES + s) * ROWS + i % ROWS]);
        if (out_row < rows && t0 + t < n) y[(t0 + t) * stride + row0 + out_row] = tidy(total);
    }
}
