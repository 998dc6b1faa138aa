// Packed Q2_0 weights (runtime/op/weights.go): rows in groups of 32; one uvec4
// of codes a block of 64, code i of word j at bits 2i is element 16j + i;
// four half scales a uvec2, one scale for 2^SHARE blocks.
#ifndef SHARE_ID
#define SHARE_ID 3
#endif
layout(constant_id = SHARE_ID) const uint SHARE = 0u;

const uint GROUP = 32u;
const uint SLICE = 8u; // blocks whose terms are summed before they join the total

#define Q2_0_CODES(bind)  layout(binding = bind) readonly buffer Codes { uvec4 codes[]; };
#define Q2_0_SCALES(bind) layout(binding = bind) readonly buffer Scales { uvec2 scales[]; };
#define Q2_0_CODE(row, nb, b)  codes[((row) / GROUP * (nb) + (b)) * GROUP + (row) % GROUP]
#define Q2_0_FOURS(nb) ((((nb) - 1u >> SHARE) + 4u) / 4u) // uvec2s of scales in a row
#define Q2_0_SCALE(row, nb, b) q2_0_half(scales[((row) / GROUP * Q2_0_FOURS(nb) + ((b) >> SHARE) / 4u) * GROUP + (row) % GROUP], ((b) >> SHARE) % 4u)

float q2_0_half(uvec2 four, uint i) {
    vec2 d = f32_of(i < 2u ? four.x : four.y);
    return (i & 1u) == 0u ? d.x : d.y;
}

float q2_0_value(uint word, uint i) { return float(int((word >> (2u * i)) & 3u) - 1); }
