#version 450
#include "tern.glsl"
// The experts of a token, a workgroup each: runtime/ref/experts.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer Logits { uint logits[]; };
layout(binding = 1) buffer First { uint first[]; };
layout(binding = 2) buffer Last { uint last[]; };
layout(push_constant) uniform P { uint n, experts, k, stride, first_ids, last_ids, has_shared; };

shared uint key[1024];
shared uint chosen[1024]; // logit by rank

uint order_key(uint u) { return (u >> 31) != 0u ? ~u : u | 0x80000000u; }

void main() {
    uint t = group_x(), lane = gl_LocalInvocationIndex, at = t * stride;
    for (uint e = lane; e < experts; e += LOCAL) key[e] = order_key(logits[at + e]);
    barrier();
    for (uint e = lane; e < experts; e += LOCAL) {
        uint rank = 0u, mine = key[e];
        for (uint i = 0u; i < experts; i++) rank += uint(key[i] > mine || (key[i] == mine && i < e));
        if (rank >= k) continue;
        first[first_ids + t * k + rank] = e;
        last[last_ids + t * k + rank] = e;
        chosen[rank] = logits[at + e];
    }
    barrier();
    if (lane != 0u) return;
    uint weights = last_ids + n * k + t * (k + 1u);
    float top = uintBitsToFloat(chosen[0]), sum = 0.0;
    for (uint r = 0u; r < k; r++) sum = add(sum, exp_(sub(uintBitsToFloat(chosen[r]), top)));
    float inv = recip(sum);
    for (uint r = 0u; r < k; r++) last[weights + r] = floatBitsToUint(tidy(mul(exp_(sub(uintBitsToFloat(chosen[r]), top)), inv)));
    last[weights + k] = has_shared == 0u ? 0u : floatBitsToUint(tidy(sigmoid(uintBitsToFloat(logits[at + experts]))));
}
