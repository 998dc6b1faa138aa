// Tern's own arithmetic in CUDA: math.glsl, line for line.
#include "cuda.cuh"

#define INF_BITS 0x7f800000u

DEVICE u32 bits_of(float x) { return __builtin_bit_cast(u32, x); }
DEVICE float float_of(u32 x) { return __builtin_bit_cast(float, x); }
DEVICE u32 mag(float x) { return bits_of(x) & 0x7fffffffu; }
DEVICE float tidy(float x) { return mag(x) < 0x21800000u ? 0.0f : x; }
