#version 450
#include "tern.glsl"
#include "block.glsl"
// Embedding rows of block formats to float32: runtime/ref/block.go
layout(local_size_x = LOCAL) in;
layout(binding = 1) readonly buffer Batch { uint batch[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, nb, row0, tokens; };

void main() {
    uint b = group_x() * LOCAL + gl_LocalInvocationIndex, t = gl_WorkGroupID.y;
    uint row = batch[tokens + t] - row0;
    if (b >= nb || row >= rows) return; // another segment has the row
    Block w = block_of(row, nb, b);
    STORE_BLOCK(w, (t * nb + b) * 64u)
}
