#include "act.cuh"
// Float32 rows to int8 activations: runtime/ref/quantize.go. Sixteen lanes have a block
// of four rows.
struct Push { u32 n, k; };

KERNEL(128) kernel(const f32x4 *x, u32 *act, Push p) {
    u32 lane = thread() % 16, t = group_y() * 4, b = group_x() * 8 + thread() / 16, quads = p.k / 4, nb = p.k / 64;
    const f32x4 *at = x + (u64)t * quads + min(b, nb - 1) * 16 + lane;
    f32x4 v[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) v[i] = load_once(at + (u64)(t + i < p.n ? i : 0) * quads);
    store_blocks(act, p.n * nb, b * p.n + t + lane % 4, b < nb && t + lane % 4 < p.n, v);
}
