// Storing row[] in a cache of few bits: runtime/ref/cache_q.go
float scale_of(uint group, uint bits) {
    uint top = 0u;
    bool plus = false;
    for (uint i = 0u; i < 32u; i++) top = max(top, mag(row[group * 32u + i]));
    for (uint i = 0u; i < 32u; i++) plus = plus || floatBitsToUint(row[group * 32u + i]) == top;
    if (top < 0x38800000u) return 0.0;
    if (top >= INF_BITS) return uintBitsToFloat(INF_BITS); // its half is NaN
    if (bits == 8u) {
        float d = uintBitsToFloat((floatBitsToUint(mul(uintBitsToFloat(top), 1.0 / 127.0)) + 0xfffffu) & 0xfff00000u);
        return d < 512.0 ? d : 512.0;
    }
    float d = uintBitsToFloat((floatBitsToUint(mul(uintBitsToFloat(top), 0.125)) + 0xffffu) & 0xffff0000u);
    d = d < 8160.0 ? d : 8160.0;
    return plus ? -d : d;
}

// What an invocation writes: every LOCAL-th word of elements, and of scales.
void store_row(uint base, uint bits, uint page, uint head, uint pos, bool is_v) {
    uint per = 32u / bits, words = HEAD_DIM / per;
    for (uint i = gl_LocalInvocationIndex; i < words; i += LOCAL) {
        uint first = i * per, word = 0u, eight = first / 8u;
        if (bits == 16u) {
            word = f16_rte(row[first]) | (f16_rte(row[first + 1u]) << 16);
        } else {
            float d = scale_of(first / 32u, bits);
            bool zero = d == 0.0 || mag(d) == INF_BITS;
            float inv = zero ? 0.0 : recip(uintBitsToFloat(mag(d)));
            float low = bits == 8u ? -127.0 : -8.0, high = bits == 8u ? 127.0 : 7.0;
            for (uint e = 0u; e < per; e++) {
                float x = row[first + e];
                float q = zero ? 0.0 : roundEven(mul(x, d < 0.0 ? -inv : inv));
                q = q < low ? low : q > high ? high : q;
                word |= (uint(int(q)) & ((1u << bits) - 1u)) << (bits * e);
            }
        }
        uvec2 at = is_v ? value_at(base, page, head, pos, eight) : key_at(page, head, pos, eight);
        cache[at.x + first % 8u / per] = word;
        if (bits < 16u && first % 64u == 0u) cache[at.y] = f16_rte(scale_of(first / 32u, bits)) | (f16_rte(scale_of(first / 32u + 1u, bits)) << 16);
    }
}
