#version 450
#include "tern.glsl"
// The weighted sum of a token's experts: runtime/ref/experts.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Shared { float joint[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint n, k, width, ids, has_shared; };

void main() {
    uint d = group_x() * LOCAL + gl_LocalInvocationIndex, t = gl_WorkGroupID.y;
    if (d >= width) return;
    uint weights = ids + n * k + t * (k + 1u);
    float s = 0.0;
    for (uint r = 0u; r < k; r++) s = add(s, mul(x[weights + r], x[(t * k + r) * width + d]));
    if (has_shared != 0u) s = add(s, mul(x[weights + k], joint[t * width + d]));
    y[t * width + d] = tidy(s);
}
