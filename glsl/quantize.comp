#version 450
#include "tern.glsl"
#define ACT_BINDING 1
#include "act_store.glsl"
// Float32 rows to activations: runtime/ref/quantize.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(push_constant) uniform P { uint n, k; };

void main() {
    uint words = k / ACT_PER_WORD, t = gl_WorkGroupID.y;
    uint w = group_x() * LOCAL + gl_LocalInvocationIndex;
    bool live = w < words;
    float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
    if (live)
        for (uint m = 0u; m < ACT_PER_WORD; m++) v[m] = x[t * k + act_element(w, m)];
    act_store(n, words, t, w, live, v);
}
