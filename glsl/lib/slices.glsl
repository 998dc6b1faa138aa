// main of a product whose slice_sums gives the sums of a slice of a row for TOKENS
// tokens: groups of 32 rows of BLOCKS blocks, LANES slices at a time.
#if LANES > 1
shared float part[LANES * TOKENS * GROUP];
#endif

void main() {
    uint lane = gl_LocalInvocationIndex / GROUP, r = gl_LocalInvocationIndex % GROUP;
    uint row = group_x() * GROUP + r, t0 = gl_WorkGroupID.y * TOKENS;
    uint slices = (BLOCKS + SLICE - 1u) / SLICE;
    if (row - r >= rows) return;
    float total[TOKENS], sum[TOKENS];
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = 0.0;
    for (uint first = 0u; first < slices; first += LANES) {
        slice_sums(row, first + lane, t0, sum); // no blocks, and no use of it, past the end
#if LANES > 1
        barrier();
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) part[(lane * TOKENS + t) * GROUP + r] = sum[t];
        barrier();
        if (lane == 0u)
            for (uint i = 0u; i < min(LANES, slices - first); i++)
                [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = add(total[t], part[(i * TOKENS + t) * GROUP + r]);
#else
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) total[t] = add(total[t], sum[t]);
#endif
    }
    if (lane != 0u || row >= rows) return;
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        if (t0 + t < n) y[(t0 + t) * stride + row0 + row] = tidy(total[t]);
}
