#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#include "tern.glsl"
#include "cache.glsl"
// Attention for many queries on cooperative matrices of halves with float sums. Queries and
// weights are rounded to halves, and the order is its own: the words lie within the
// bound "attention" of runtime/ref/bound.go. A workgroup of SR x SC subgroups takes ROWS rows, which are
// (token, query head) of one kv head, and KEYS positions at a time: a subgroup has the
// scores of its rows at a part of the positions, then its rows at a part of the
// dimensions. Between the two, scores become weights in shared memory.
#if CM == 8 // of processors, whose compilers are slow
#define UNROLL [[dont_unroll]]
#else
#define UNROLL [[unroll]]
#endif
#define LOCAL (SR * SC * SUBGROUP)
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint SHARE = 1u; // query heads per kv head
layout(binding = 0) readonly buffer Q { vec4 q[]; };
layout(binding = 1) readonly buffer Cache { CACHE_WORD cache[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) writeonly buffer Y { vec4 y[]; };
layout(push_constant) uniform P { uint n, q_stride, positions, tables, v_base; };

const uint EIGHTS = HEAD_DIM / 8u, ITEMS = KEYS * EIGHTS / LOCAL; // eights of dimensions of a position, and of keys an invocation stages
const uint KV_PITCH = EIGHTS + 1u, SCORE_PITCH = KEYS / 4u + 1u;  // with 16 bytes against bank conflicts
const uint PER = LOCAL / ROWS, FOURS = KEYS / PER / 4u;           // invocations of a row, and quads of scores of each
shared uvec4 kv[2u * KEYS * KV_PITCH];      // keys, then values, as [position][dim]; the queries at first
shared uvec4 score[ROWS * SCORE_PITCH];     // [row][position]: scores, then weights; results at last
shared float scale[ROWS];                   // of what a row has summed so far
shared uint live_of[ROWS], table_of[ROWS];  // positions that a row sees, its pages
shared uint spoilt;                         // whether a value that only some rows see is not a number

#define MI (ROWS / SR / CM) // matrices of a subgroup on rows,
#define NI (KEYS / SC / CM) // on positions
#define DI (HEAD / SC / CM) // and on dimensions
#define AMat coopmat<float16_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseA>
#define BMat coopmat<float16_t, gl_ScopeSubgroup, CM, CM, gl_MatrixUseB>
#define FMat coopmat<float, gl_ScopeSubgroup, CM, CM, gl_MatrixUseAccumulator>

// A row's weights are 2^(score - m + LIFT): m follows the largest score only when that is more than
// SLACK above it, and the largest weight is 2^15, which halves hold.
const float LIFT = 7.0, SLACK = 8.0;

uvec4 halves(vec4 a, vec4 b) { return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw)); }

// Eight elements of a key or value, as halves.
#ifdef QUANTIZED
#include "chunk_q.glsl"
uvec4 eight_halves(uvec2 at, uint eight, uint bits) {
    vec4 a, b;
    eight_of(at, eight, bits, a, b);
    return halves(a, b);
}
uvec4 key_of(uint page, uint head, uint pos, uint eight) { return eight_halves(key_at(page, head, pos % PAGE, eight), eight, KEY_BITS); }
uvec4 value_of(uint page, uint head, uint pos, uint eight) { return eight_halves(value_at(v_base, page, head, pos % PAGE, eight), eight, VALUE_BITS); }
#else
uvec4 key_of(uint page, uint head, uint pos, uint eight) { return cache[key_word(page, head, pos, eight * 8u) / 4u]; }
uvec4 value_of(uint page, uint head, uint pos, uint eight) { return cache[(v_base + value_word(page, head, pos, eight * 8u)) / 4u]; }
#endif

uvec4 next_k[ITEMS], next_v[ITEMS];

void load(uint from, uint page, uint head) {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < ITEMS; i++) {
        uint item = i * LOCAL + lane;
        next_k[i] = key_of(page, head, from + item % KEYS, item / KEYS);
        next_v[i] = value_of(page, head, from + item / EIGHTS, item % EIGHTS);
    }
}

// 0x8000 at each half of a word that is not a number.
uvec4 not_numbers(uvec4 v) { return ((v & 0x7fff7fffu) + 0x03ff03ffu) & 0x80008000u; }

