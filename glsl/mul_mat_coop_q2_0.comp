#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#include "tern.glsl"
#include "q2_0.glsl"
#define ACT 2
#include "act.glsl"
// The product for many tokens on int8 cooperative matrices of CM x CM x CK: a
// tile of ROWS x TOKENS by SR x ST subgroups, BLOCKS blocks of K a stage, two stages
// in flight. int32 sums are exact in any order; they start at the bits of 1.5*2^23,
// so that the bits of a sum C are those of the float 1.5*2^23 + C. What follows is
// done in the order of the contract, element by element: runtime/ref/mul_mat_q2_0.go.
// That element e of an int32 and of a float matrix are one cell is proved by the
// start-up probe.
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
const uint PITCH = (64u * BLOCKS + 16u) / UNIT; // a staged row: its bytes, and 16 against bank conflicts
shared Unit w_stage[2u * ROWS * PITCH];
shared Unit a_stage[2u * TOKENS * PITCH];
shared float w_scale[2u * BLOCKS * ROWS];
shared vec2 a_scale[BLOCKS * TOKENS];

#define MI (ROWS / SR / CM)   // matrices of a subgroup on rows
#define NI (TOKENS / ST / CM) // and on tokens
#define KI (64 / CK)
#define WMat coopmat<int8_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA>
#define AMat coopmat<int8_t, gl_ScopeSubgroup, CK, CM, gl_MatrixUseB>
#define CMat coopmat<int32_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

// Quarters of blocks that an invocation stages: 16 weights, 16 activations.
#define WQ (ROWS * BLOCKS * 4 / LOCAL)
#define AQ (TOKENS * BLOCKS * 4 / LOCAL)
#define SQ ((ROWS + TOKENS) * BLOCKS)
uint next_w[WQ];
uvec4 next_a[AQ];
float next_scale[(SQ + LOCAL - 1) / LOCAL];

// Item i of a stage is quarter i % 4 of block i / 4 % BLOCKS of row i / 4 / BLOCKS.
void load(uint b) {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        uint i = j * LOCAL + lane, row = min(group_x() * ROWS + i / 4u / BLOCKS, rows - 1u);
        next_w[j] = Q2_0_CODE(row, nb, min(b + i / 4u % BLOCKS, nb - 1u))[i % 4u];
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        uint i = j * LOCAL + lane, t = min(gl_WorkGroupID.y * TOKENS + i / 4u / BLOCKS, n - 1u);
        next_a[j] = a[(t * nb + min(b + i / 4u % BLOCKS, nb - 1u)) * 4u + i % 4u];
    }
    [[unroll]] for (uint j = 0u; j < (SQ + LOCAL - 1) / LOCAL; j++) {
        uint i = j * LOCAL + lane;
        if (i < ROWS * BLOCKS) {
            uint row = min(group_x() * ROWS + i % ROWS, rows - 1u);
            next_scale[j] = Q2_0_SCALE(row, nb, min(b + i / ROWS, nb - 1u));
        } else if (i < SQ) {
            i -= ROWS * BLOCKS;
            uint t = min(gl_WorkGroupID.y * TOKENS + i % TOKENS, n - 1u);
            next_scale[j] = uintBitsToFloat(ACT_PAIR(t * nb + min(b + i / TOKENS, nb - 1u)).x);
        }
    }
}

// Four codes in bytes, each minus 1.
uint signed4(uint q, uint k) { return ((((q >> (2u * k)) & 0x03030303u) | 0x80808080u) - 0x01010101u) ^ 0x80808080u; }

void store(uint stage) {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint j = 0u; j < WQ; j++) {
        uint i = j * LOCAL + lane, at = (stage * ROWS + i / 4u / BLOCKS) * PITCH + i % (4u * BLOCKS) * (16u / UNIT);
        uvec4 w = uvec4(signed4(next_w[j], 0u), signed4(next_w[j], 1u), signed4(next_w[j], 2u), signed4(next_w[j], 3u));
#if CK == 8
        w_stage[at] = w.xy;
        w_stage[at + 1u] = w.zw;
#else
        w_stage[at] = w;
#endif
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        uint i = j * LOCAL + lane, at = (stage * TOKENS + i / 4u / BLOCKS) * PITCH + i % (4u * BLOCKS) * (16u / UNIT);
#if CK == 8
        a_stage[at] = next_a[j].xy;
        a_stage[at + 1u] = next_a[j].zw;
#else
        a_stage[at] = next_a[j];
#endif
    }
    [[unroll]] for (uint j = 0u; j < (SQ + LOCAL - 1) / LOCAL; j++) {
        uint i = j * LOCAL + lane;
        if (i < ROWS * BLOCKS) w_scale[stage * BLOCKS * ROWS + i] = next_scale[j];
        else if (i < SQ) {
            uint t = stage * BLOCKS * TOKENS + i - ROWS * BLOCKS;
            a_scale[t / 2u][t % 2u] = next_scale[j];
        }
    }
}

FMat total[MI][NI], slice[MI][NI];

