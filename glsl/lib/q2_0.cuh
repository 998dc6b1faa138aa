// Products of packed Q2_0 weights (q2_0.glsl) on matrix instructions of warpgroups.
#include "wgmma.cuh"

#define GROUP 32u // of rows, whose quads lie together

struct Push { u32 rows, n, nb, row0, stride; };
struct Spec { u32 lanes, blocks, share; };
