#version 450
#include "tern.glsl"
// x += y, and the status word if a sum is not finite: runtime/ref/rows_f32.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(binding = 2) buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint count; };

#ifndef ROUNDS
#define ROUNDS 1
#endif

void main() {
    uint first = group_x() * LOCAL * ROUNDS + gl_LocalInvocationIndex;
    float v[ROUNDS];
    [[unroll]] for (uint r = 0u; r < ROUNDS; r++) { // loads at once
        uint i = first + r * LOCAL;
        v[r] = i < count ? tidy(add(x[i], y[i])) : 0.0;
    }
    [[unroll]] for (uint r = 0u; r < ROUNDS; r++) {
        uint i = first + r * LOCAL;
        if (i < count) {
            x[i] = v[r];
            if (mag(v[r]) >= INF_BITS) batch[0] = 1u;
        }
    }
}
