// int8 activations of a block of 64 by the 16 invocations that hold a word of it
// each: runtime/ref/act.go. Every invocation of the workgroup calls act_word.
#ifdef SHUFFLE
// Without shared memory. Maxima and integer sums are exact in any order.
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

struct ActWord {
    uint word;
    uvec2 pair; // of the block: scale, sum of the integers
};

ActWord act_word(float v[4]) {
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
    return ActWord(word, uvec2(odd ? INF_BITS : zero ? 0u : floatBitsToUint(d), uint(sum)));
}
