#version 450
#include "tern.glsl"
// What the start-up probe asks of floats: runtime/probe.go has the right words.
// Invocation i has the numbers a, b, c and the pair of halves 2i, 2i+1.
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer In { float abc[]; };
layout(binding = 1) writeonly buffer Out { uint o[]; };
layout(push_constant) uniform P { uint n; };

void main() {
    uint i = group_x() * LOCAL + gl_LocalInvocationIndex;
    if (i >= n) return;
    float a = abc[3u * i], b = abc[3u * i + 1u], c = abc[3u * i + 2u];
    vec2 halves = f32_of((2u * i) | ((2u * i + 1u) << 16));
    uint at = 10u * i;
    o[at] = floatBitsToUint(add(a, b));
    o[at + 1u] = floatBitsToUint(sub(a, b));
    o[at + 2u] = floatBitsToUint(mul(a, b));
    o[at + 3u] = floatBitsToUint(add(mul(a, b), c));
    o[at + 4u] = floatBitsToUint(sub(c, mul(a, b)));
    o[at + 5u] = floatBitsToUint(tidy(mul(a, uintBitsToFloat(i << 16))));
    o[at + 6u] = floatBitsToUint(roundEven(mul(a, 64.0)));
    o[at + 7u] = floatBitsToUint(float(int(floatBitsToUint(b))));
    o[at + 8u] = floatBitsToUint(halves.x);
    o[at + 9u] = floatBitsToUint(halves.y);
}
