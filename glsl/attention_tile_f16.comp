#version 450
#include "tern.glsl"
#include "cache.glsl"
// Attention for many queries: 16 tokens of one head a workgroup, 2 tokens x 4
// positions and then 2 tokens x 8 dimensions an invocation, in the orders of
// runtime/ref/attention.go
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

const uint TOKENS = 16u, MANY = 128u / TOKENS, EIGHTS = HEAD_DIM / 8u;
const uint MINE = (EIGHTS + 15u) / 16u; // eights of dimensions of an invocation
shared vec4 query[TOKENS * HEAD_DIM / 4u]; // [dim / 4][token]
shared vec2 weight[PAGE * TOKENS / 2u];    // [position][token]
shared float exponent[TOKENS], sum_[TOKENS], top[128];
shared uint pos[TOKENS], table[TOKENS];

float weight_at(uint j, uint t) { return weight[j * (TOKENS / 2u) + t / 2u][t % 2u]; }

void main() {
    uint h = group_x(), t0 = gl_WorkGroupID.y * TOKENS, lane = gl_LocalInvocationIndex;
    uint heads = KV_HEADS * SHARE, head = h / SHARE, count = min(TOKENS, n - t0);
    uint lx = lane % 16u, ly = lane / 16u; // positions and dimensions; tokens
    if (lane < TOKENS) {
        pos[lane] = lane < count ? batch[positions + t0 + lane] : 0u;
        table[lane] = lane < count ? batch[tables + t0 + lane] : 0xffffffffu;
    }
    for (uint i = lane; i < TOKENS * HEAD_DIM / 4u; i += 128u) {
        uint d = i % (HEAD_DIM / 4u), t = i / (HEAD_DIM / 4u);
        query[d * TOKENS + t] = q[(min(t0 + t, n - 1u) * q_stride + h * HEAD_DIM) / 4u + d];
    }
    barrier();
    // Runs of tokens of one sequence, one after the other; usually there is one.
    for (uint first = 0u; first < count;) {
        uint end = first, last = 0u, pages = table[first];
        for (; end < count && table[end] == pages; end++) last = max(last, pos[end]);
        Join join[2];
        vec4 o[2][MINE][2];
        [[unroll]] for (uint i = 0u; i < 2u; i++) join[i] = Join(0.0, 1.0, 0.0, 0.0);
        for (uint c = 0u; c * PAGE <= last; c++) {
            uint page = batch[pages + c];
            // Scores of tokens 2 ly, + 1 at positions lx + 16 i.
            float s[2][4];
            [[unroll]] for (uint t = 0u; t < 2u; t++) [[unroll]] for (uint i = 0u; i < 4u; i++) s[t][i] = 0.0;
#ifndef QUANTIZED
            uint at = key_word(page, head, lx, 0u) / 4u;
            uvec4 k[4], next[4];
            [[unroll]] for (uint i = 0u; i < 4u; i++) next[i] = cache[at + 16u * i];
#endif
            [[dont_unroll]] for (uint d = 0u; d < EIGHTS; d++) {
#ifdef QUANTIZED
                vec4 k[4][2];
                [[unroll]] for (uint i = 0u; i < 4u; i++) eight_of(key_at(page, head, lx + 16u * i, d), d, KEY_BITS, k[i][0], k[i][1]);
#else
                at += d + 1u < EIGHTS ? PAGE : 0u;
                [[unroll]] for (uint i = 0u; i < 4u; i++) {
                    k[i] = next[i];
                    next[i] = cache[at + 16u * i];
                }
#endif
                [[unroll]] for (uint e = 0u; e < 2u; e++) {
                    vec4 key[4];
#ifdef QUANTIZED
                    [[unroll]] for (uint i = 0u; i < 4u; i++) key[i] = k[i][e];
#else
                    [[unroll]] for (uint i = 0u; i < 4u; i++) key[i] = vec4(f32_of(k[i][2u * e]), f32_of(k[i][2u * e + 1u]));
#endif
                    [[unroll]] for (uint t = 0u; t < 2u; t++) {
                        vec4 v = query[(2u * d + e) * TOKENS + 2u * ly + t];
                        [[unroll]] for (uint i = 0u; i < 4u; i++)
                            s[t][i] = mac(mac(mac(mac(s[t][i], v.x, key[i].x), v.y, key[i].y), v.z, key[i].z), v.w, key[i].w);
                    }
                }
            }
            barrier(); // the weights of the chunk before are used up
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                weight[(lx + 16u * i) * (TOKENS / 2u) + ly] = vec2(s[0][i], s[1][i]);
            barrier();
            // MANY invocations a token: its exponent and weights.
            const uint SPAN = PAGE / MANY;
            uint t = lane / MANY, part = lane % MANY;
            uint live = t >= first && t < end && pos[t] >= c * PAGE ? min(PAGE, pos[t] + 1u - c * PAGE) : 0u;
            float m = weight_at(0u, t);
            [[unroll]] for (uint j = part * SPAN; j < part * SPAN + SPAN; j++) {
                float v = weight_at(j, t);
                m = j < live && v > m ? v : m;
            }
            top[lane] = m;
            barrier();
            [[unroll]] for (uint i = 0u; i < MANY; i++) m = top[MANY * t + i] > m ? top[MANY * t + i] : m;
            float e = tidy(roundEven(m)); // +0, not -0
            [[unroll]] for (uint j = part * SPAN; j < part * SPAN + SPAN; j++) {
                float v = j < live ? round13(exp2_(sub(weight_at(j, t), e))) : 0.0;
                weight[j * (TOKENS / 2u) + t / 2u][t % 2u] = v;
            }
            if (part == 0u) exponent[t] = e;
            barrier();
            if (lane < TOKENS) {
                float l = 0.0;
                for (uint j0 = 0u; j0 < PAGE; j0 += 8u) {
                    float w[8];
                    [[unroll]] for (uint j = 0u; j < 8u; j++) w[j] = weight_at(j0 + j, lane);
                    [[unroll]] for (uint j = 0u; j < 8u; j++) l = add(l, w[j]);
                }
                sum_[lane] = tidy(l);
            }
            // Values of tokens 2 ly, + 1, dimensions 8 (lx + 16 k) .. + 7.
            uint positions_ = min(PAGE, last + 1u - c * PAGE);
            vec4 p[2][MINE][2];
            [[unroll]] for (uint i = 0u; i < 2u; i++) [[unroll]] for (uint k = 0u; k < MINE; k++) p[i][k][0] = p[i][k][1] = vec4(0.0);
            [[unroll]] for (uint k = 0u; k < MINE; k++) {
                uint eight = lx + 16u * k;
                if (eight >= EIGHTS) break;
#ifndef QUANTIZED
                uint at = (v_base + value_word(page, head, 0u, eight * 8u)) / 4u;
#endif
                [[dont_unroll]] for (uint j0 = 0u; j0 < positions_; j0 += 4u) { // weights beyond are +0
                    vec4 v[4][2];
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        uint near = min(j0 + j, positions_ - 1u);
#ifdef QUANTIZED
                        eight_of(value_at(v_base, page, head, near, eight), eight, VALUE_BITS, v[j][0], v[j][1]);
#else
                        uvec4 u = cache[at + near * EIGHTS];
                        v[j][0] = vec4(f32_of(u.x), f32_of(u.y));
                        v[j][1] = vec4(f32_of(u.z), f32_of(u.w));
#endif
                    }
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        vec2 w = weight[(j0 + j) * (TOKENS / 2u) + ly];
                        [[unroll]] for (uint i = 0u; i < 2u; i++) {
                            p[i][k][0] = fma(vec4(w[i]), v[j][0], p[i][k][0]); // exact products
                            p[i][k][1] = fma(vec4(w[i]), v[j][1], p[i][k][1]);
                        }
                    }
                }
            }
            barrier();
            [[unroll]] for (uint i = 0u; i < 2u; i++) {
                uint t = 2u * ly + i;
                if (t >= first && t < end && pos[t] >= c * PAGE) {
                    join_next(join[i], c == 0u, exponent[t], sum_[t]);
                    [[unroll]] for (uint k = 0u; k < MINE; k++)
                        [[unroll]] for (uint e = 0u; e < 8u; e++)
                            o[i][k][e / 4u][e % 4u] = join_value(join[i], c == 0u, o[i][k][e / 4u][e % 4u], tidy(p[i][k][e / 4u][e % 4u]));
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < 2u; i++) {
            uint t = 2u * ly + i;
            if (t < first || t >= end) continue;
            float r = recip(join[i].l);
            [[unroll]] for (uint k = 0u; k < MINE; k++) {
                uint eight = lx + 16u * k;
                if (eight >= EIGHTS) break;
                [[unroll]] for (uint e = 0u; e < 2u; e++) {
                    vec4 v = o[i][k][e];
                    y[(((t0 + t) * heads + h) * HEAD_DIM) / 4u + eight * 2u + e] =
                        vec4(tidy(mul(v.x, r)), tidy(mul(v.y, r)), tidy(mul(v.z, r)), tidy(mul(v.w, r)));
                }
            }
        }
        first = end;
    }
}
