// Base 3: four bytes a word, five digits a byte. Even and odd bytes take lanes of 16
// bits: three times a byte has the digit above bit 8 and the next byte below.
uint trit_next(inout uvec2 p) {
    p = (p & 0x00ff00ffu) * 3u;
    uvec2 digit = (p >> 8) & 0x00030003u;
    return digit.x | (digit.y << 8);
}

void trits(inout Block w, uint words[3], uint tail) {
    [[unroll]] for (uint i = 0u; i < 3u; i++) {
        uvec2 p = uvec2(words[i], words[i] >> 8);
        [[unroll]] for (uint n = 0u; n < 5u; n++) w.codes[5u * i + n] = less(trit_next(p), 1u);
    }
    uint last = 0u;
    [[unroll]] for (uint n = 0u; n < 4u; n++) {
        tail = (tail & 0xffu) * 3u;
        last |= (tail >> 8) << (8u * n);
    }
    w.codes[15] = less(last, 1u);
}
