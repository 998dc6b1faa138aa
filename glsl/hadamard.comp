#version 450
#include "tern.glsl"
// The Walsh-Hadamard transform of a block of a row, with signs before it, into
// activations, or, with INVERSE, behind it and in place: runtime/ref/hadamard.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 1) const uint BLOCK = 1024u;
#ifdef INVERSE
layout(binding = 0) buffer X { float x[]; };
layout(push_constant) uniform P { uint n, k, signs; float scale; };
#else
#define ACT_BINDING 2
#include "act_store.glsl"
layout(binding = 0) readonly buffer X { float x[]; };
layout(push_constant) uniform P { uint n, k, signs; float scale; uint dim, keys, rep; };
#endif
layout(binding = 1) readonly buffer Consts { float consts[]; };

shared float v[2048];

void main() {
    uint t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex, first = group_x() * BLOCK;
    for (uint i = lane; i < BLOCK; i += LOCAL) {
        uint e = first + i;
#ifdef INVERSE
        v[i] = x[t * k + e];
#else
        uint h = e / dim;
        v[i] = mul(x[t * k + (h / rep + keys * (h % rep)) * dim + e % dim], consts[signs + e]);
#endif
    }
    for (uint len = 1u; len < BLOCK; len *= 2u) {
        barrier();
        for (uint p = lane; p < BLOCK / 2u; p += LOCAL) {
            uint i = p + (p & ~(len - 1u)); // a zero put in at bit len
            float a = v[i], b = v[i + len];
            v[i] = add(a, b);
            v[i + len] = sub(a, b);
        }
    }
    barrier();
#ifdef INVERSE
    for (uint i = lane; i < BLOCK; i += LOCAL) x[t * k + first + i] = tidy(mul(mul(v[i], scale), consts[signs + first + i]));
#else
    uint words = BLOCK / ACT_PER_WORD;
    for (uint w0 = 0u; w0 < words; w0 += LOCAL) {
        uint w = w0 + lane;
        bool live = w < words;
        float y[4] = float[4](0.0, 0.0, 0.0, 0.0);
        if (live)
            for (uint m = 0u; m < ACT_PER_WORD; m++) y[m] = mul(v[act_element(w, m)], scale);
        act_store(n, k / ACT_PER_WORD, t, group_x() * words + w, live, y);
    }
#endif
}