// Element f of the sums is in row cell_row + 8 * (f / 2 % 2) and column cell_col + f % 2 +
// 8 * (f / 4) of a matrix, where known: then few scales need to be read.
bool known;
uint cell_row, cell_col;

// Finds out where the elements are, from the numbers of rows and columns in w_scale
// and a_scale.
void find() {
    uint lane = gl_LocalInvocationIndex;
    if (lane < CM) {
        w_scale[lane] = float(lane);
        a_scale[lane / 2u][lane % 2u] = float(lane);
    }
    barrier();
    FMat row, col;
    coopMatLoad(row, w_scale, 0u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    coopMatLoad(col, a_scale, 0u, 0u, gl_CooperativeMatrixLayoutRowMajor);
    cell_row = uint(row[0]);
    cell_col = uint(col[0]);
    bool fits = row.length() == 8 && cell_col % 2u == 0u;
    [[unroll]] for (int f = 0; f < 8; f++)
        fits = fits && f < row.length() && row[f] == float(cell_row + 8u * uint(f / 2 % 2)) && col[f] == float(cell_col + uint(f % 2 + f / 4 * 8));
    known = subgroupAll(fits);
    barrier();
}

void add_term(uint i, uint j, int f, int c, float scale) {
    slice[i][j][f] = add(slice[i][j][f], mul(sub(intBitsToFloat(c), 12582912.0), scale));
}

// The terms of block e of a stage, which is block b of the row.
void block(uint stage, uint e, uint b, uint m0, uint n0) {
    CMat c[MI][NI];
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = CMat(0x4b400000);
    UNROLL_K for (uint k = 0u; k < KI; k++) {
        WMat w[MI];
        AMat x[NI];
        uint at = (e * 64u + k * CK) / UNIT;
        [[unroll]] for (uint i = 0u; i < MI; i++)
            coopMatLoad(w[i], w_stage, (stage * ROWS + m0 + i * CM) * PITCH + at, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < NI; j++)
            coopMatLoad(x[j], a_stage, (stage * TOKENS + n0 + j * CM) * PITCH + at, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = coopMatMulAdd(w[i], x[j], c[i][j]);
    }
    uint w_at = (stage * BLOCKS + e) * ROWS + m0, x_at = (stage * BLOCKS + e) * TOKENS + n0;
    if (CM == 16 && known) {
        vec4 xs[NI];
        [[unroll]] for (uint j = 0u; j < NI; j++) {
            uint at = (x_at + j * CM + cell_col) / 2u;
            xs[j] = vec4(a_scale[at], a_scale[at + 4u]);
        }
        [[unroll]] for (uint i = 0u; i < MI; i++) {
            vec2 ws = vec2(w_scale[w_at + i * CM + cell_row], w_scale[w_at + i * CM + cell_row + 8u]);
            [[unroll]] for (uint j = 0u; j < NI; j++)
                [[unroll]] for (int f = 0; f < 8; f++) add_term(i, j, f, c[i][j][f], mul(ws[f / 2 % 2], xs[j][f % 2 + f / 4 * 2]));
        }
    } else {
        [[unroll]] for (uint j = 0u; j < NI; j++) {
            FMat xs;
            coopMatLoad(xs, a_scale, (x_at + j * CM) / 2u, 0u, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0u; i < MI; i++) {
                FMat ws;
                coopMatLoad(ws, w_scale, w_at + i * CM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (int f = 0; f < slice[i][j].length(); f++) add_term(i, j, f, c[i][j][f], mul(ws[f], xs[f]));
            }
        }
    }
    if (b % SLICE == SLICE - 1u || b + 1u == nb) {
        [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) {
            [[unroll]] for (int f = 0; f < slice[i][j].length(); f++) total[i][j][f] = add(total[i][j][f], slice[i][j][f]);
            slice[i][j] = FMat(0.0);
        }
    }
}

void main() {
    uint sg = gl_SubgroupID, m0 = (sg % SR) * (ROWS / SR), n0 = (sg / SR) * (TOKENS / ST);
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) {
        total[i][j] = FMat(0.0);
        slice[i][j] = FMat(0.0);
    }
#if CM == 16
    find();
#endif
    load(0u);
    store(0u);
    barrier();
    uint stage = 0u;
    for (uint b = 0u; b < nb; b += BLOCKS) {
        if (b + BLOCKS < nb) load(b + BLOCKS);
        [[unroll]] for (uint e = 0u; e < BLOCKS; e++) if (e == 0u || b + e < nb) block(stage, e, b + e, m0, n0);
        if (b + BLOCKS < nb) store(1u - stage);
        stage = 1u - stage;
        barrier();
    }
    bool inside = (group_x() + 1u) * ROWS <= rows && (gl_WorkGroupID.y + 1u) * TOKENS <= n;
    [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++) {
        [[unroll]] for (int e = 0; e < total[i][j].length(); e++) total[i][j][e] = tidy(total[i][j][e]);
        uint m = group_x() * ROWS + m0 + i * CM, t = gl_WorkGroupID.y * TOKENS + n0 + j * CM;
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
