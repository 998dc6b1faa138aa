// x += y, and the status word if a sum is not finite: runtime/ref/rows_f32.go
#include "math.cuh"

struct Push { u32 count; };

KERNEL(128) kernel(float *x, const float *y, u32 *batch, Push p) {
    u32 i = group_x() * 128 + thread();
    if (i >= p.count) return;
    float v = tidy(x[i] + y[i]);
    x[i] = v;
    if (mag(v) >= INF_BITS) batch[0] = 1;
}
