// c plus the sum of four products of signed bytes.
int dot4(int c, uint a, uint b) {
#ifdef DOT
    return c + dotPacked4x8EXT(int(a), int(b));
#else
    [[unroll]] for (int i = 0; i < 32; i += 8) c += bitfieldExtract(int(a), i, 8) * bitfieldExtract(int(b), i, 8);
    return c;
#endif
}

// The same with unsigned bytes in a.
int dot4_unsigned(int c, uint a, uint b) {
#ifdef DOT
    return c + dotPacked4x8EXT(a, int(b));
#else
    [[unroll]] for (int i = 0; i < 32; i += 8) c += int(bitfieldExtract(a, i, 8)) * bitfieldExtract(int(b), i, 8);
    return c;
#endif
}
