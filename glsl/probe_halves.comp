#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "tern.glsl"
// The product of probe_i8.comp on cooperative matrices of halves: bytes are halves, and
// their sums integers below 2^24, so its words are right in any order. A workgroup
// computes one COOP x COOP tile with its first subgroup.
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer AB { uint ab[]; }; // a, then b
layout(binding = 1) readonly buffer S { float s[]; };
layout(binding = 2) writeonly buffer C { int c[]; };
layout(binding = 3) writeonly buffer F { float f[]; };
const uint N = 64u, WORDS = 16u; // words of a row
shared uint rows[2u * COOP * N / 2u]; // of a, then of b
shared float sums[COOP * COOP];
#define Sum coopmat<float, gl_ScopeSubgroup, COOP, COOP, gl_MatrixUseAccumulator>

uint two(int bytes, int at) { return packHalf2x16(vec2(bitfieldExtract(bytes, at, 8), bitfieldExtract(bytes, at + 8, 8))); }

void main() {
    uint m = group_x() / (N / COOP) * COOP, n = group_x() % (N / COOP) * COOP;
    for (uint i = gl_LocalInvocationIndex; i < 2u * COOP * WORDS; i += LOCAL) {
        int bytes = int(ab[i < COOP * WORDS ? m * WORDS + i : (N + n - COOP) * WORDS + i]);
        rows[2u * i] = two(bytes, 0);
        rows[2u * i + 1u] = two(bytes, 16);
    }
    barrier();
    if (gl_SubgroupID == 0u) {
        Sum sum = Sum(0.0), scale, y;
        for (uint k = 0u; k < N; k += COOP) {
            coopmat<float16_t, gl_ScopeSubgroup, COOP, COOP, gl_MatrixUseA> a;
            coopmat<float16_t, gl_ScopeSubgroup, COOP, COOP, gl_MatrixUseB> b;
            coopMatLoad(a, rows, k / 2u, N / 2u, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(b, rows, (COOP * N + k) / 2u, N / 2u, gl_CooperativeMatrixLayoutColumnMajor);
            sum = coopMatMulAdd(a, b, sum);
        }
        coopMatStore(sum, sums, 0u, COOP, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(scale, s, m * N + n, N, gl_CooperativeMatrixLayoutRowMajor);
        for (int e = 0; e < y.length(); e++) y[e] = add(mul(sum[e], scale[e]), scale[e]);
        coopMatStore(y, f, m * N + n, N, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < COOP * COOP; i += LOCAL) c[(m + i / COOP) * N + n + i % COOP] = int(sums[i]);
}
