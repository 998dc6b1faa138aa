#version 450
#include "tern.glsl"
// The largest value of a row, ties to the lower index: runtime/ref/argmax_f32.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint k, result; };

shared float top[LOCAL];
shared uint where[LOCAL];

bool better(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

void main() {
    uint t = group_x(), lane = gl_LocalInvocationIndex;
    float best = -uintBitsToFloat(INF_BITS);
    uint at = 0xffffffffu;
    for (uint i = lane; i < k; i += 4u * LOCAL) { // four loads under way; a second look at the last element changes nothing
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint e = min(i + j * LOCAL, k - 1u);
            float v = x[t * k + e];
            if (v > best || at == 0xffffffffu && v == best) { best = v; at = e; }
        }
    }
    top[lane] = best;
    where[lane] = at;
    for (uint h = LOCAL / 2u; h > 0u; h /= 2u) {
        barrier();
        if (lane < h && better(top[lane + h], where[lane + h], top[lane], where[lane])) {
            top[lane] = top[lane + h];
            where[lane] = where[lane + h];
        }
    }
    if (lane == 0u) batch[result + t] = where[0];
}
