#version 450
#include "tern.glsl"
#include "float.glsl"
// Embedding rows of float weights to float32: runtime/ref/float_weights.go
layout(local_size_x = LOCAL) in;
layout(binding = 1) readonly buffer Batch { uint batch[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, k, row0, tokens; };

void main() {
    uint b = group_x() * LOCAL + gl_LocalInvocationIndex, t = gl_WorkGroupID.y;
    uint row = batch[tokens + t] - row0;
    if (b * 64u >= k || row >= rows) return; // another segment has the row
    STORE_WEIGHTS(row, b, t * k + b * 64u)
}
