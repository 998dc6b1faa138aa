#version 450
#include "tern.glsl"
#define ACT_BINDING 2
#include "act_store.glsl"
// The chunks of attention_part joined into activations: runtime/ref/attention.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 1) const uint HEAD_DIM = 128u;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint n, heads, chunks, positions; };
#include "join.glsl"

void main() {
    uint k = heads * HEAD_DIM, words = k / ACT_PER_WORD, t = gl_WorkGroupID.y;
    uint w = group_x() * LOCAL + gl_LocalInvocationIndex;
    bool live = w < words;
    float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
    if (live) {
        uint h = act_element(w, 0u) / HEAD_DIM, last = batch[positions + t] / 64u;
        uint stride = HEAD_DIM + 2u, at = (t * heads + h) * chunks * stride;
        Join join;
        for (uint c = 0u; c <= last; c++, at += stride) {
            join_next(join, c == 0u, x[at + HEAD_DIM], x[at + HEAD_DIM + 1u]);
            for (uint m = 0u; m < ACT_PER_WORD; m++)
                v[m] = join_value(join, c == 0u, v[m], x[at + act_element(w, m) % HEAD_DIM]);
        }
        float r = recip(join.l);
        for (uint m = 0u; m < ACT_PER_WORD; m++) v[m] = tidy(mul(v[m], r));
    }
    act_store(n, words, t, w, live, v);
}
