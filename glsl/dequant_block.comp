#version 450
#include "tern.glsl"
#include "block.glsl"
// Every block of a packed tensor to float32 rows: runtime/ref/block.go
layout(local_size_x = LOCAL) in;
layout(binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, nb; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex; // (row group, block, row in group)
    uint row = i / (GROUP * nb) * GROUP + i % GROUP, b = i / GROUP % nb;
    if (row >= rows) return;
    Block w = block_of(row, nb, b);
    STORE_BLOCK(w, (row * nb + b) * 64u)
}
