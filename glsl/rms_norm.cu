#include "act.cuh"
// x += y (if asked), then RMS norm into int8 activations: runtime/ref/rms_norm.go. A
// workgroup has a row, 64 invocations four columns of the 256 partial sums each; GROUPS
// times as many take a part of the rounds over them, and add their squares in turn. The
// first HELD rounds of a group stay in registers, others are read again.
struct Push { u32 n, k, weight, adds; float inv_k, eps; };

const u32 COLUMNS = 64, GROUPS = 4, HELD = 4;

SHARED f32x4 part[COLUMNS];

KERNEL(COLUMNS * GROUPS) kernel(f32x4 *x, const f32x4 *y, const float *consts, u32 *act, Push p) {
    u32 t = group_x(), column = thread() % COLUMNS, group = thread() / COLUMNS;
    // Quads of a row, and of a round; invocations beyond those idle.
    u32 quads = p.k / 4, wide = p.k < 128 ? 16 : p.k < 256 ? 32 : 64;
    u32 rounds = (quads + wide - 1) / wide, each = (rounds + GROUPS - 1) / GROUPS, first = group * each * wide + column;
    u32 end = min((group + 1) * each * wide, quads);
    if (column >= wide) first = end;
    u64 row = (u64)t * quads;
    f32x4 held[HELD], scale[HELD];
    auto weight = [&](u32 i) {
        const float *from = consts + p.weight + 4 * i;
        return p.weight % 4 ? f32x4{from[0], from[1], from[2], from[3]} : *(const f32x4 *)from;
    };
    auto value = [&](u32 i) {
        f32x4 v = x[row + i];
        if (p.adds) {
            f32x4 u = y[row + i];
#pragma unroll
            for (u32 e = 0; e < 4; e++) v[e] = tidy(v[e] + u[e]);
        }
        return v;
    };
#pragma unroll
    for (u32 j = 0; j < HELD; j++)
        if (first + j * wide < end) {
            held[j] = value(first + j * wide);
            scale[j] = weight(first + j * wide);
        }
    if (p.adds)
#pragma unroll
        for (u32 j = 0; j < HELD; j++)
            if (first + j * wide < end) x[row + first + j * wide] = held[j];
    for (u32 g = 0; g < GROUPS; g++) {
        if (g == group) {
            f32x4 s = g == 0 ? 0 : part[column];
#pragma unroll
            for (u32 j = 0; j < HELD; j++)
                if (first + j * wide < end) s = s + held[j] * held[j];
            for (u32 i = first + HELD * wide; i < end; i += wide) {
                f32x4 v = value(i);
                if (p.adds) x[row + i] = v;
                s = s + v * v;
            }
            part[column] = s;
        }
        __syncthreads();
    }
    u32 lane = column % 32;
    f32x4 s = part[lane] + part[lane + 32]; // sums beyond the columns are +0
#pragma unroll
    for (u32 h = 16; h > 0; h /= 2)
#pragma unroll
        for (u32 e = 0; e < 4; e++) s[e] = s[e] + shuffle_xor(s[e], h);
    float r = rsqrt(((s.x + s.z) + (s.y + s.w)) * p.inv_k + p.eps);
    auto store = [&](u32 i, f32x4 v, f32x4 w) { store_block(act, p.n, quads / 16, t, i / 16, i < end, v * r * w); };
#pragma unroll
    for (u32 j = 0; j < HELD; j++)
        if (j < each) store(first + j * wide, held[j], scale[j]);
    for (u32 j = HELD; j < each; j++) {
        u32 i = first + j * wide, from = i < end ? i : 0;
        store(i, x[row + from], weight(from));
    }
}
