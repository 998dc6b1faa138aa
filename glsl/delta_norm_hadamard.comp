#version 450
#include "tern.glsl"
#include "delta.glsl"
#define ACT_BINDING 2
#include "act_store.glsl"
// Norm of value heads times silu(z), and the Walsh-Hadamard transform of a block of
// whole heads: runtime/ref/hadamard.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 4) const uint BLOCK = 1024u;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Consts { float consts[]; };
layout(push_constant) uniform P {
    uint n, weight, signs, grouped;
    float inv_dim, eps, scale;
};

shared float v[2048];
shared float squares[2048];

// Element e of the row is element e % DIM of this head.
uint head_of(uint e) {
    uint h = e / DIM, rep = VALUES / KEYS;
    return grouped != 0u ? h / rep + KEYS * (h % rep) : h;
}

void main() {
    uint t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex, first = group_x() * BLOCK;
    uint values = out_row(n, t) + 2u * KEYS * DIM, z = raw_row(t) + CHANNELS;
    for (uint i = lane; i < BLOCK; i += LOCAL) {
        float u = x[values + head_of(first + i) * DIM + i % DIM];
        v[i] = u;
        squares[i] = mul(u, u);
    }
    for (uint h = DIM / 2u; h > 0u; h /= 2u) { // in every head at once
        barrier();
        for (uint p = lane; p < BLOCK / DIM * h; p += LOCAL) {
            uint i = p / h * DIM + p % h;
            squares[i] = add(squares[i], squares[i + h]);
        }
    }
    barrier();
    for (uint i = lane; i < BLOCK; i += LOCAL) {
        float r = rsqrt(add(mul(squares[i / DIM * DIM], inv_dim), eps));
        float u = mul(mul(mul(v[i], r), consts[weight + i % DIM]), silu(x[z + head_of(first + i) * DIM + i % DIM]));
        v[i] = mul(tidy(u), consts[signs + first + i]);
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
    uint words = BLOCK / ACT_PER_WORD;
    for (uint w0 = 0u; w0 < words; w0 += LOCAL) {
        uint w = w0 + lane;
        bool live = w < words;
        float y[4] = float[4](0.0, 0.0, 0.0, 0.0);
        if (live)
            for (uint m = 0u; m < ACT_PER_WORD; m++) y[m] = mul(v[act_element(w, m)], scale);
        act_store(n, VALUES * DIM / ACT_PER_WORD, t, group_x() * words + w, live, y);
    }
}
