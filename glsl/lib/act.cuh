// Blocks of 64 int8 activations (runtime/ref/act.go), four by 16 lanes each: lane l of
// them has the elements 4 l to 4 l + 3 of all four, and stores a quarter of one.
#include "warp.cuh"

// Of four values that all 16 lanes have, the fold of lane l's value l % 4.
template <class F, class T> DEVICE T fold(const T *v, F join) {
    bool odd = thread() & 1, upper = thread() & 2;
    T a = odd ? v[1] : v[0], b = odd ? v[3] : v[2];
    a = join(a, shuffle_xor(odd ? v[0] : v[1], 1));
    b = join(b, shuffle_xor(odd ? v[2] : v[3], 1));
    T c = join(upper ? b : a, shuffle_xor(upper ? a : b, 2));
    c = join(c, shuffle_xor(c, 4));
    return join(c, shuffle_xor(c, 8));
}

// Stores v, the lane's elements of four blocks, of which block l % 4 goes to the lane's
// place among so many blocks, if the lane is live.
DEVICE void store_blocks(u32 *act, u32 blocks, u32 block, bool live, const f32x4 *v) {
    const float MAGIC = 0x1.8p23f; // |v * inv| is not above 127.5: its integer is in the low bits of the sum
    float tops[4];
#pragma unroll
    for (u32 b = 0; b < 4; b++) {
        auto size = [&](u32 e) { return __builtin_fabsf(v[b][e]); };
        tops[b] = most_or_nan(most_or_nan(size(0), size(1)), most_or_nan(size(2), size(3)));
    }
    float top = fold(tops, most_or_nan), d = top * (1.0f / 127), inv = recip(d);
    bool infinite = bits_of(top) >= INF_BITS, none = top < 0x1p-60f;
    if (none) inv = 0;
    u32 sums[4], w[4];
#pragma unroll
    for (u32 b = 0; b < 4; b++) {
        float by = of_four(inv, b);
        u32 y[4];
#pragma unroll
        for (u32 e = 0; e < 4; e++) y[e] = bits_of(v[b][e] * by + MAGIC);
        sums[b] = y[0] + y[1] + y[2] + y[3];
        w[b] = bytes_of(bytes_of(y[0], y[1], 0x40), bytes_of(y[2], y[3], 0x40), 0x5410);
    }
    u32 sum = fold(sums, [](u32 a, u32 b) { return a + b; }) - 64 * bits_of(MAGIC);
    // Lane l of four gets all bytes of block l from the four, and turns them.
    bool odd = thread() & 1, upper = thread() & 2;
    u32 a = odd ? w[1] : w[0], b = odd ? w[3] : w[2];
    u32 a1 = shuffle_xor(odd ? w[0] : w[1], 1), b1 = shuffle_xor(odd ? w[2] : w[3], 1);
    u32 c = upper ? b : a, c1 = upper ? b1 : a1;
    u32 c2 = shuffle_xor(upper ? a : b, 2), c3 = shuffle_xor(upper ? a1 : b1, 2);
    u32 low = odd ? 0x1504 : 0x5140, high = odd ? 0x3726 : 0x7362, first = upper ? 0x1054 : 0x5410, second = upper ? 0x3276 : 0x7632;
    u32 p = bytes_of(c, c1, low), q = bytes_of(c2, c3, low), r = bytes_of(c, c1, high), s = bytes_of(c2, c3, high);
    u32x4 words = {bytes_of(p, q, first), bytes_of(p, q, second), bytes_of(r, s, first), bytes_of(r, s, second)};
    if (infinite) words = 0;
    if (!live) return;
    u32 quarter = thread() % 16 / 4;
    ((u32x4 *)act)[block * 4 + quarter] = words;
    if (quarter == 0) ((u32x2 *)(act + blocks * 16))[block] = u32x2{infinite ? INF_BITS : none ? 0 : bits_of(d), infinite ? 0 : sum};
}
