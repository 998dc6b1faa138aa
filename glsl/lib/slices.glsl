// main of a product whose slice_sums gives the sums of a slice of a row for TOKENS
// tokens: groups of 32 rows of BLOCKS blocks, LANES slices at a time.
#if LANES > 1
shared float part[LANES * TOKENS * GROUP];
#endif

void main() {
    uint lane = gl_LocalInvocationIndex / GROUP, r = gl_LocalInvocationIndex % GROUP;
    uint row = group_x() * GROUP + r, t0 = gl_WorkGroupID.y * TOKENS;
    uint slices = (BLOCKS + SLICE - 1u) / SLICE;
    uint at = weight_row(row, t0);
    if (row - r >= rows || at - r >= held) return;
    float total[TOKENS], sum[TOKENS];
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = 0.0;
    for (uint slice = 0u; slice < slices; slice += LANES) {
        slice_sums(at, slice + lane, t0, sum); // no blocks, and no use of it, past the end
#if LANES > 1
        barrier();
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) part[(lane * TOKENS + t) * GROUP + r] = sum[t];
        barrier();
        if (lane == 0u)
            for (uint i = 0u; i < min(LANES, slices - slice); i++)
                [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = add(total[t], part[(i * TOKENS + t) * GROUP + r]);
#else
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = add(total[t], sum[t]);
#endif
    }
    if (lane != 0u || row >= rows) return;
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) store(row, t0 + t, tidy(total[t]));
}
