#version 450
#include "tern.glsl"
#define ACT_BINDING 1
#include "act_store.glsl"
// silu(gate) * up into activations: runtime/ref/silu_mul.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(push_constant) uniform P { uint n, k; };

void main() {
    uint words = k / ACT_PER_WORD, t = gl_WorkGroupID.y;
    uint w = group_x() * LOCAL + gl_LocalInvocationIndex;
    bool live = w < words;
    float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
    if (live) {
        for (uint m = 0u; m < ACT_PER_WORD; m++) {
            uint e = t * 2u * k + act_element(w, m);
            v[m] = mul(silu(x[e]), x[e + k]);
        }
    }
    act_store(n, words, t, w, live, v);
}
