// Packed float weights (runtime/ref/float_weights.go): rows in groups of 32, blocks
// of 64 elements filled up with zeros. F16, BF16 or F32 is defined.
const uint GROUP = 32u;
const uint SLICE = 8u; // blocks whose terms are summed before they join the total

layout(binding = 0) readonly buffer Weights { uint weights[]; };

#ifdef F32
const uint PER_WORD = 1u;
#else
const uint PER_WORD = 2u;
#endif

// Word i of block b of a row.
uint weight_word(uint row, uint nb, uint b, uint i) {
    return weights[((row / GROUP * nb + b) * (64u / PER_WORD) + i) * GROUP + row % GROUP];
}

float weight(uint word, uint i) {
#ifdef F32
    return uintBitsToFloat(word);
#elif defined(F16)
    vec2 two = f32_of(word);
    return i == 0u ? two.x : two.y;
#else
    return uintBitsToFloat(i == 0u ? word << 16 : word & 0xffff0000u);
#endif
}

// Writes the part of a block that lies within the row's k elements to y[].
#define STORE_WEIGHTS(row, b, to) \
    for (uint i = 0u; i < min(64u, k - (b) * 64u); i++) \
        y[(to) + i] = weight(weight_word(row, (k + 63u) / 64u, b, i / PER_WORD), i % PER_WORD);
