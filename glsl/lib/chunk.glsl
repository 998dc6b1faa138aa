// Attention of one query head over one chunk (= page) of positions, as the twin
// has it (runtime/ref/attention.go): dots over the head in order, the chunk's
// exponent, rounded weights, sums in order of positions. LOCAL invocations.
shared float q_row[256];
shared float score[PAGE];

struct Chunk {
    float e; // exponent: the weights are relative to 2^e
    float l; // sum of the weights
};

// Keys 0..count-1 of the page against q_row.
Chunk chunk_scores(uint page, uint head, uint count) {
    uint lane = gl_LocalInvocationIndex;
    barrier();
    for (uint j = lane; j < count; j += LOCAL) {
        float s = 0.0;
        for (uint d = 0u; d < HEAD_DIM; d += 2u) {
            vec2 k = f32_of(cache[key_word(page, head, j, d)]);
            s = add(s, mul(q_row[d], k.x));
            s = add(s, mul(q_row[d + 1u], k.y));
        }
        score[j] = s;
    }
    barrier();
    Chunk c;
    float m = score[0];
    for (uint j = 1u; j < count; j++) m = score[j] > m ? score[j] : m;
    c.e = roundEven(m);
    barrier();
    for (uint j = lane; j < count; j += LOCAL) score[j] = round13(exp2_(sub(score[j], c.e)));
    barrier();
    c.l = 0.0;
    for (uint j = 0u; j < count; j++) c.l = add(c.l, score[j]);
    return c;
}

// Dimension d of the weighted sum of values, relative to 2^e.
float chunk_value(uint v_base, uint page, uint head, uint d, uint count) {
    float o = 0.0;
    for (uint j = 0u; j < count; j++) {
        vec2 v = f32_of(cache[v_base + value_word(page, head, j, d & ~1u)]);
        o = add(o, mul(score[j], (d & 1u) == 0u ? v.x : v.y));
    }
    return tidy(o);
}
