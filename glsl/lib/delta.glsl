// Rows of a gated delta net (runtime/ref/delta.go): the product's rows, then, behind
// all n of them, rows of outputs.
layout(constant_id = 1) const uint DIM = 128u;
layout(constant_id = 2) const uint KEYS = 1u;
layout(constant_id = 3) const uint VALUES = 1u;
const uint CHANNELS = (2u * KEYS + VALUES) * DIM;
const uint STRIDE = CHANNELS + VALUES * (DIM + 2u);

uint raw_row(uint t) { return t * STRIDE; }
uint out_row(uint n, uint t) { return n * STRIDE + t * CHANNELS; }
