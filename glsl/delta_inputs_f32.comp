#version 450
#include "tern.glsl"
#include "delta.glsl"
// Convolution, norms and gates of a gated delta net: runtime/ref/delta.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 4) const uint TAPS = 4u;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer State { float state[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) readonly buffer Consts { float consts[]; };
layout(push_constant) uniform P {
    uint n, weights, a, dt, members, sequences;
    float eps, q_scale;
};

shared float head[256];
shared float part[256];

void main() {
    uint h = group_x(), t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex;
    if (h == 2u * KEYS + VALUES) {
        uint beta = raw_row(t) + CHANNELS + VALUES * DIM, alpha = beta + VALUES;
        for (uint i = lane; i < VALUES; i += LOCAL) {
            x[beta + i] = tidy(sigmoid(x[beta + i]));
            x[alpha + i] = tidy(exp_(mul(consts[a + i], softplus(add(x[alpha + i], consts[dt + i])))));
        }
        return;
    }
    uint seq = sequences + 4u * batch[members + t];
    uint first = batch[seq], last = first + batch[seq + 1u] - 1u, read = batch[seq + 2u], write = batch[seq + 3u];
    for (uint e = lane; e < DIM; e += LOCAL) {
        uint c = h * DIM + e;
        float y = 0.0;
        for (uint i = 0u; i < TAPS; i++) {
            uint back = TAPS - 1u - i; // tokens before t
            float u = 0.0;
            if (t >= first + back) u = x[raw_row(t - back) + c];
            else if (read != 0xffffffffu) u = state[(read * (TAPS - 1u) + t - first + i) * CHANNELS + c];
            y = add(y, mul(consts[weights + c * TAPS + i], u));
            if (t == last && i > 0u) state[(write * (TAPS - 1u) + i - 1u) * CHANNELS + c] = u;
        }
        y = silu(y);
        head[e] = y;
        part[e] = mul(y, y);
    }
    uint to = out_row(n, t) + h * DIM;
    if (h >= 2u * KEYS) {
        for (uint e = lane; e < DIM; e += LOCAL) x[to + e] = tidy(head[e]);
        return;
    }
    uint parts = 1u << min(8u, uint(findMSB(DIM)));
    for (uint e = parts + lane; e < DIM; e += LOCAL) part[e - parts] = add(part[e - parts], part[e]);
    for (uint half_ = parts / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        for (uint e = lane; e < half_; e += LOCAL) part[e] = add(part[e], part[e + half_]);
    }
    barrier();
    float r = rsqrt(add(part[0], eps));
    for (uint e = lane; e < DIM; e += LOCAL) {
        float y = mul(head[e], r);
        x[to + e] = tidy(h < KEYS ? mul(y, q_scale) : y);
    }
}
