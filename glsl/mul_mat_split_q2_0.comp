#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "tern.glsl"
#include "q2_0.glsl"
#define ACT 2
#include "act.glsl"
// The product for dozens of tokens on int8 cooperative matrices of CM x CM x CK: there
// a row's blocks one after the other take longer than the memory needs, so the slices
// of a tile of ROWS x TOKENS are shared out among PARTS parts of SR subgroups; their sums
// are then added in order. The subgroups of a part take ROWS/SR rows each and stage
// activations for each other. int32 sums are exact in any order. They are over codes as
// stored, 0 to 3, and start at the bits of 1.5*2^23: so the bits of a sum C are those of
// the float 1.5*2^23 + C, from which what the codes are too large by, the sum of the
// activations, is taken exactly. runtime/ref/mul_mat_q2_0.go
#define LOCAL (PARTS * SR * SUBGROUP)
layout(local_size_x = LOCAL) in;
Q2_0_CODES(0)
layout(binding = 1) readonly buffer Scales { uint scale_words[]; };
layout(binding = 2) readonly buffer A { uvec4 a[]; };
layout(binding = 2) readonly buffer Pairs { uvec2 pairs[]; };
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
const uint STAGE = max((ROWS + TOKENS) * PITCH, ROWS * TOKENS * 4u / UNIT), SCALES = ROWS + 2u * TOKENS;
shared Unit stage[PARTS * STAGE]; // a block of weights and activations, or the sums of a slice
shared vec2 scale[PARTS * SCALES / 2u]; // scales of rows, of tokens, and tokens' 1.5*2^23 + sums

void set_scale(uint i, float v) { scale[i / 2u][i % 2u] = v; }

#define MI (ROWS / SR / CM)
#define NI (TOKENS / CM)
#define KI (64 / CK)
#define WMat coopmat<int8_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA>
#define AMat coopmat<int8_t, gl_ScopeSubgroup, CK, CM, gl_MatrixUseB>
#define CMat coopmat<int32_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

// What an invocation stages of a block: rows of weights, quarters of tokens; the first subgroup tokens' scales.
#define WR (ROWS / SR / SUBGROUP)
#define AQ (TOKENS * 4 / SR / SUBGROUP)
#define AT (TOKENS / SUBGROUP)
uvec4 w_next[WR], a_next[AQ];
uint d_next[WR];
uvec2 pair_next[AT];

// Which part, and which of its subgroups.
uint part() { return gl_SubgroupID / SR; }
uint mine() { return gl_SubgroupID % SR; }
uint first_row() { return mine() * (ROWS / SR); }
uint weight_row(uint i) { return min(group_x() * ROWS + first_row() + i * SUBGROUP + gl_SubgroupInvocationID, rows - 1u); }
uint token(uint i) { return min(gl_WorkGroupID.y * TOKENS + i, n - 1u); }

// Block b on its way.
void load(uint b) {
    b = min(b, nb - 1u);
    uint d = b >> SHARE;
    [[unroll]] for (uint i = 0u; i < WR; i++) {
        uint row = weight_row(i);
        w_next[i] = Q2_0_CODE(row, nb, b);
        d_next[i] = scale_words[((row / GROUP * Q2_0_FOURS(nb) + d / 4u) * GROUP + row % GROUP) * 2u + d / 2u % 2u];
    }
    [[unroll]] for (uint i = 0u; i < AQ; i++) {
        uint at = (i * SR + mine()) * SUBGROUP + gl_SubgroupInvocationID;
        a_next[i] = a[ACT_BLOCK(token(at / 4u), b) * 4u + at % 4u];
    }
    if (mine() == 0u)
        [[unroll]] for (uint i = 0u; i < AT; i++) pair_next[i] = pairs[n * nb * 8u + ACT_BLOCK(token(i * SUBGROUP + gl_SubgroupInvocationID), b)];
}

void stage_quarter(uint at, uvec4 v) {
#if CK == 8
    stage[at] = v.xy;
    stage[at + 1u] = v.zw;
#else
    stage[at] = v;
#endif
}

