#version 450
#include "tern.glsl"
#define SHARE_ID 1
#include "q2_0.glsl"
// Every block of a packed tensor to float32 rows: runtime/ref/dequant_q2_0.go
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, nb; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex; // (row group, block, row in group)
    uint row = i / (GROUP * nb) * GROUP + i % GROUP, b = i / GROUP % nb;
    if (row >= rows) return;
    uvec4 q = Q2_0_CODE(row, nb, b);
    float d = Q2_0_SCALE(row, nb, b);
    for (uint j = 0u; j < 4u; j++)
        for (uint e = 0u; e < 16u; e++)
            y[(row * nb + b) * 64u + 16u * j + e] = tidy(mul(q2_0_value(q[j], e), d));
}
