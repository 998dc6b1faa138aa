#version 450
#include "tern.glsl"
#include "cache.glsl"
// Attention for many queries: a workgroup takes 16 tokens of one head, and two
// chunks at once, each half of it one. 16 invocations share 4 tokens: each has 4
// positions of their scores, then 8 dimensions of their values, in the orders of
// runtime/ref/attention.go; then the halves exchange parts, and each joins both
// chunks for half of the tokens.
layout(local_size_x = 128) in;
layout(constant_id = 3) const uint SHARE = 1u; // query heads per kv head
layout(binding = 0) readonly buffer Q { vec4 q[]; };
layout(binding = 1) readonly buffer Cache { CACHE_WORD cache[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) writeonly buffer Y { vec4 y[]; };
layout(push_constant) uniform P { uint n, q_stride, positions, tables, v_base; };
#include "join.glsl"
#ifdef QUANTIZED
#include "chunk_q.glsl"
#endif

const uint TOKENS = 16u, MINE = 4u, GROUPS = TOKENS / MINE, EIGHTS = HEAD_DIM / 8u;
const uint ROUNDS = (EIGHTS + 15u) / 16u; // eights of dimensions of an invocation
shared vec4 query[TOKENS * HEAD_DIM / 4u]; // [dim / 4][token of a group][group]
shared vec4 weight[2u * PAGE * GROUPS];    // [half][group / 2][position][group % 2]; then what the halves exchange
shared float exponent[2][TOKENS], sum_[2][TOKENS];
shared uint pos[TOKENS], table[TOKENS];

// What the invocations of a group wait for each other with: they lie in one subgroup.
#ifdef SHUFFLE
void meet() { subgroupBarrier(); }
#else
shared vec4 top[128];
void meet() { barrier(); }
#endif

vec4 larger(vec4 a, vec4 b) { return mix(a, b, greaterThan(b, a)); }

// The maxima over the 16 invocations of a group.
vec4 maxima(vec4 m) {
#ifdef SHUFFLE
    [[unroll]] for (uint h = 1u; h < 16u; h *= 2u)
        m = larger(m, vec4(subgroupShuffleXor(m.x, h), subgroupShuffleXor(m.y, h), subgroupShuffleXor(m.z, h), subgroupShuffleXor(m.w, h)));
#else
    uint lane = gl_LocalInvocationIndex;
    top[lane] = m;
    barrier();
    for (uint i = 0u; i < 16u; i++) m = larger(m, top[(lane & ~15u) + i]);
#endif
    return m;
}

void add_value(inout vec4 p[2], float w, vec4 v[2]) {
    [[unroll]] for (uint e = 0u; e < 2u; e++) p[e] = fma(vec4(w), v[e], p[e]); // exact products
}

#ifndef QUANTIZED
vec4 four_of(uint a, uint b) { return vec4(f32_of(a), f32_of(b)); }
#endif

void main() {
    uint h = group_x(), lane = gl_LocalInvocationIndex, lx = lane % 16u, ly = lane / 16u % GROUPS, side = lane / 64u;
    uint t0 = (gl_NumWorkGroups.y - 1u - gl_WorkGroupID.y) * TOKENS; // long rows first
    uint heads = KV_HEADS * SHARE, head = h / SHARE, count = min(TOKENS, n - t0);
    if (lane < TOKENS) {
        pos[lane] = lane < count ? batch[positions + t0 + lane] : 0u;
        table[lane] = lane < count ? batch[tables + t0 + lane] : 0xffffffffu;
    }
    for (uint i = lane; i < TOKENS * HEAD_DIM / 4u; i += 128u) {
        uint d = i % (HEAD_DIM / 4u), t = i / (HEAD_DIM / 4u);
        query[d * TOKENS + t % MINE * GROUPS + t / MINE] = q[(min(t0 + t, n - 1u) * q_stride + h * HEAD_DIM) / 4u + d];
    }
    barrier();
    uint mine = ly * MINE; // first of the tokens of the group
    uint at_weight = (side * GROUPS / 2u + ly / 2u) * PAGE * 2u + ly % 2u; // of position 0
    // Runs of tokens of one sequence, one after the other; usually there is one.
    for (uint first = 0u; first < count;) {
        uint end = first, last = 0u, pages = table[first];
        for (; end < count && table[end] == pages; end++) last = max(last, pos[end]);
        uvec4 live; // positions of a token
        [[unroll]] for (uint t = 0u; t < MINE; t++) live[t] = mine + t >= first && mine + t < end ? pos[mine + t] + 1u : 0u;
        uvec4 sees = mix(live, uvec4(0xffffffffu), equal(live, uvec4(0u))); // what tokens of other runs get is not used
        uvec2 bounds = uvec2(min(min(sees.x, sees.y), min(sees.z, sees.w)), max(max(live.x, live.y), max(live.z, live.w)));
        Join join[2];
        vec4 o[2][ROUNDS][2];
        for (uint c0 = 0u; c0 * PAGE <= last; c0 += 2u) {
            uint c = c0 + side, from = c * PAGE, page = batch[pages + min(c, last / PAGE)];
            uint positions_ = from <= last ? min(PAGE, last + 1u - from) : 0u, last_ = max(positions_, 1u) - 1u; // weights beyond are +0
            // Scores of the tokens at positions lx + 16 i.
            vec4 s[4];
            [[unroll]] for (uint i = 0u; i < 4u; i++) s[i] = vec4(0.0);
#ifndef QUANTIZED
            uint at = key_word(page, head, lx, 0u) / 4u;
            uvec4 k[2][4];
            [[unroll]] for (uint b = 0u; b < 2u; b++) [[unroll]] for (uint i = 0u; i < 4u; i++)
                k[b][i] = cache[at + min(b, EIGHTS - 1u) * PAGE + 16u * i];
#endif
            [[dont_unroll]] for (uint d0 = 0u; d0 < (positions_ > 0u ? EIGHTS : 0u); d0 += 2u) {
#ifndef QUANTIZED
                at += d0 + 2u < EIGHTS ? 2u * PAGE : 0u;
#endif
                [[unroll]] for (uint b = 0u; b < 2u; b++) {
                    uint d = d0 + b;
                    if (b == 1u && EIGHTS % 2u == 1u && d == EIGHTS) break;
                    vec4 key[4][2];
                    [[unroll]] for (uint i = 0u; i < 4u; i++) {
#ifdef QUANTIZED
                        eight_of(key_at(page, head, lx + 16u * i, d), d, KEY_BITS, key[i][0], key[i][1]);
#else
                        key[i][0] = four_of(k[b][i].x, k[b][i].y);
                        key[i][1] = four_of(k[b][i].z, k[b][i].w);
                        k[b][i] = cache[at + (d + 2u < EIGHTS ? b : 0u) * PAGE + 16u * i];
#endif
                    }
                    [[unroll]] for (uint e = 0u; e < 2u; e++) [[unroll]] for (uint t = 0u; t < MINE; t++) {
                        vec4 v = query[(2u * d + e) * TOKENS + t * GROUPS + ly];
                        [[unroll]] for (uint x = 0u; x < 4u; x++) [[unroll]] for (uint i = 0u; i < 4u; i++)
                            s[i][t] = mac(s[i][t], v[x], key[i][e][x]);
                    }
                }
            }
#ifndef QUANTIZED
            at = (v_base + value_word(page, head, 0u, 0u)) / 4u + min(lx, EIGHTS - 1u);
            uvec4 next[4];
            [[unroll]] for (uint j = 0u; j < 4u; j++) next[j] = cache[at + min(j, last_) * EIGHTS];
#endif
            // Exponents and weights.
            vec4 m = vec4(-uintBitsToFloat(INF_BITS));
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                m = larger(m, mix(m, s[i], lessThan(uvec4(from + lx + 16u * i), live)));
            m = maxima(m);
            [[unroll]] for (uint t = 0u; t < MINE; t++) m[t] = tidy(roundEven(m[t])); // +0, not -0
            barrier(); // what the halves exchanged is used up
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                vec4 w;
                [[unroll]] for (uint t = 0u; t < MINE; t++) w[t] = round13(exp2_(sub(s[i][t], m[t])));
                weight[at_weight + (lx + 16u * i) * 2u] = mix(vec4(0.0), w, lessThan(uvec4(from + lx + 16u * i), live));
            }
            meet();
            // Values of dimensions 8 (lx + 16 k) .. + 7, and the sum of the weights of a token:
            // of positions that all four tokens see, then of the few others one by one, as a
            // value that is no number must not reach tokens that do not see it.
            uint seen = bounds.y > from ? min(bounds.y - from, positions_) : 0u, by_all = min(bounds.x > from ? bounds.x - from : 0u, seen) / 4u * 4u;
            vec4 p[ROUNDS][MINE][2];
            float l = 0.0;
            [[unroll]] for (uint k = 0u; k < ROUNDS; k++) {
                uint eight = min(lx + 16u * k, EIGHTS - 1u);
                [[unroll]] for (uint t = 0u; t < MINE; t++) p[k][t][0] = p[k][t][1] = vec4(0.0);
#ifndef QUANTIZED
                if (k > 0u) {
                    at = (v_base + value_word(page, head, 0u, eight * 8u)) / 4u;
                    [[unroll]] for (uint j = 0u; j < 4u; j++) next[j] = cache[at + min(j, last_) * EIGHTS];
                }
#endif
                [[dont_unroll]] for (uint j0 = 0u; j0 < by_all; j0 += 4u) {
                    vec4 v[4][2];
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
#ifdef QUANTIZED
                        eight_of(value_at(v_base, page, head, min(j0 + j, positions_ - 1u), eight), eight, VALUE_BITS, v[j][0], v[j][1]);
#else
                        v[j][0] = four_of(next[j].x, next[j].y);
                        v[j][1] = four_of(next[j].z, next[j].w);
                        next[j] = cache[at + min(j0 + 4u + j, last_) * EIGHTS];
#endif
                    }
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        uint row = at_weight + (j0 + j) * 2u;
                        vec4 w = weight[row];
                        if (k == 0u) l = add(l, weight[row][lx % 4u]);
                        [[unroll]] for (uint t = 0u; t < MINE; t++) add_value(p[k][t], w[t], v[j]);
                    }
                }
                [[dont_unroll]] for (uint j = by_all; j < seen; j++) {
                    vec4 v[2], w = weight[at_weight + j * 2u];
#ifdef QUANTIZED
                    eight_of(value_at(v_base, page, head, j, eight), eight, VALUE_BITS, v[0], v[1]);
#else
                    uvec4 u = cache[at + j * EIGHTS];
                    v[0] = four_of(u.x, u.y);
                    v[1] = four_of(u.z, u.w);
#endif
                    if (k == 0u) l = add(l, weight[at_weight + j * 2u][lx % 4u]);
                    [[unroll]] for (uint t = 0u; t < MINE; t++) if (from + j < live[t]) add_value(p[k][t], w[t], v);
                }
            }
            if (lx < MINE) {
                exponent[side][mine + lx] = m[lx];
                sum_[side][mine + lx] = tidy(l);
            }
            Join step_[2][2];
            [[unroll]] for (uint k = 0u; k < ROUNDS; k++) {
                barrier(); // all weights are used up, or what was exchanged
                [[unroll]] for (uint t = 0u; t < 2u; t++) [[unroll]] for (uint e = 0u; e < 2u; e++)
                    weight[(2u * t + e) * 128u + lane] = side == 0u ? p[k][2u + t][e] : p[k][t][e];
                barrier();
                [[unroll]] for (uint t = 0u; t < 2u; t++) {
                    uint token = mine + 2u * side + t, its = side == 0u ? live[t] : live[2u + t];
                    [[unroll]] for (uint a = 0u; a < 2u; a++) {
                        if ((c0 + a) * PAGE >= its) continue;
                        bool start = c0 + a == 0u;
                        if (k == 0u) {
                            join_next(join[t], start, exponent[a][token], sum_[a][token]);
                            step_[t][a] = join[t];
                        }
                        [[unroll]] for (uint e = 0u; e < 2u; e++) {
                            vec4 own = side == 0u ? p[k][t][e] : p[k][2u + t][e];
                            vec4 part = a == side ? own : weight[(2u * t + e) * 128u + (lane ^ 64u)];
                            [[unroll]] for (uint x = 0u; x < 4u; x++)
                                o[t][k][e][x] = join_value(step_[t][a], start, o[t][k][e][x], tidy(part[x]));
                        }
                    }
                }
            }
        }
        [[unroll]] for (uint t = 0u; t < 2u; t++) {
            uint token = mine + 2u * side + t;
            if (token < first || token >= end) continue;
            float r = recip(join[t].l);
            [[unroll]] for (uint k = 0u; k < ROUNDS; k++) {
                uint eight = lx + 16u * k;
                if (eight >= EIGHTS) break;
                [[unroll]] for (uint e = 0u; e < 2u; e++) {
                    vec4 v = o[t][k][e];
                    y[(((t0 + token) * heads + h) * HEAD_DIM) / 4u + eight * 2u + e] =
                        vec4(tidy(mul(v.x, r)), tidy(mul(v.y, r)), tidy(mul(v.z, r)), tidy(mul(v.w, r)));
                }
            }
        }
        first = end;
    }
}
