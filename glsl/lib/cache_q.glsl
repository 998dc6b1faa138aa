// The paged cache of one layer with elements of 16, 8 or 4 bits: runtime/ref/cache_q.go
const uint PAGE = 64u;

layout(constant_id = 1) const uint HEAD_DIM = 128u;
layout(constant_id = 2) const uint KV_HEADS = 1u;
layout(constant_id = 4) const uint KEY_BITS = 8u;
layout(constant_id = 5) const uint VALUE_BITS = 8u;

// First word of the keys, or values, of a head in a page, and of their scales.
uint side_at(uint page, uint head, uint bits) {
    return (page * KV_HEADS + head) * (bits == 16u ? 32u * HEAD_DIM : 2u * HEAD_DIM * bits + HEAD_DIM);
}
uint scales_at(uint side, uint bits) { return side + 2u * HEAD_DIM * bits; }

// First word of eight elements of a key or value, and the word of their scale.
uvec2 key_at(uint page, uint head, uint pos, uint eight) {
    uint side = side_at(page, head, KEY_BITS);
    return uvec2(side + (eight * PAGE + pos) * (KEY_BITS / 4u), scales_at(side, KEY_BITS) + eight / 8u * PAGE + pos);
}
uvec2 value_at(uint v_base, uint page, uint head, uint pos, uint eight) {
    uint side = v_base + side_at(page, head, VALUE_BITS);
    return uvec2(side + pos * (HEAD_DIM * VALUE_BITS / 32u) + eight * (VALUE_BITS / 4u), scales_at(side, VALUE_BITS) + pos * (HEAD_DIM / 64u) + eight / 8u);
}
