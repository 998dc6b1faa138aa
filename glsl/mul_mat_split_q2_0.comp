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
// The product for few dozens of tokens on int8 cooperative matrices of CM x CM x CK: there
// a row's blocks one after the other take longer than the memory needs, so the slices
// of a tile of ROWS x TOKENS are shared out among PARTS subgroups, each of which stages
// for itself; their sums are then added in order. int32 sums are exact in any order; they
// start at the bits of 1.5*2^23, so that the bits of a sum C are those of the float
// 1.5*2^23 + C. runtime/ref/mul_mat_q2_0.go
#define LOCAL (PARTS * SUBGROUP)
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
Q2_0_SCALES(1)
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, nb, row0, stride; };

#if CK == 8
#define Unit uvec2 // what a matrix takes of a staged row, at least
#define UNROLL [[dont_unroll]]
#else
#define Unit uvec4
#define UNROLL [[unroll]]
#endif
const uint UNIT = CK == 8 ? 8u : 16u;
const uint PITCH = 80u / UNIT; // a staged row: a block, and 16 bytes against bank conflicts
const uint STAGE = max((ROWS + TOKENS) * PITCH, ROWS * TOKENS * 4u / UNIT), SCALES = ROWS + TOKENS;
shared Unit stage[PARTS * STAGE]; // a block of weights and activations, or the sums of a slice
shared float scale[PARTS * SCALES];

#define MI (ROWS / CM)
#define NI (TOKENS / CM)
#define KI (64 / CK)
#define WMat coopmat<int8_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA>
#define AMat coopmat<int8_t, gl_ScopeSubgroup, CK, CM, gl_MatrixUseB>
#define CMat coopmat<int32_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

// What an invocation stages: rows of weights, quarters of blocks of activations, tokens' scales.
#define WR (ROWS / SUBGROUP)
#define AQ (TOKENS * 4 / SUBGROUP)
#define AT (TOKENS / SUBGROUP)
uvec4 w_next[SLICE][WR], a_next[AQ], pair_next[AT];
uvec2 d_next[2][WR];

uint weight_row(uint i) { return min(group_x() * ROWS + i * SUBGROUP + gl_SubgroupInvocationID, rows - 1u); }
uint token(uint i) { return min(gl_WorkGroupID.y * TOKENS + i, n - 1u); }

// Where the scales of slice s begin, in fours.
uint four_of(uint s) { return (s * SLICE >> SHARE) / 4u; }

void load_weights(uint s) {
    [[unroll]] for (uint i = 0u; i < WR; i++) {
        uint row = weight_row(i);
        [[unroll]] for (uint b = 0u; b < SLICE; b++) w_next[b][i] = Q2_0_CODE(row, nb, min(s * SLICE + b, nb - 1u));
        [[unroll]] for (uint f = 0u; f < 2u; f++)
            d_next[f][i] = scales[(row / GROUP * Q2_0_FOURS(nb) + min(four_of(s) + f, Q2_0_FOURS(nb) - 1u)) * GROUP + row % GROUP];
    }
}

void load_activations(uint b) {
    b = min(b, nb - 1u);
    [[unroll]] for (uint i = 0u; i < AQ; i++) {
        uint at = i * SUBGROUP + gl_SubgroupInvocationID;
        a_next[i] = a[(token(at / 4u) * nb + b) * 4u + at % 4u];
    }
    [[unroll]] for (uint i = 0u; i < AT; i++) pair_next[i] = a[n * nb * 4u + (token(i * SUBGROUP + gl_SubgroupInvocationID) * nb + b) / 2u];
}

// Four codes in bytes, each minus 1.
uint signed4(uint q, uint k) { return ((((q >> (2u * k)) & 0x03030303u) | 0x80808080u) - 0x01010101u) ^ 0x80808080u; }

void stage_quarter(uint at, uvec4 v) {
#if CK == 8
    stage[at] = v.xy;
    stage[at + 1u] = v.zw;
#else
    stage[at] = v;
#endif
}

// Stages block i of slice s: everything of it has been loaded.
void store(uint s, uint i) {
    uint lane = gl_SubgroupInvocationID, at = gl_SubgroupID * STAGE, scale_at = gl_SubgroupID * SCALES, b = s * SLICE + i;
    [[unroll]] for (uint r = 0u; r < WR; r++) {
        uint row = r * SUBGROUP + lane, four = (b >> SHARE) - 4u * four_of(s);
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint q = w_next[i][r][j];
            stage_quarter(at + row * PITCH + j * (16u / UNIT), uvec4(signed4(q, 0u), signed4(q, 1u), signed4(q, 2u), signed4(q, 3u)));
        }
        scale[scale_at + row] = q2_0_half(four < 4u ? d_next[0][r] : d_next[1][r], four % 4u);
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        uint q = j * SUBGROUP + lane;
        stage_quarter(at + (ROWS + q / 4u) * PITCH + q % 4u * (16u / UNIT), a_next[j]);
    }
    [[unroll]] for (uint j = 0u; j < AT; j++) {
        uint t = j * SUBGROUP + lane;
        scale[scale_at + ROWS + t] = uintBitsToFloat(act_pair(pair_next[j], token(t) * nb + b).x);
    }
}

void together() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

