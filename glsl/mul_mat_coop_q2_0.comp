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
// tile of ROWS x TOKENS by SR x ST subgroups, a block of K a stage, two stages in
// flight. int32 sums are exact in any order. What follows is done in the order of
// the contract, element by element: runtime/ref/mul_mat_q2_0.go. That element e of an
// int32 and of a float matrix are one cell is proved by the start-up probe.
#define LOCAL (SR * ST * SUBGROUP)
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
const uint PITCH = (64u + 16u) / UNIT; // a staged row: its bytes, and 16 against bank conflicts
shared Unit w_stage[2u * ROWS * PITCH];
shared Unit a_stage[2u * TOKENS * PITCH];
shared float w_scale[2u * ROWS];
shared float a_scale[2u * TOKENS];

#define MI (ROWS / SR / CM)   // matrices of a subgroup on rows
#define NI (TOKENS / ST / CM) // and on tokens
#define KI (64 / CK)
#define WMat coopmat<int8_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA>
#define AMat coopmat<int8_t, gl_ScopeSubgroup, CK, CM, gl_MatrixUseB>
#define CMat coopmat<int32_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

// Quarters of blocks that an invocation stages: 16 weights, 16 activations.
#define WQ (ROWS * 4 / LOCAL)
#define AQ (TOKENS * 4 / LOCAL)
#define SQ (ROWS + TOKENS)
#define SN ((SQ + LOCAL - 1) / LOCAL)
uint w_row[WQ], a_row[AQ], scale_row[SN]; // where their rows begin in codes, a and scales or pairs
uint next_w[WQ];
uvec4 next_a[AQ];
float next_scale[SN];

// Item i of a stage is quarter i % 4 of row i / 4.
void find_rows() {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        uint row = min(group_x() * ROWS + (j * LOCAL + lane) / 4u, rows - 1u);
        w_row[j] = row / GROUP * nb * GROUP + row % GROUP;
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++)
        a_row[j] = min(gl_WorkGroupID.y * TOKENS + (j * LOCAL + lane) / 4u, n - 1u) * 4u + lane % 4u;
    [[unroll]] for (uint j = 0u; j < SN; j++) {
        uint i = j * LOCAL + lane;
        if (i < ROWS) {
            uint row = min(group_x() * ROWS + i, rows - 1u);
            scale_row[j] = row / GROUP * Q2_0_FOURS(nb) * GROUP + row % GROUP;
        } else {
            scale_row[j] = min(gl_WorkGroupID.y * TOKENS + i - ROWS, n - 1u);
        }
    }
}

void load(uint b) {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint j = 0u; j < WQ; j++) next_w[j] = codes[w_row[j] + b * GROUP][lane % 4u];
    [[unroll]] for (uint j = 0u; j < AQ; j++) next_a[j] = a[a_row[j] + ACT_BLOCK(0u, b) * 4u];
    [[unroll]] for (uint j = 0u; j < SN; j++) {
        uint i = j * LOCAL + lane;
        if (i < ROWS) {
            uint at = b >> SHARE;
            next_scale[j] = q2_0_half(scales[scale_row[j] + at / 4u * GROUP], at % 4u);
        } else if (i < SQ) {
            next_scale[j] = uintBitsToFloat(ACT_PAIR(ACT_BLOCK(scale_row[j], b)).x);
        }
    }
}

// Four codes in bytes, each minus 1.
uint signed4(uint q, uint k) { return ((((q >> (2u * k)) & 0x03030303u) | 0x80808080u) - 0x01010101u) ^ 0x80808080u; }

void store(uint stage) {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        uint i = j * LOCAL + lane, at = (stage * ROWS + i / 4u) * PITCH + i % 4u * (16u / UNIT);
        uvec4 w = uvec4(signed4(next_w[j], 0u), signed4(next_w[j], 1u), signed4(next_w[j], 2u), signed4(next_w[j], 3u));
#if CK == 8
        w_stage[at] = w.xy;
        w_stage[at + 1u] = w.zw;
#else
        w_stage[at] = w;
#endif
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        uint i = j * LOCAL + lane, at = (stage * TOKENS + i / 4u) * PITCH + i % 4u * (16u / UNIT);
#if CK == 8
        a_stage[at] = next_a[j].xy;
        a_stage[at + 1u] = next_a[j].zw;
#else
        a_stage[at] = next_a[j];
#endif
    }
    [[unroll]] for (uint j = 0u; j < SN; j++) {
        uint i = j * LOCAL + lane;
        if (i < ROWS) w_scale[stage * ROWS + i] = next_scale[j];
        else if (i < SQ) a_scale[stage * TOKENS + i - ROWS] = next_scale[j];
    }
}

FMat total[MI][NI], slice[MI][NI];

// The terms of a stage.
void terms(uint stage, uint m0, uint n0) {
    CMat c[MI][NI];
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = CMat(0);
    UNROLL_K for (uint k = 0u; k < KI; k++) {
        WMat w[MI];
        AMat x[NI];
        uint at = k * CK / UNIT;
        [[unroll]] for (uint i = 0u; i < MI; i++)
            coopMatLoad(w[i], w_stage, (stage * ROWS + m0 + i * CM) * PITCH + at, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < NI; j++)
            coopMatLoad(x[j], a_stage, (stage * TOKENS + n0 + j * CM) * PITCH + at, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (int j = 0; j < NI; j++) [[unroll]] for (int i = 0; i < MI; i++) c[i][j] = coopMatMulAdd(w[i], x[j], c[i][j]);
    }
    [[unroll]] for (uint j = 0u; j < NI; j++) {
        FMat xs;
        coopMatLoad(xs, a_scale, stage * TOKENS + n0 + j * CM, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < MI; i++) {
            FMat ws;
            coopMatLoad(ws, w_scale, stage * ROWS + m0 + i * CM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (int f = 0; f < slice[i][j].length(); f++)
                slice[i][j][f] = add(slice[i][j][f], mul(float(c[i][j][f]), mul(ws[f], xs[f])));
        }
    }
}

void main() {
    uint sg = gl_SubgroupID, m0 = (sg % SR) * (ROWS / SR), n0 = (sg / SR) * (TOKENS / ST);
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) total[i][j] = FMat(0.0);
    find_rows();
    load(0u);
    store(0u);
    barrier();
    uint stage = 0u;
    for (uint first = 0u; first < nb; first += SLICE) {
        [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) slice[i][j] = FMat(0.0);
        [[dont_unroll]] for (uint b = first; b < min(first + SLICE, nb); b++) {
            bool more = b + 1u < nb;
            if (more) load(b + 1u);
            terms(stage, m0, n0);
            stage = 1u - stage;
            if (more) store(stage);
            barrier();
        }
        [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++)
            [[unroll]] for (int f = 0; f < total[i][j].length(); f++) total[i][j][f] = add(total[i][j][f], slice[i][j][f]);
    }
#include "coop_store.glsl"
}
