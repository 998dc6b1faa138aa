#version 450
#include "tern.glsl"
#define ACT_BINDING 3
#include "act_store.glsl"
// x += y (if asked), then RMS norm into activations: runtime/ref/rms_norm.go
#ifdef SHUFFLE
#include "tree.glsl"
#endif
layout(local_size_x = LOCAL) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(binding = 2) readonly buffer Consts { float consts[]; };
layout(push_constant) uniform P { uint n, k, weight, adds; float inv_k, eps; };

shared float part[256];

float value(uint i) { return adds != 0u ? tidy(add(x[i], y[i])) : x[i]; }

#ifdef ROW
// The begin of the row, read and written back once, with eight loads under way.
shared float row[ROW];

void fill(uint t) {
    uint end = min(k, ROW);
    for (uint i = gl_LocalInvocationIndex; i < end; i += 8u * LOCAL) {
        float v[8];
        [[unroll]] for (uint e = 0u; e < 8u; e++) v[e] = value(t * k + (i + e * LOCAL < end ? i + e * LOCAL : i));
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            uint at = i + e * LOCAL;
            if (at < end) {
                row[at] = v[e];
                if (adds != 0u) x[t * k + at] = v[e];
            }
        }
    }
    barrier();
}

bool filled(uint i) { return i < ROW; }
float element(uint t, uint i) { return filled(i) ? row[i] : value(t * k + i); }

// The weights of word w.
void weights(uint w, out float v[4]) {
    [[unroll]] for (uint m = 0u; m < ACT_PER_WORD; m++) v[m] = consts[weight + act_element(min(w, k / ACT_PER_WORD - 1u), m)];
}
#else
#define element(t, i) value(t * k + i)
#endif

// The tree part[i] += part[i + h], h = parts/2 .. 1, into part[0].
void reduce(uint parts) {
    uint lane = gl_LocalInvocationIndex;
    barrier();
#ifdef SHUFFLE
    if (gl_SubgroupID == 0u) {
        float s[8];
        [[unroll]] for (uint i = 0u; i < 8u; i++) s[i] = lane + 32u * i < parts ? part[lane + 32u * i] : 0.0;
        float all = tree(s, parts);
        if (lane == 0u) part[0] = all;
    }
#else
    for (uint h = parts / 2u; h > 0u; h /= 2u) {
        for (uint p = lane; p < h; p += LOCAL) part[p] = add(part[p], part[p + h]);
        barrier();
    }
#endif
    barrier();
}

void main() {
    uint t = group_x(), lane = gl_LocalInvocationIndex;
    uint parts = 1u << min(8u, uint(findMSB(k)));
#ifdef ROW
    float ahead[4];
    weights(lane, ahead);
    fill(t);
#endif
    for (uint p = lane; p < parts; p += LOCAL) {
        float s = 0.0;
        uint i = p;
        for (; i + 7u * parts < k; i += 8u * parts) { // eight loads at once
            float v[8];
            [[unroll]] for (uint e = 0u; e < 8u; e++) v[e] = element(t, i + e * parts);
            [[unroll]] for (uint e = 0u; e < 8u; e++) s = add(s, mul(v[e], v[e]));
        }
        for (; i < k; i += parts) {
            float v = element(t, i);
            s = add(s, mul(v, v));
        }
        part[p] = s;
    }
    reduce(parts);
    float r = rsqrt(add(mul(part[0], inv_k), eps));
    uint words = k / ACT_PER_WORD;
    for (uint w0 = 0u; w0 < words; w0 += LOCAL) {
        uint w = w0 + lane;
        bool live = w < words;
        float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
#ifdef ROW
        float here[4] = ahead;
        if (w0 + LOCAL < words) weights(w + LOCAL, ahead);
#endif
        if (live) {
            for (uint m = 0u; m < ACT_PER_WORD; m++) {
                uint e = act_element(w, m);
                float u = element(t, e);
#ifdef ROW
                if (adds != 0u && !filled(e)) x[t * k + e] = u;
                v[m] = mul(mul(u, r), here[m]);
#else
                if (adds != 0u) x[t * k + e] = u;
                v[m] = mul(mul(u, r), consts[weight + e]);
#endif
            }
        }
        act_store(n, words, t, w, live, v);
    }
}
