#version 450
#include "tern.glsl"
// The Walsh-Hadamard transform of a block of a row, with signs before it, into
// activations, or, with INVERSE, behind it and in place; with SILU or SIGMOID, of a
// product of two elements: runtime/ref/hadamard.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 1) const uint BLOCK = 1024u;
#ifdef SIGMOID
#define ACT_BINDING 3
layout(binding = 1) readonly buffer Gates { float gates[]; };
layout(binding = 2) readonly buffer Consts { float consts[]; };
#else
#define ACT_BINDING 2
layout(binding = 1) readonly buffer Consts { float consts[]; };
#endif
#ifdef INVERSE
layout(binding = 0) buffer X { float x[]; };
layout(push_constant) uniform P { uint n, k, signs; float scale; };
float element(uint t, uint e) { return x[t * k + e]; }
#else
#include "act_store.glsl"
layout(binding = 0) readonly buffer X { float x[]; };
#ifdef SILU
layout(push_constant) uniform P { uint n, k, signs; float scale; };
float element(uint t, uint e) { return tidy(mul(silu(x[2u * t * k + e]), x[(2u * t + 1u) * k + e])); }
#elif defined(SIGMOID)
layout(push_constant) uniform P { uint n, k, signs; float scale; uint stride, gate; };
float element(uint t, uint e) { return tidy(mul(x[t * k + e], sigmoid(gates[t * stride + gate + e]))); }
#else
layout(push_constant) uniform P { uint n, k, signs; float scale; uint dim, keys, rep; };
float element(uint t, uint e) {
    uint h = e / dim;
    return x[t * k + (h / rep + keys * (h % rep)) * dim + e % dim];
}
#endif
#endif

shared float v[2048];

void main() {
    uint t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex, first = group_x() * BLOCK;
    for (uint i = lane; i < BLOCK; i += LOCAL) {
        v[i] = element(t, first + i);
#ifndef INVERSE
        v[i] = mul(v[i], consts[signs + first + i]);
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
