#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "tern.glsl"
#include "q2_0.glsl"
#define ACT 2
#include "act.glsl"
// The product for many tokens on cooperative matrices of halves with float sums, within
// the bound "product" of runtime/ref/bound_product.go: weights are exact as halves, activations are
// x * d / 4 rounded to halves, the order of sums is the hardware's. A tile of ROWS x TOKENS
// by SR x ST subgroups, half a block of K a stage, two stages in flight.
#define LOCAL (SR * ST * SUBGROUP)
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

const uint UNIT = 16u;
const uint PITCH = 5u; // quads of a staged row: 32 halves, and 16 bytes against bank conflicts
shared uvec4 w_stage[2u * ROWS * PITCH];
shared uvec4 a_stage[2u * TOKENS * PITCH];

#define MI (ROWS / SR / CM)   // matrices of a subgroup on rows
#define NI (TOKENS / ST / CM) // and on tokens
#define WMat coopmat<float16_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseA>
#define AMat coopmat<float16_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseB>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

// Quads of 8 halves that an invocation stages: quad c of a row has the elements s and s + 8
// of word c / 2 of the half block, for four s from 4 (c % 2) on.
#define WQ (ROWS * 4 / LOCAL)
#define AQ (TOKENS * 4 / LOCAL)
uint w_row[WQ], w_scale_row[WQ], a_token[AQ]; // where their rows begin in codes and scales, their tokens
uint next_w[WQ];
uvec4 next_a[AQ];
float next_w_scale[WQ], next_a_scale[AQ];

void find_rows() {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        uint row = min(group_x() * ROWS + (j * LOCAL + lane) / 4u, rows - 1u);
        w_row[j] = row / GROUP * nb * GROUP + row % GROUP;
        w_scale_row[j] = row / GROUP * Q2_0_FOURS(nb) * GROUP + row % GROUP;
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) a_token[j] = min(gl_WorkGroupID.y * TOKENS + (j * LOCAL + lane) / 4u, n - 1u);
}

void load(uint step) {
    uint b = step / 2u, word = step % 2u * 2u + gl_LocalInvocationIndex % 4u / 2u, at = b >> SHARE;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        next_w[j] = codes[w_row[j] + b * GROUP][word];
        next_w_scale[j] = q2_0_half(scales[w_scale_row[j] + at / 4u * GROUP], at % 4u);
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        next_a[j] = a[ACT_BLOCK(a_token[j], b) * 4u + word];
        next_a_scale[j] = uintBitsToFloat(ACT_PAIR(ACT_BLOCK(a_token[j], b)).x);
    }
}

// Differences of the two halves of words.
f16vec2 difference(uint x, uint y) { return unpackFloat2x16(x) - unpackFloat2x16(y); }

void store(uint stage) {
    uint lane = gl_LocalInvocationIndex, odd = lane % 2u;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        uint i = j * LOCAL + lane, q = next_w[j] >> 8u * odd;
        f16vec2 scale = f16vec2(float16_t(next_w_scale[j]));
        uvec4 w;
        [[unroll]] for (uint u = 0u; u < 4u; u++)
            w[u] = packFloat2x16(difference((q >> 2u * u & 0x00030003u) | 0x64006400u, 0x64016401u) * scale);
        w_stage[(stage * ROWS + i / 4u) * PITCH + i % 4u] = w;
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        uint i = j * LOCAL + lane;
        float d = next_a_scale[j];
        d = floatBitsToUint(d) >= INF_BITS ? uintBitsToFloat(0x7fc00000u) : min(d * 32.0, 65504.0);
        f16vec2 scale = f16vec2(float16_t(d));
        uvec4 x = ((next_a[j] >> 8u * odd) & 0x00ff00ffu) ^ 0x48804880u; // 9 + x / 128
        [[unroll]] for (uint u = 0u; u < 4u; u++) x[u] = packFloat2x16(difference(x[u], 0x48804880u) * scale);
        a_stage[(stage * TOKENS + i / 4u) * PITCH + i % 4u] = x;
    }
}

FMat total[MI][NI];

void multiply(uint stage, uint m0, uint n0) {
    [[unroll]] for (uint k = 0u; k < 32u / CM; k++) {
        WMat w[MI];
        AMat x[NI];
        [[unroll]] for (uint i = 0u; i < MI; i++)
            coopMatLoad(w[i], w_stage, (stage * ROWS + m0 + i * CM) * PITCH + k * (CM / 8u), PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < NI; j++)
            coopMatLoad(x[j], a_stage, (stage * TOKENS + n0 + j * CM) * PITCH + k * (CM / 8u), PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (int j = 0; j < NI; j++) [[unroll]] for (int i = 0; i < MI; i++) total[i][j] = coopMatMulAdd(w[i], x[j], total[i][j]);
    }
}

void main() {
    uint sg = gl_SubgroupID, m0 = (sg % SR) * (ROWS / SR), n0 = (sg / SR) * (TOKENS / ST);
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) total[i][j] = FMat(0.0);
    find_rows();
    load(0u);
    store(0u);
    barrier();
    [[dont_unroll]] for (uint step = 0u; step < 2u * nb; step++) {
        bool more = step + 1u < 2u * nb;
        if (more) load(step + 1u);
        multiply(step % 2u, m0, n0);
        if (more) store((step + 1u) % 2u);
        barrier();
    }
    [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++)
        [[unroll]] for (int e = 0; e < total[i][j].length(); e++) total[i][j][e] *= 4.0;
#include "coop_store.glsl"
}
