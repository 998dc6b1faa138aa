#version 450
#include "tern.glsl"
#include "float.glsl"
// Every block of a packed tensor to float32 rows: runtime/ref/float_weights.go
layout(local_size_x = LOCAL) in;
layout(binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, k; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex, nb = (k + 63u) / 64u; // (row group, block, row in group)
    uint row = i / (GROUP * nb) * GROUP + i % GROUP, b = i / GROUP % nb;
    if (row >= rows) return;
    STORE_WEIGHTS(row, b, row * k + b * 64u)
}
