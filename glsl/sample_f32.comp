#version 450
#include "tern.glsl"
// Draw a token from a list in order, a workgroup for each: runtime/ref/sample_f32.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer List { uint list[]; };
layout(binding = 1) buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint k, n, records, result; };

#include "draw.glsl"

shared float weight[LOCAL], sum[LOCAL]; // sums from the first to each
shared uint size, end_p, end, drawn;

// In [0, 1): the first word of Philox 4x32-10.
float uniform_(uint seed0, uint seed1, uint at0, uint at1) {
    uvec4 c = uvec4(at0, at1, 0u, 0u);
    for (uint i = 0u; i < 10u; i++) {
        uint h0, l0, h1, l1;
        umulExtended(0xd2511f53u, c.x, h0, l0);
        umulExtended(0xcd9e8d57u, c.z, h1, l1);
        c = uvec4(h1 ^ c.y ^ seed0, l1, h0 ^ c.w ^ seed1, l0);
        seed0 += 0x9e3779b9u;
        seed1 += 0xbb67ae85u;
    }
    return mul(float(c.x >> 8), 5.9604644775390625e-8); // 2^-24
}

void main() {
    uint t = group_x(), lane = gl_LocalInvocationIndex, record = records + t * DRAW_WORDS, ids = (n + t) * k;
    if (lane == 0u) {
        size = 0u;
        end_p = LOCAL;
        end = 1u;
        drawn = 0xffffffffu;
    }
    barrier();
    float largest = uintBitsToFloat(list[t * k]);
    uint most = mag(largest) >= INF_BITS ? 1u : min(k, batch[record + 7u]);
    bool listed = lane < most && list[ids + lane] != 0xffffffffu;
    if (listed) {
        float l = uintBitsToFloat(list[t * k + lane]);
        weight[lane] = exp2_(mul(sub(l, largest), batch_float(record + 6u)));
        atomicMax(size, lane + 1u);
    }
    barrier();
    if (lane == 0u) {
        float s = 0.0;
        for (uint i = 0u; i < size; i++) {
            s = add(s, weight[i]);
            sum[i] = s;
        }
    }
    barrier();
    // 0 < top-p < 1, as bits, because a driver may take a denormal for 0
    if (listed && batch[record + 8u] - 1u < 0x3f7fffffu && sum[lane] >= mul(batch_float(record + 8u), sum[size - 1u])) atomicMin(end_p, lane + 1u);
    barrier();
    if (listed && lane < end_p && !(weight[lane] < batch_float(record + 9u))) atomicMax(end, lane + 1u);
    barrier();
    if (listed && lane < end) {
        float u = uniform_(batch[record + 10u], batch[record + 11u], batch[record + 12u], batch[record + 13u]);
        if (sum[lane] > mul(u, sum[end - 1u])) atomicMin(drawn, lane);
    }
    barrier();
    if (lane == 0u) batch[result + t] = size == 0u ? 0xffffffffu : list[ids + min(drawn, end - 1u)];
}