// Element f of the sums is in row cell_row + 8 * (f / 2 % 2) and column cell_col + f % 2 +
// 8 * (f / 4) of a matrix, where known: then few scales need to be read.
bool known;
uint cell_row, cell_col;

// Finds out where the elements are, from numbers of rows and columns.
void find() {
    uint lane = gl_SubgroupInvocationID, at = gl_SubgroupID * SCALES;
    if (lane < CM) scale[at + lane] = float(lane);
    together();
    FMat row, col;
    coopMatLoad(row, scale, at, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    coopMatLoad(col, scale, at, 0u, gl_CooperativeMatrixLayoutRowMajor);
    cell_row = uint(row[0]);
    cell_col = uint(col[0]);
    bool fits = row.length() == 8;
    [[unroll]] for (int f = 0; f < 8; f++)
        fits = fits && f < row.length() && row[f] == float(cell_row + 8u * uint(f / 2 % 2)) && col[f] == float(cell_col + uint(f % 2 + f / 4 * 8));
    known = subgroupAll(fits);
    together();
}

FMat sums[MI][NI];

void add_term(uint i, uint j, int f, int c, float d) {
    sums[i][j][f] = add(sums[i][j][f], mul(sub(intBitsToFloat(c), 12582912.0), d));
}

// Adds the terms of the staged block.
void block() {
    uint at = gl_SubgroupID * STAGE, w_at = gl_SubgroupID * SCALES, x_at = w_at + ROWS;
    CMat c[MI][NI];
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = CMat(0x4b400000);
    UNROLL for (uint k = 0u; k < KI; k++) {
        WMat w[MI];
        AMat x[NI];
        [[unroll]] for (uint i = 0u; i < MI; i++)
            coopMatLoad(w[i], stage, at + i * CM * PITCH + k * CK / UNIT, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < NI; j++)
            coopMatLoad(x[j], stage, at + (ROWS + j * CM) * PITCH + k * CK / UNIT, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) c[i][j] = coopMatMulAdd(w[i], x[j], c[i][j]);
    }
    if (CM == 16 && known) {
        [[unroll]] for (uint i = 0u; i < MI; i++) {
            uint row = w_at + i * CM + cell_row;
            vec2 ws = vec2(scale[row], scale[row + 8u]);
            [[unroll]] for (uint j = 0u; j < NI; j++) {
                uint col = x_at + j * CM + cell_col;
                vec4 xs = vec4(scale[col], scale[col + 1u], scale[col + 8u], scale[col + 9u]);
                [[unroll]] for (int f = 0; f < 8; f++) add_term(i, j, f, c[i][j][f], mul(ws[f / 2 % 2], xs[f % 2 + f / 4 * 2]));
            }
        }
        return;
    }
    [[unroll]] for (uint j = 0u; j < NI; j++) {
        FMat xs;
        coopMatLoad(xs, scale, x_at + j * CM, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < MI; i++) {
            FMat ws;
            coopMatLoad(ws, scale, w_at + i * CM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (int f = 0; f < xs.length(); f++) add_term(i, j, f, c[i][j][f], mul(ws[f], xs[f]));
        }
    }
}

// The sums of slice s, put where the blocks were staged: token by token.
void slice_sums(uint s) {
    load_weights(s);
    load_activations(s * SLICE);
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) sums[i][j] = FMat(0.0);
    UNROLL for (uint i = 0u; i < SLICE; i++)
        {
            store(s, i);
            together();
            if (i + 1u < SLICE) load_activations(s * SLICE + i + 1u);
            if (s * SLICE + i < nb) block();
            together();
        }
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++)
        coopMatStore(sums[i][j], stage, gl_SubgroupID * STAGE + (j * CM * ROWS + i * CM) * 4u / UNIT, ROWS * 4u / UNIT, gl_CooperativeMatrixLayoutColumnMajor);
}

#define FLOATS (UNIT / 4u)
const uint UNITS = ROWS * TOKENS / FLOATS / LOCAL; // of an invocation

void main() {
    uint slices = (nb + SLICE - 1u) / SLICE;
    float total[UNITS][FLOATS];
    [[unroll]] for (uint u = 0u; u < UNITS; u++) [[unroll]] for (uint f = 0u; f < FLOATS; f++) total[u][f] = 0.0;
#if CM == 16
    find();
#endif
    for (uint first = 0u; first < slices; first += PARTS) {
        slice_sums(first + gl_SubgroupID);
        barrier();
        for (uint p = 0u; p < min(PARTS, slices - first); p++)
            [[unroll]] for (uint u = 0u; u < UNITS; u++) {
                Unit v = stage[p * STAGE + u * LOCAL + gl_LocalInvocationIndex];
                [[unroll]] for (uint f = 0u; f < FLOATS; f++) total[u][f] = add(total[u][f], uintBitsToFloat(v[f]));
            }
        barrier();
    }
    [[unroll]] for (uint u = 0u; u < UNITS; u++) [[unroll]] for (uint f = 0u; f < FLOATS; f++) {
        uint i = (u * LOCAL + gl_LocalInvocationIndex) * FLOATS + f, row = group_x() * ROWS + i % ROWS, t = gl_WorkGroupID.y * TOKENS + i / ROWS;
        if (row < rows && t < n) y[t * stride + row0 + row] = tidy(total[u][f]);
    }
}
