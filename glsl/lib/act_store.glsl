// Storing a row of activations, LOCAL words at a time. Every invocation of the
// workgroup calls act_store, with live false past the end of the row.
#include "act.glsl"

layout(binding = ACT_BINDING) writeonly buffer Act { uint act[]; };

#if ACT == ACT_I8
#ifdef SHUFFLE
// Over the 16 invocations of a block, without shared memory. Maxima and integer
// sums are exact in any order.
uint act_top(uint top) {
    [[unroll]] for (uint h = 1u; h < 16u; h *= 2u) top = max(top, subgroupShuffleXor(top, h));
    return top;
}
int act_sum(int sum) {
    [[unroll]] for (uint h = 1u; h < 16u; h *= 2u) sum += subgroupShuffleXor(sum, h);
    return sum;
}
#else
shared uint act_red[LOCAL];
uint act_top(uint top) {
    uint lane = gl_LocalInvocationIndex, first = lane & ~15u;
    barrier();
    act_red[lane] = top;
    barrier();
    [[unroll]] for (uint i = 0u; i < 16u; i++) top = max(top, act_red[first + i]);
    return top;
}
int act_sum(int sum) {
    uint lane = gl_LocalInvocationIndex, first = lane & ~15u;
    barrier();
    act_red[lane] = uint(sum);
    barrier();
    sum = 0;
    [[unroll]] for (uint i = 0u; i < 16u; i++) sum += int(act_red[first + i]);
    return sum;
}
#endif
#endif

// n rows of `words` words each; v holds the elements of word w of row t.
void act_store(uint n, uint words, uint t, uint w, bool live, float v[4]) {
#if ACT == ACT_F32
    if (live) act[t * words + w] = floatBitsToUint(tidy(v[0]));
#elif ACT == ACT_F16
    if (live) act[t * words + w] = f16_rte(v[0]) | (f16_rte(v[1]) << 16);
#else
    uint top = 0u;
    [[unroll]] for (int m = 0; m < 4; m++) top = max(top, mag(v[m]));
    top = act_top(top);
    bool odd = top >= INF_BITS, zero = odd || top < 0x21800000u;
    float d = mul(uintBitsToFloat(top), 1.0 / 127.0), inv = recip(d);
    uint word = 0u;
    int sum = 0;
    if (!zero) {
        [[unroll]] for (int m = 0; m < 4; m++) {
            int q = int(roundEven(mul(v[m], inv)));
            q = clamp(q, -127, 127);
            sum += q;
            word |= uint(q & 255) << (8 * m);
        }
    }
    sum = act_sum(sum);
    if (live) act[t * words + w] = word;
    if (live && w % 16u == 0u) {
        uint at = n * words + (t * (words / 16u) + w / 16u) * 2u;
        act[at] = odd ? INF_BITS : zero ? 0u : floatBitsToUint(d);
        act[at + 1u] = uint(sum);
    }
#endif
}
