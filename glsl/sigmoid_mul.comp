#version 450
#include "tern.glsl"
#define ACT_BINDING 2
#include "act_store.glsl"
// x * sigmoid(gate) into activations: runtime/ref/sigmoid_mul.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Gates { float gates[]; };
layout(push_constant) uniform P { uint n, k, stride, first; };

void main() {
    uint words = k / ACT_PER_WORD, t = gl_WorkGroupID.y;
    uint w = group_x() * LOCAL + gl_LocalInvocationIndex;
    bool live = w < words;
    float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
    if (live) {
        for (uint m = 0u; m < ACT_PER_WORD; m++) {
            uint e = act_element(w, m);
            v[m] = mul(x[t * k + e], sigmoid(gates[t * stride + first + e]));
        }
    }
    act_store(n, words, t, w, live, v);
}
