#version 450
#include "tern.glsl"
#include "cache.glsl"
// Attention over one chunk each, for GPUs: 64 positions, then 64 pairs of
// dimensions side by side; two halves of the workgroup take every second head
// that reads the kv head. Orders as in runtime/ref/attention.go; weights beyond
// the last position are +0 and change no sum.
layout(local_size_x = 128) in;
layout(constant_id = 3) const uint SHARE = 1u;
layout(binding = 0) readonly buffer Q { vec4 q[]; };
layout(binding = 1) readonly buffer Cache { uvec4 cache[]; };
layout(binding = 1) readonly buffer CacheWords { uint cache_words[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint chunks, q_stride, positions, tables, v_base; };

const uint EIGHTS = HEAD_DIM / 8u, HEADS = (SHARE + 1u) / 2u; // heads of a half
const uint WAY = 16u; // positions whose values are on their way at once
shared vec4 rows[SHARE * HEAD_DIM / 4u];
shared vec4 score[2u * HEADS * PAGE / 4u]; // [head][position]

void main() {
    uint c = group_x(), t = gl_WorkGroupID.y / KV_HEADS, head = gl_WorkGroupID.y % KV_HEADS;
    uint lane = gl_LocalInvocationIndex, j = lane % PAGE, side = lane / PAGE;
    uint heads = KV_HEADS * SHARE, count = batch[positions + t] + 1u;
    if (c * PAGE >= count) return;
    uint page = batch[batch[tables + t] + c], live = min(PAGE, count - c * PAGE);
    uint q_at = (t * q_stride + head * SHARE * HEAD_DIM) / 4u;
    for (uint i = lane; i < SHARE * HEAD_DIM / 4u; i += 128u) rows[i] = q[q_at + i];
    barrier();
    float s[HEADS];
    [[unroll]] for (uint i = 0u; i < HEADS; i++) s[i] = 0.0;
    uint at = key_word(page, head, j, 0u) / 4u;
    if (j < live) [[unroll]] for (uint d = 0u; d < EIGHTS; d++) {
        uvec4 k = cache[at + d * PAGE];
        vec2 k0 = f32_of(k.x), k1 = f32_of(k.y), k2 = f32_of(k.z), k3 = f32_of(k.w);
        [[unroll]] for (uint i = 0u; i < HEADS; i++) {
            uint row = min(2u * i + side, SHARE - 1u) * (HEAD_DIM / 4u) + 2u * d;
            vec4 a = rows[row], b = rows[row + 1u];
            s[i] = mac(mac(mac(mac(s[i], a.x, k0.x), a.y, k0.y), a.z, k1.x), a.w, k1.y);
            s[i] = mac(mac(mac(mac(s[i], b.x, k2.x), b.y, k2.y), b.z, k3.x), b.w, k3.y);
        }
    }
    [[unroll]] for (uint i = 0u; i < HEADS; i++)
        score[((2u * i + side) * PAGE + j) / 4u][j % 4u] = j < live ? s[i] : -uintBitsToFloat(INF_BITS);
    barrier();
    float e[HEADS], l[HEADS];
    [[unroll]] for (uint i = 0u; i < HEADS; i++) {
        float m = score[(2u * i + side) * (PAGE / 4u)].x;
        [[unroll]] for (uint k = 0u; k < PAGE / 4u; k++) {
            vec4 v = score[(2u * i + side) * (PAGE / 4u) + k];
            m = v.x > m ? v.x : m;
            m = v.y > m ? v.y : m;
            m = v.z > m ? v.z : m;
            m = v.w > m ? v.w : m;
        }
        e[i] = tidy(roundEven(m));
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < HEADS; i++)
        score[((2u * i + side) * PAGE + j) / 4u][j % 4u] = j < live ? round13(exp2_(sub(s[i], e[i]))) : 0.0;
    barrier();
    [[unroll]] for (uint i = 0u; i < HEADS; i++) {
        l[i] = 0.0;
        [[unroll]] for (uint k = 0u; k < PAGE / 4u; k++) {
            vec4 v = score[(2u * i + side) * (PAGE / 4u) + k];
            l[i] = add(add(add(add(l[i], v.x), v.y), v.z), v.w);
        }
    }
    for (uint d = 2u * j; d < HEAD_DIM; d += 2u * PAGE) {
        vec2 o[HEADS];
        [[unroll]] for (uint i = 0u; i < HEADS; i++) o[i] = vec2(0.0);
        uint word = v_base + value_word(page, head, 0u, d);
        for (uint k = 0u; k < (live + WAY - 1u) / WAY; k++) {
            vec2 v[WAY];
            [[unroll]] for (uint n = 0u; n < WAY; n++) {
                uint p = min(WAY * k + n, live - 1u); // weights beyond are +0
                v[n] = f32_of(cache_words[word + p * (HEAD_DIM / 2u)]);
            }
            [[unroll]] for (uint i = 0u; i < HEADS; i++)
                [[unroll]] for (uint m = 0u; m < WAY / 4u; m++) {
                    vec4 w = score[(2u * i + side) * (PAGE / 4u) + k * (WAY / 4u) + m];
                    [[unroll]] for (uint n = 0u; n < 4u; n++) o[i] = fma(vec2(w[n]), v[4u * m + n], o[i]); // exact products
                }
        }
        [[unroll]] for (uint i = 0u; i < HEADS; i++) {
            uint g = 2u * i + side;
            if (g < SHARE) {
                uint out_at = ((t * heads + head * SHARE + g) * chunks + c) * (HEAD_DIM + 2u) + d;
                y[out_at] = tidy(o[i].x);
                y[out_at + 1u] = tidy(o[i].y);
            }
        }
    }
    if (j == 0u) {
        [[unroll]] for (uint i = 0u; i < HEADS; i++) {
            uint g = 2u * i + side;
            if (g < SHARE) {
                uint out_at = ((t * heads + head * SHARE + g) * chunks + c) * (HEAD_DIM + 2u) + HEAD_DIM;
                y[out_at] = e[i];
                y[out_at + 1u] = tidy(l[i]);
            }
        }
    }
}