// Values at positions from last on become zeros, and those that are not numbers, if some rows do not see them.
void store(uint from, uint full, uint last) {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < ITEMS; i++) {
        uint item = i * LOCAL + lane, pos = from + item / EIGHTS;
        uvec4 v = next_v[i];
        if (from + KEYS > full) {
            uvec4 bad = not_numbers(v);
            v = pos < last ? v & ~((bad >> 15) * 0xffffu) : uvec4(0u);
            if (pos < last && bad != uvec4(0u)) spoilt = 1u;
        }
        kv[item % KEYS * KV_PITCH + item / KEYS] = next_k[i];
        kv[(KEYS + item / EIGHTS) * KV_PITCH + item % EIGHTS] = v;
    }
}

void main() {
    uint heads = KV_HEADS * SHARE, per_head = (n * SHARE + ROWS - 1u) / ROWS;
    uint tile = gl_WorkGroupID.y * heads + group_x();
    if (tile >= per_head * KV_HEADS) return;
    uint head = tile % KV_HEADS, row0 = (per_head - 1u - tile / KV_HEADS) * ROWS; // long rows first
    uint rows = min(ROWS, n * SHARE - row0);
    uint lane = gl_LocalInvocationIndex, m0 = gl_SubgroupID / SC * (ROWS / SR), part = gl_SubgroupID % SC;
    for (uint r = lane; r < ROWS; r += LOCAL) {
        uint token = (row0 + r) / SHARE;
        live_of[r] = r < rows ? batch[positions + token] + 1u : 0u;
        table_of[r] = r < rows ? batch[tables + token] : 0xffffffffu;
    }
    for (uint i = lane; i < ROWS * EIGHTS; i += LOCAL) {
        uint r = row0 + min(i / EIGHTS, rows - 1u), at = (r / SHARE * q_stride + (head * SHARE + r % SHARE) * HEAD_DIM) / 4u + i % EIGHTS * 2u;
        kv[i / EIGHTS * KV_PITCH + i % EIGHTS] = halves(q[at], q[at + 1u]);
    }
    if (lane == 0u) spoilt = 0u;
    barrier();
    AMat query[MI][HEAD / CM];
    [[unroll]] for (uint i = 0u; i < MI; i++) UNROLL for (uint k = 0u; k < HEAD / CM; k++)
        coopMatLoad(query[i][k], kv, (m0 + i * CM) * KV_PITCH + k * (CM / 8u), KV_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    uint row = lane / PER, col = lane % PER * FOURS; // of the scores that this invocation weighs
    // Runs of rows of one sequence, one after the other; usually there is one.
    for (uint first = 0u; first < rows;) {
        uint end = first, last = 0u, full = 0xffffffffu, pages = table_of[first]; // full: positions that all rows see
        for (; end < rows && table_of[end] == pages; end++) {
            last = max(last, live_of[end]);
            full = min(full, live_of[end]);
        }
        uint live = row >= first && row < end ? live_of[row] : 0u;
        float m = -uintBitsToFloat(INF_BITS), l = 0.0;
        FMat o[MI][DI];
        [[unroll]] for (uint i = 0u; i < MI; i++) UNROLL for (uint j = 0u; j < DI; j++) o[i][j] = FMat(0.0);
        load(0u, batch[pages], head);
        [[dont_unroll]] for (uint from = 0u; from < last; from += KEYS) {
            barrier(); // keys and values of before are used up, or the queries
            store(from, full, last);
            barrier();
            if (from + KEYS < last) load(from + KEYS, batch[pages + (from + KEYS) / PAGE], head);
            FMat s[MI][NI];
            [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++) s[i][j] = FMat(0.0);
            UNROLL for (uint k = 0u; k < HEAD / CM; k++) [[unroll]] for (uint j = 0u; j < NI; j++) {
                BMat b;
                coopMatLoad(b, kv, (part * (KEYS / SC) + j * CM) * KV_PITCH + k * (CM / 8u), KV_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < MI; i++) s[i][j] = coopMatMulAdd(query[i][k], b, s[i][j]);
            }
            [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++)
                coopMatStore(s[i][j], score, (m0 + i * CM) * SCORE_PITCH + (part * (KEYS / SC) + j * CM) / 4u, SCORE_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
            vec4 w[FOURS];
            float top = -uintBitsToFloat(INF_BITS);
            [[unroll]] for (uint i = 0u; i < FOURS; i++) {
                w[i] = uintBitsToFloat(score[row * SCORE_PITCH + col + i]);
                w[i] = mix(vec4(-uintBitsToFloat(INF_BITS)), w[i], lessThan(from + (col + i) * 4u + uvec4(0u, 1u, 2u, 3u), uvec4(live)));
                top = max(max(top, max(w[i].x, w[i].y)), max(w[i].z, w[i].w));
            }
            [[unroll]] for (uint h = 1u; h < PER; h *= 2u) top = max(top, subgroupShuffleXor(top, h));
            float by = 1.0;
            if (top > m + SLACK) {
                by = exp2(m - top);
                m = top;
            }
            l *= by;
            uvec2 half_[FOURS];
            [[unroll]] for (uint i = 0u; i < FOURS; i++) {
                bvec4 seen = lessThan(from + (col + i) * 4u + uvec4(0u, 1u, 2u, 3u), uvec4(live));
                w[i] = mix(vec4(0.0), exp2(w[i] - (m - LIFT)), seen);
                half_[i] = uvec2(packHalf2x16(w[i].xy), packHalf2x16(w[i].zw));
                vec2 two = unpackHalf2x16(half_[i].x) + unpackHalf2x16(half_[i].y); // what is multiplied is what is added
                l += two.x + two.y;
            }
            subgroupBarrier(); // all scores of the row are read
            [[unroll]] for (uint i = 0u; i < FOURS; i += 2u)
                score[row * SCORE_PITCH + (col + i) / 2u] = uvec4(half_[i], half_[i + 1u]);
            if (col == 0u) scale[row] = by;
            barrier();
            bool moved = false;
            for (uint i = gl_SubgroupInvocationID; i < ROWS / SR; i += SUBGROUP) moved = moved || scale[m0 + i] != 1.0;
            if (subgroupAny(moved)) {
                [[unroll]] for (uint i = 0u; i < MI; i++) {
                    FMat f;
                    coopMatLoad(f, scale, m0 + i * CM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
                    UNROLL for (uint j = 0u; j < DI; j++) [[unroll]] for (int e = 0; e < f.length(); e++) o[i][j][e] *= f[e];
                }
            }
            UNROLL for (uint k = 0u; k < KEYS / CM; k++) {
                AMat a[MI];
                [[unroll]] for (uint i = 0u; i < MI; i++)
                    coopMatLoad(a[i], score, (m0 + i * CM) * SCORE_PITCH + k * (CM / 8u), SCORE_PITCH, gl_CooperativeMatrixLayoutRowMajor);
                UNROLL for (uint j = 0u; j < DI; j++) {
                    BMat b;
                    coopMatLoad(b, kv, (KEYS + k * CM) * KV_PITCH + (part * (HEAD / SC) + j * CM) / 8u, KV_PITCH, gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint i = 0u; i < MI; i++) o[i][j] = coopMatMulAdd(a[i], b, o[i][j]);
                }
            }
        }
        [[unroll]] for (uint h = 1u; h < PER; h *= 2u) l += subgroupShuffleXor(l, h);
        // NI matrices of dimensions at a time, where the scores were.
        UNROLL for (uint j0 = 0u; j0 < DI; j0 += NI) {
            barrier();
            [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++)
                coopMatStore(o[i][j0 + j], score, (m0 + i * CM) * SCORE_PITCH + (part * (KEYS / SC) + j * CM) / 4u, SCORE_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
            [[unroll]] for (uint i = 0u; i < (live > 0u ? FOURS : 0u); i++) {
                uint c = (col + i) * 4u, d = c / (KEYS / SC) * (HEAD / SC) + j0 * CM + c % (KEYS / SC);
                vec4 v = uintBitsToFloat(score[row * SCORE_PITCH + col + i]) / l;
                if (spoilt != 0u)
                    for (uint j = full / KEYS * KEYS; j < live; j++) {
                        uvec4 bad = not_numbers(value_of(batch[pages + j / PAGE], head, j, d / 8u));
                        uvec2 pairs = d % 8u == 0u ? bad.xy : bad.zw;
                        v = mix(v, vec4(uintBitsToFloat(0x7fc00000u)), notEqual(pairs.xxyy & uvec4(0x8000u, 0x80000000u, 0x8000u, 0x80000000u), uvec4(0u)));
                    }
                y[((row0 + row) / SHARE * heads + head * SHARE + (row0 + row) % SHARE) * (HEAD_DIM / 4u) + d / 4u] = vec4(tidy(v.x), tidy(v.y), tidy(v.z), tidy(v.w));
            }
        }
        first = end;
    }
}
