// Tern's own arithmetic in CUDA: functions of math.glsl, with the same words.
#include "cuda.cuh"

#define INF_BITS 0x7f800000u

DEVICE float float_of(u32 x) { return __builtin_bit_cast(float, x); }
DEVICE u32 mag(float x) { return bits_of(x) & 0x7fffffffu; }
DEVICE float tidy(float x) { return __builtin_fabsf(x) < 0x1p-60f ? 0.0f : x; }

DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// s + a*b for a product that is exact in f32 and finite: fused or not, the words are equal.
DEVICE float mac(float s, float a, float b) { return fma(a, b, s); }

DEVICE float round_even(float x) { return __builtin_rintf(x); }

DEVICE float recip(float x) {
    float y = float_of(0x7ef311c7u - bits_of(x));
    for (int i = 0; i < 4; i++) y = y * (2.0f - x * y);
    return y;
}

DEVICE float rsqrt(float x) {
    float y = float_of(0x5f3759dfu - (bits_of(x) >> 1)), h = 0.5f * x;
    for (int i = 0; i < 4; i++) y = y * (1.5f - h * y * y);
    return y;
}

// The word of 2^x for -64 <= x <= 120; roundEven(x) is in the low bits of x + 1.5 * 2^23.
DEVICE u32 exp2_word(float x) {
    float y = x + 0x1.8p23f, f = x - (y - 0x1.8p23f);
    float p = float_of(0x39222000u);
    p = p * f + float_of(0x3aafa460u);
    p = p * f + float_of(0x3c1d950eu);
    p = p * f + float_of(0x3d635766u);
    p = p * f + float_of(0x3e75fdf0u);
    p = p * f + float_of(0x3f317218u);
    p = p * f + 1.0f;
    return bits_of(p) + (bits_of(y) << 23);
}

DEVICE float exp2_(float x) {
    float p = float_of(exp2_word(x));
    p = x < -64.0f ? 0.0f : p;
    return x <= 120.0f ? p : x;
}

DEVICE float sigmoid(float x) {
    float e = exp2_(-float_of(mag(x)) * float_of(0x3fb8aa3bu)), r = recip(1.0f + e);
    return x >= 0.0f ? r : e * r;
}

DEVICE float silu(float x) { return x * sigmoid(x); }

DEVICE float pow2(float d) { return d < -60.0f ? 0.0f : float_of((u32)((int)d + 127) << 23); }

DEVICE float round13(float x) { return mag(x) >= INF_BITS ? x : float_of((bits_of(x) + 0x400u) & 0xfffff800u); }

// Half bits of x; saturates, and makes infinities NaN.
DEVICE u32 f16_rte(float x) {
    u32 u = bits_of(x), s = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a >= INF_BITS) return 0x7e00u;
    if (a >= 0x477fe000u) return s | 0x7bffu;
    if (a >= 0x38800000u) return s | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13);
    if (a <= 0x33000000u) return 0u;
    u32 shift = 126u - (a >> 23), m = (a & 0x7fffffu) | 0x800000u;
    return s | ((m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift);
}

#ifdef __CUDA__
// Halves of a word, widened: the lower and the upper.
DEVICE float low_half(u32 pair) {
    float r;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(r) : "r"(pair));
    return r;
}
DEVICE float high_half(u32 pair) {
    float r;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }" : "=f"(r) : "r"(pair));
    return r;
}
#endif
