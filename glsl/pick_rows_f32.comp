#version 450
#include "tern.glsl"
// Rows by index: runtime/ref/rows_f32.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer Batch { uint batch[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform P { uint k, rows; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex, t = gl_WorkGroupID.y;
    if (i < k) y[t * k + i] = x[batch[rows + t] * k + i];
}
