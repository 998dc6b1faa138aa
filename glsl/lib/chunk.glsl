// Attention of one query head over one chunk (= page) of positions, as the twin
// has it (runtime/ref/attention.go): dots over the head in order, the chunk's
// exponent, rounded weights, sums in order of positions. LOCAL invocations; each
// takes PAGE / LOCAL positions of the scores, then every LOCAL-th eight
// dimensions of the values.
const uint EIGHTS = HEAD_DIM / 8u;
shared vec4 q_row[64];
shared float score[PAGE];

#ifdef QUANTIZED
#include "chunk_q.glsl"
#endif

float dot8(float s, uint at, vec4 ka, vec4 kb) {
    vec4 a = q_row[at], b = q_row[at + 1u];
    [[unroll]] for (uint i = 0u; i < 4u; i++) s = mac(s, a[i], ka[i]);
    [[unroll]] for (uint i = 0u; i < 4u; i++) s = mac(s, b[i], kb[i]);
    return s;
}

// Exponent and sum of the weights of positions 0..count-1 of the page; the
// weights stay in score.
void chunk_scores(uint page, uint head, uint count, out float e, out float l) {
    const uint EACH = PAGE / LOCAL;
    uint lane = gl_LocalInvocationIndex;
    float s[EACH];
    [[unroll]] for (uint i = 0u; i < EACH; i++) s[i] = 0.0;
    barrier();
#ifdef QUANTIZED
    for (uint d = 0u; d < EIGHTS; d++) {
        [[unroll]] for (uint i = 0u; i < EACH; i++) {
            vec4 a, b;
            eight_of(key_at(page, head, lane + i * LOCAL, d), d, KEY_BITS, a, b);
            s[i] = dot8(s[i], 2u * d, a, b);
        }
    }
#else
    uint at = key_word(page, head, lane, 0u) / 4u;
    for (uint d = 0u; d < EIGHTS; d++, at += PAGE) {
        [[unroll]] for (uint i = 0u; i < EACH; i++) {
            uvec4 k = cache[at + i * LOCAL];
            s[i] = dot8(s[i], 2u * d, vec4(f32_of(k.x), f32_of(k.y)), vec4(f32_of(k.z), f32_of(k.w)));
        }
    }
#endif
    [[unroll]] for (uint i = 0u; i < EACH; i++) score[lane + i * LOCAL] = s[i];
    barrier();
    float m = score[0];
    for (uint j = 1u; j < count; j++) m = score[j] > m ? score[j] : m;
    e = tidy(roundEven(m)); // +0, not -0
    barrier();
    [[unroll]] for (uint i = 0u; i < EACH; i++) score[lane + i * LOCAL] = round13(exp2_(sub(s[i], e)));
    barrier();
    l = 0.0;
    for (uint j = 0u; j < count; j++) l = add(l, score[j]);
    l = tidy(l);
}

// Eight dimensions of the weighted sum of values, relative to 2^e.
void chunk_values(uint v_base, uint page, uint head, uint eight, uint count, out float o[8]) {
    [[unroll]] for (uint i = 0u; i < 8u; i++) o[i] = 0.0;
#ifdef QUANTIZED
    for (uint j = 0u; j < count; j++) {
        vec4 a, b;
        eight_of(value_at(v_base, page, head, j, eight), eight, VALUE_BITS, a, b);
#else
    uint at = (v_base + value_word(page, head, 0u, eight * 8u)) / 4u;
    for (uint j = 0u; j < count; j++, at += EIGHTS) {
        uvec4 v = cache[at];
        vec4 a = vec4(f32_of(v.x), f32_of(v.y)), b = vec4(f32_of(v.z), f32_of(v.w));
#endif
        float p = score[j];
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            o[i] = mac(o[i], p, a[i]);
            o[4u + i] = mac(o[4u + i], p, b[i]);
        }
    }
    [[unroll]] for (uint i = 0u; i < 8u; i++) o[i] = tidy(o[i]);
}

void load_query(uint at) {
    for (uint i = gl_LocalInvocationIndex; i < HEAD_DIM / 4u; i += LOCAL) q_row[i] = q[at / 4u + i];
}