// Stages block b, which has been loaded: the codes as they are, 0 to 3.
void store(uint b) {
    uint lane = gl_SubgroupInvocationID, at = part() * STAGE, scale_at = part() * SCALES;
    [[unroll]] for (uint r = 0u; r < WR; r++) {
        uint row = first_row() + r * SUBGROUP + lane;
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            stage_quarter(at + row * PITCH + j * (16u / UNIT), (uvec4(w_next[r][j]) >> uvec4(0u, 2u, 4u, 6u)) & 0x03030303u);
        vec2 d = f32_of(d_next[r]);
        set_scale(scale_at + row, ((b >> SHARE) & 1u) == 0u ? d.x : d.y);
    }
    [[unroll]] for (uint j = 0u; j < AQ; j++) {
        uint q = (j * SR + mine()) * SUBGROUP + lane;
        stage_quarter(at + (ROWS + q / 4u) * PITCH + q % 4u * (16u / UNIT), a_next[j]);
    }
    if (mine() == 0u) [[unroll]] for (uint j = 0u; j < AT; j++) {
        uint t = scale_at + ROWS + j * SUBGROUP + lane;
        set_scale(t, uintBitsToFloat(pair_next[j].x));
        set_scale(t + TOKENS, add(12582912.0, float(int(pair_next[j].y))));
    }
}

void together() {
#if SR == 1
    subgroupMemoryBarrierShared();
    subgroupBarrier();
#else
    barrier();
#endif
}

FMat sums[MI][NI];

// Adds the terms of the staged block.
void block() {
    uint at = part() * STAGE, w_at = part() * SCALES, x_at = w_at + ROWS;
    WMat w[MI][KI];
    [[unroll]] for (uint i = 0u; i < MI; i++) UNROLL for (uint k = 0u; k < KI; k++)
        coopMatLoad(w[i][k], stage, at + (first_row() + i * CM) * PITCH + k * CK / UNIT, PITCH, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint j = 0u; j < NI; j++) {
        CMat c[MI];
        [[unroll]] for (uint i = 0u; i < MI; i++) c[i] = CMat(0x4b400000);
        UNROLL for (uint k = 0u; k < KI; k++) {
            AMat x;
            coopMatLoad(x, stage, at + (ROWS + j * CM) * PITCH + k * CK / UNIT, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < MI; i++) c[i] = coopMatMulAdd(w[i][k], x, c[i]);
        }
        FMat xs, zeros;
        coopMatLoad(xs, scale, (x_at + j * CM) / 2u, 0u, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(zeros, scale, (x_at + TOKENS + j * CM) / 2u, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < MI; i++) {
            FMat ws;
            coopMatLoad(ws, scale, (w_at + first_row() + i * CM) / 2u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (int f = 0; f < xs.length(); f++)
                sums[i][j][f] = add(sums[i][j][f], mul(sub(intBitsToFloat(c[i][f]), zeros[f]), mul(ws[f], xs[f])));
        }
    }
}

// The sums of slice s, put where the blocks were staged: token by token. Its first block is
// on its way, and then so is that of this part's next slice.
void slice_sums(uint s) {
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++) sums[i][j] = FMat(0.0);
    [[dont_unroll]] for (uint b = s * SLICE; b < (s + 1u) * SLICE; b++) {
        store(b);
        together();
        load((b + 1u) % SLICE != 0u ? b + 1u : b + 1u + (PARTS - 1u) * SLICE);
        if (b < nb) block();
        together();
    }
    [[unroll]] for (int i = 0; i < MI; i++) [[unroll]] for (int j = 0; j < NI; j++)
        coopMatStore(sums[i][j], stage, part() * STAGE + (j * CM * ROWS + first_row() + i * CM) * 4u / UNIT, ROWS * 4u / UNIT, gl_CooperativeMatrixLayoutColumnMajor);
}

#define FLOATS (UNIT / 4u)
const uint UNITS = ROWS * TOKENS / FLOATS / LOCAL; // of an invocation

void main() {
    uint slices = (nb + SLICE - 1u) / SLICE;
    float total[UNITS][FLOATS];
    [[unroll]] for (uint u = 0u; u < UNITS; u++) [[unroll]] for (uint f = 0u; f < FLOATS; f++) total[u][f] = 0.0;
    load(part() * SLICE);
    for (uint first = 0u; first < slices; first += PARTS) {
        slice_sums(first + part());
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
