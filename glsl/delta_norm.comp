#version 450
#include "tern.glsl"
#include "delta.glsl"
#define ACT_BINDING 2
#include "act_store.glsl"
// Norm of value heads times silu(z): runtime/ref/delta.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Consts { float consts[]; };
layout(push_constant) uniform P {
    uint n, weight;
    float inv_dim, eps;
};

shared float part[256];

void main() {
    uint h = group_x(), t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex;
    uint v = out_row(n, t) + (2u * KEYS + h) * DIM, z = raw_row(t) + CHANNELS + h * DIM;
    uint parts = 1u << min(8u, uint(findMSB(DIM)));
    for (uint p = lane; p < parts; p += LOCAL) {
        float s = 0.0;
        for (uint i = p; i < DIM; i += parts) s = add(s, mul(x[v + i], x[v + i]));
        part[p] = s;
    }
    for (uint half_ = parts / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        for (uint p = lane; p < half_; p += LOCAL) part[p] = add(part[p], part[p + half_]);
    }
    barrier();
    float r = rsqrt(add(mul(part[0], inv_dim), eps));
    uint words = DIM / ACT_PER_WORD;
    for (uint w0 = 0u; w0 < words; w0 += LOCAL) {
        uint w = w0 + lane;
        bool live = w < words;
        float y[4] = float[4](0.0, 0.0, 0.0, 0.0);
        if (live) {
            for (uint m = 0u; m < ACT_PER_WORD; m++) {
                uint e = act_element(w, m);
                y[m] = mul(mul(mul(x[v + e], r), consts[weight + e]), silu(x[z + e]));
            }
        }
        act_store(n, words * VALUES, t, h * words + w, live, y);
    }
}
