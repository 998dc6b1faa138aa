// Blocks of 64 int8 activations (runtime/ref/act.go), by 16 lanes each: lane l of them
// has the elements 4 l to 4 l + 3.
#include "warp.cuh"

// Stores v as part of block b of row t, of n rows of nb blocks.
DEVICE void store_block(u32 *act, u32 n, u32 nb, u32 t, u32 b, bool live, f32x4 v) {
    u32 lane = thread() % 16, block = b * n + t, top = max(max(mag(v.x), mag(v.y)), max(mag(v.z), mag(v.w)));
#pragma unroll
    for (u32 h = 1; h < 16; h *= 2) top = max(top, shuffle_xor(top, h));
    bool none = top >= INF_BITS || top < bits_of(0x1p-60f);
    float d = float_of(top) * (1.0f / 127), inv = recip(d);
    const float MAGIC = 0x1.8p23f; // |v * inv| is not above 127.5: its integer is in the low bits of the sum
    u32 y[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) y[i] = bits_of(v[i] * inv + MAGIC);
    u32 sum = none ? 0 : y[0] + y[1] + y[2] + y[3] - 4 * bits_of(MAGIC);
#pragma unroll
    for (u32 h = 1; h < 16; h *= 2) sum += shuffle_xor(sum, h);
    // Four lanes turn their four bytes each: lane l has byte l of all.
    u32 w = none ? 0 : bytes_of(bytes_of(y[0], y[1], 0x40), bytes_of(y[2], y[3], 0x40), 0x5410);
    w = bytes_of(w, shuffle_xor(w, 1), lane & 1 ? 0x3715 : 0x6240);
    w = bytes_of(w, shuffle_xor(w, 2), lane & 2 ? 0x3276 : 0x5410);
    if (!live) return;
    act[block * 16 + lane] = w;
    if (lane == 0) ((u32x2 *)(act + n * nb * 16))[block] = u32x2{top >= INF_BITS ? INF_BITS : none ? 0 : bits_of(d), sum};
}
