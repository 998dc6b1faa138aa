#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "tern.glsl"
#include "q2_0.glsl"
#define ACT 2
#include "act.glsl"
// The product for many tokens on int8 cooperative matrices of CM x CM x CK: a
// tile of TILE rows x TILE tokens, one block of K a stage, two stages in flight.
// int32 sums are exact in any order; they start at the bits of 1.5*2^23, so that
// the bits of a sum C are those of the float 1.5*2^23 + C. What follows is done
// in the order of the contract, element by element: runtime/ref/mul_mat_q2_0.go.
// That element e of an int32 and of a float matrix are one cell is proved by the
// start-up probe.
#define LOCAL (2 * TILE)
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

#if CK == 8
#define Unit uvec2 // what a matrix takes of a staged row, at least
#define UNROLL_K [[dont_unroll]]
#else
#define Unit uvec4
#define UNROLL_K [[unroll]]
#endif
const uint UNIT = CK == 8 ? 8u : 16u;
const uint PITCH = 80u / UNIT; // a staged row: 64 bytes, and 16 against bank conflicts
shared Unit w_stage[2u * TILE * PITCH];
shared Unit a_stage[2u * TILE * PITCH];
shared float w_scale[2u * TILE], a_scale[2u * TILE];

#define WAVES (LOCAL / SUBGROUP / 2)  // subgroups: 2 on rows, these on tokens
#define MI (TILE / 2 / CM)            // matrices of a subgroup on rows
#define NI (TILE / WAVES / CM)        // and on tokens
#define KI (64 / CK)
#define WMat coopmat<int8_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA>
#define AMat coopmat<int8_t, gl_ScopeSubgroup, CK, CM, gl_MatrixUseB>
#define CMat coopmat<int32_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

uvec2 next_w;
uvec4 next_a[2];
float next_scale;

// Two invocations a row: each loads half a block of weights and of activations.
void load(uint b) {
    uint i = gl_LocalInvocationIndex, r = i / 2u, h = i % 2u;
    uint row = min(group_x() * TILE + r, rows - 1u), t = min(gl_WorkGroupID.y * TILE + r, n - 1u);
    uvec4 q = Q2_0_CODE(row, nb, b);
    next_w = h == 0u ? q.xy : q.zw;
    next_a[0] = a[(t * nb + b) * 4u + h * 2u];
    next_a[1] = a[(t * nb + b) * 4u + h * 2u + 1u];
    next_scale = h == 0u ? Q2_0_SCALE(row, nb, b) : uintBitsToFloat(ACT_PAIR(t * nb + b).x);
}

// Four codes in bytes, each minus 1.
uint signed4(uint q, uint k) { return ((((q >> (2u * k)) & 0x03030303u) | 0x80808080u) - 0x01010101u) ^ 0x80808080u; }

void store(uint stage) {
    uint i = gl_LocalInvocationIndex, r = i / 2u, h = i % 2u, at = (stage * TILE + r) * PITCH + h * (32u / UNIT);
    [[unroll]] for (uint j = 0u; j < 2u; j++) {
        uvec4 w = uvec4(signed4(next_w[j], 0u), signed4(next_w[j], 1u), signed4(next_w[j], 2u), signed4(next_w[j], 3u));
#if CK == 8
        w_stage[at + 2u * j] = w.xy;
        w_stage[at + 2u * j + 1u] = w.zw;
        a_stage[at + 2u * j] = next_a[j].xy;
        a_stage[at + 2u * j + 1u] = next_a[j].zw;
#else
        w_stage[at + j] = w;
        a_stage[at + j] = next_a[j];
#endif
    }
    if (h == 0u) w_scale[stage * TILE + r] = next_scale;
    else a_scale[stage * TILE + r] = next_scale;
}

void main() {
    uint sg = gl_SubgroupID, m0 = (sg % 2u) * (TILE / 2u), n0 = (sg / 2u) * (TILE / WAVES);
    FMat total[MI][NI], slice[MI][NI];
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) {
        total[i][j] = FMat(0.0);
        slice[i][j] = FMat(0.0);
    }
    load(0u);
    store(0u);
    barrier();
    for (uint b = 0u; b < nb; b++) {
        uint stage = b & 1u;
        if (b + 1u < nb) load(b + 1u);
        CMat c[MI][NI];
        [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = CMat(0x4b400000);
        UNROLL_K for (uint k = 0u; k < KI; k++) {
            WMat w[MI];
            AMat x[NI];
            [[unroll]] for (uint i = 0u; i < MI; i++)
                coopMatLoad(w[i], w_stage, (stage * TILE + m0 + i * CM) * PITCH + k * CK / UNIT, PITCH, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0u; j < NI; j++)
                coopMatLoad(x[j], a_stage, (stage * TILE + n0 + j * CM) * PITCH + k * CK / UNIT, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = coopMatMulAdd(w[i], x[j], c[i][j]);
        }
        FMat xs[NI];
        [[unroll]] for (uint j = 0u; j < NI; j++)
            coopMatLoad(xs[j], a_scale, stage * TILE + n0 + j * CM, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < MI; i++) {
            FMat ws;
            coopMatLoad(ws, w_scale, stage * TILE + m0 + i * CM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint j = 0u; j < NI; j++)
                [[unroll]] for (int e = 0; e < slice[i][j].length(); e++) {
                    float f = sub(intBitsToFloat(c[i][j][e]), 12582912.0);
                    slice[i][j][e] = add(slice[i][j][e], mul(f, mul(ws[e], xs[j][e])));
                }
        }
        if (b % SLICE == SLICE - 1u || b + 1u == nb) {
            [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) {
                [[unroll]] for (int e = 0; e < slice[i][j].length(); e++) total[i][j][e] = add(total[i][j][e], slice[i][j][e]);
                slice[i][j] = FMat(0.0);
            }
        }
        if (b + 1u < nb) store(1u - stage);
        barrier();
    }
    bool inside = (group_x() + 1u) * TILE <= rows && (gl_WorkGroupID.y + 1u) * TILE <= n;
    [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++) {
        [[unroll]] for (int e = 0; e < total[i][j].length(); e++) total[i][j][e] = tidy(total[i][j][e]);
        uint m = group_x() * TILE + m0 + i * CM, t = gl_WorkGroupID.y * TILE + n0 + j * CM;
        if (inside) {
            coopMatStore(total[i][j], y, t * stride + row0 + m, stride, gl_CooperativeMatrixLayoutColumnMajor);
        } else { // the whole workgroup goes through the stage, which is free now
            uint cell = sg * (CM * CM * 4u / UNIT);
            coopMatStore(total[i][j], w_stage, cell, CM * 4u / UNIT, gl_CooperativeMatrixLayoutColumnMajor);
            barrier();
            for (uint e = gl_SubgroupInvocationID; e < CM * CM; e += SUBGROUP) {
                uint mm = m + e % CM, tt = t + e / CM;
                if (mm < rows && tt < n) y[tt * stride + row0 + mm] = uintBitsToFloat(w_stage[cell + e * 4u / UNIT][e % (UNIT / 4u)]);
            }
            barrier();
        }
    }
}
