// Attention of one query head over one chunk (= page) of positions, as the twin
// has it (runtime/ref/attention.go): dots over the head in order, the chunk's
// exponent, rounded weights, sums in order of positions. LOCAL invocations; each
// takes PAGE / LOCAL positions of the scores, then every LOCAL-th eight
// dimensions of the values.
const uint EIGHTS = HEAD_DIM / 8u;
shared vec4 q_row[64];
shared float score[PAGE];

float dot8(float s, uint at, uvec4 k) {
    vec4 a = q_row[at], b = q_row[at + 1u];
    vec2 k0 = f32_of(k.x), k1 = f32_of(k.y), k2 = f32_of(k.z), k3 = f32_of(k.w);
    s = mac(s, a.x, k0.x);
    s = mac(s, a.y, k0.y);
    s = mac(s, a.z, k1.x);
    s = mac(s, a.w, k1.y);
    s = mac(s, b.x, k2.x);
    s = mac(s, b.y, k2.y);
    s = mac(s, b.z, k3.x);
    return mac(s, b.w, k3.y);
}

// Exponent and sum of the weights of positions 0..count-1 of the page; the
// weights stay in score.
void chunk_scores(uint page, uint head, uint count, out float e, out float l) {
    const uint EACH = PAGE / LOCAL;
    uint lane = gl_LocalInvocationIndex, at = key_word(page, head, lane, 0u) / 4u;
    float s[EACH];
    [[unroll]] for (uint i = 0u; i < EACH; i++) s[i] = 0.0;
    barrier();
    for (uint d = 0u; d < EIGHTS; d++, at += PAGE)
        [[unroll]] for (uint i = 0u; i < EACH; i++) s[i] = dot8(s[i], 2u * d, cache[at + i * LOCAL]);
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
    uint at = (v_base + value_word(page, head, 0u, eight * 8u)) / 4u;
    for (uint j = 0u; j < count; j++, at += EIGHTS) {
        uvec4 v = cache[at];
        float p = score[j];
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec2 two = f32_of(v[i]);
            o[2u * i] = mac(o[2u * i], p, two.x);
            o[2u * i + 1u] = mac(o[2u * i + 1u], p, two.y);
        }
    }
    [[unroll]] for (uint i = 0u; i < 8u; i++) o[i] = tidy(o[i]);
}

void load_query(uint at) {
    for (uint i = gl_LocalInvocationIndex; i < HEAD_DIM / 4u; i += LOCAL) q_row[i] = q[at / 4u + i];
}
