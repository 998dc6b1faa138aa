#version 450
#include "tern.glsl"
#define SHARE_ID 1
#include "q2_0.glsl"
// Embedding rows to float32: runtime/ref/get_rows_q2_0.go
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer Batch { uint batch[]; };
#ifdef QUADS // an invocation has four elements of a block
layout(binding = 3) writeonly buffer Y { vec4 y[]; };
const uint LANES = 16u;
#else
layout(binding = 3) writeonly buffer Y { float y[]; };
const uint LANES = 1u;
#endif
layout(push_constant) uniform P { uint rows, nb, row0, tokens; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex, b = i / LANES, t = gl_WorkGroupID.y;
    uint row = batch[tokens + t] - row0;
    if (b >= nb || row >= rows) return; // another segment has the row
    uvec4 q = Q2_0_CODE(row, nb, b);
    float d = Q2_0_SCALE(row, nb, b);
#ifdef QUADS
    uint lane = i % LANES;
    vec4 v;
    [[unroll]] for (uint e = 0u; e < 4u; e++) v[e] = tidy(mul(q2_0_value(q[lane / 4u], lane % 4u * 4u + e), d));
    y[(t * nb + b) * LANES + lane] = v;
#else
    for (uint j = 0u; j < 4u; j++)
        for (uint e = 0u; e < 16u; e++)
            y[(t * nb + b) * 64u + 16u * j + e] = tidy(mul(q2_0_value(q[j], e), d));
#endif
}
