// What a product of LANES slices at a time (slices.glsl) reads and writes: an
// ordinary one, or, with EXPERTS, one whose rows of results have each an expert of
// their own, whose numbers lie behind the results (runtime/ref/experts.go). WIDTH is
// the name of the push constant that tells the length of a row.
#ifdef EXPERTS
layout(binding = Y_BINDING) buffer Y { uint y[]; };
layout(push_constant) uniform P { uint rows, n, WIDTH, first, held, share, ids; };
uint weight_row(uint row, uint t) { return y[ids + t] * rows + row - first; }
uint act_row(uint t) { return t / share; }
void store(uint row, uint t, float v) { y[t * rows + row] = floatBitsToUint(v); }
#else
layout(binding = Y_BINDING) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rows, n, WIDTH, row0, stride; };
#define held rows
uint weight_row(uint row, uint t) { return row; }
uint act_row(uint t) { return min(t, n - 1u); }
void store(uint row, uint t, float v) { if (t < n) y[t * stride + row0 + row] = v; }
#endif
