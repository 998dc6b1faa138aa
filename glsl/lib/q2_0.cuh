// Products of packed Q2_0 weights (q2_0.glsl) on matrix instructions of warpgroups.
#include "wgmma.cuh"

#define GROUP 32u // of rows, whose quads lie together

struct Push { u32 rows, n, nb, row0, stride; };
struct Spec { u32 lanes, blocks, share; };

// Where the tile of a workgroup begins. Workgroups that run at a time share rows and tokens:
// they take all tokens of 16 tiles of rows, then of the next 16.
struct Tile { u32 row, token; };
DEVICE Tile tile_of(const Push &p, u32 rows, u32 tokens) {
    u32 across = (p.rows + rows - 1) / rows, deep = (p.n + tokens - 1) / tokens, i = group_y() * across + group_x();
    u32 band = i / (16 * deep) * 16, at = i % (16 * deep), wide = min(across - band, 16);
    return {(band + at % wide) * rows, at / wide * tokens};
}
