// The binary tree of sums part[i] += part[i + h], h = parts/2 .. 1, over at most
// 256 partial sums, by a subgroup of 32: invocation i has partial sums i + 32 j
// as s[j], and +0 beyond parts. All invocations get the sum.
float tree(float s[8], uint parts) {
    [[unroll]] for (uint h = 4u; h > 0u; h /= 2u)
        if (32u * h < parts) [[unroll]] for (uint i = 0u; i < h; i++) s[i] = add(s[i], s[i + h]);
    [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) {
        float up = subgroupShuffleDown(s[0], h);
        if (h < parts) s[0] = add(s[0], up);
    }
    return subgroupShuffle(s[0], 0u);
}
