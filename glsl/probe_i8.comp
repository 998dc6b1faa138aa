#version 450
#ifdef COOP
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#endif
#include "tern.glsl"
// The start-up probe's product of two 64x64 matrices of signed bytes, rows of
// both along k: c[m][n] = sum over k of a[m][k] * b[n][k] and, rounded twice,
// f[m][n] = float(c[m][n]) * s[m][n] + s[m][n]. runtime/probe.go has the right words.
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer AB { uint ab[]; }; // a, then b
layout(binding = 1) readonly buffer S { float s[]; };
layout(binding = 2) writeonly buffer C { int c[]; };
layout(binding = 3) writeonly buffer F { float f[]; };
const uint N = 64u, WORDS = 16u; // words of a row

#ifdef COOP
// A workgroup computes one COOP x COOP tile with its first subgroup.
void main() {
    if (gl_SubgroupID != 0u) return;
    uint m = group_x() / (N / COOP) * COOP, n = group_x() % (N / COOP) * COOP;
    coopmat<int, gl_ScopeSubgroup, COOP, COOP, gl_MatrixUseAccumulator> sum = coopmat<int, gl_ScopeSubgroup, COOP, COOP, gl_MatrixUseAccumulator>(0);
    for (uint k = 0u; k < WORDS; k += DEPTH / 4u) {
        coopmat<int8_t, gl_ScopeSubgroup, COOP, DEPTH, gl_MatrixUseA> a;
        coopmat<int8_t, gl_ScopeSubgroup, DEPTH, COOP, gl_MatrixUseB> b;
        coopMatLoad(a, ab, m * WORDS + k, WORDS, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(b, ab, (N + n) * WORDS + k, WORDS, gl_CooperativeMatrixLayoutColumnMajor);
        sum = coopMatMulAdd(a, b, sum);
    }
    coopMatStore(sum, c, m * N + n, N, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, gl_ScopeSubgroup, COOP, COOP, gl_MatrixUseAccumulator> scale, y;
    coopMatLoad(scale, s, m * N + n, N, gl_CooperativeMatrixLayoutRowMajor);
    for (int e = 0; e < y.length(); e++) y[e] = add(mul(float(sum[e]), scale[e]), scale[e]);
    coopMatStore(y, f, m * N + n, N, gl_CooperativeMatrixLayoutRowMajor);
}
#else
#include "dot4.glsl"

void main() {
    uint cell = group_x() * LOCAL + gl_LocalInvocationIndex;
    int sum = 0;
    for (uint k = 0u; k < WORDS; k++) sum = dot4(sum, ab[cell / N * WORDS + k], ab[(N + cell % N) * WORDS + k]);
    c[cell] = sum;
    f[cell] = add(mul(float(sum), s[cell]), s[cell]);
}
#endif
