#version 450
#include "tern.glsl"
// x += y, and the status word if a sum is not finite: runtime/ref/rows_f32.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(binding = 2) buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint count; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex;
    if (i >= count) return;
    float v = tidy(add(x[i], y[i]));
    x[i] = v;
    if (mag(v) >= INF_BITS) batch[0] = 1u;
}
