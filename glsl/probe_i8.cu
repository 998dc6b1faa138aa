// What probe_i8.comp computes, for cards that take kernels in PTX.
#include "cuda.cuh"

KERNEL(64) kernel(const u32 *ab, const float *s, int *c, float *f) {
    const u32 N = 64, WORDS = 16; // words of a row
    u32 cell = group_x() * 64 + thread();
    int sum = 0;
    for (u32 k = 0; k < WORDS; k++) sum = dot4(sum, ab[cell / N * WORDS + k], ab[(N + cell % N) * WORDS + k]);
    c[cell] = sum;
    f[cell] = (float)sum * s[cell] + s[cell];
}
