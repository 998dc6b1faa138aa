// Products of packed Q2_0 weights (q2_0.glsl) on matrix instructions of warpgroups.
#include "wgmma.cuh"

#define GROUP 32u // of rows, whose quads lie together

struct Push { u32 rows, n, nb, row0, stride; };
struct Spec { u32 lanes, blocks, share; };

// Where tile i begins. Tiles of near numbers share rows and tokens: they are all tokens of
// 16 tiles of rows, then of the next 16.
struct Tile { u32 row, token; };
DEVICE Tile tile_of(const Push &p, u32 rows, u32 tokens, u32 i) {
    u32 across = (p.rows + rows - 1) / rows, deep = (p.n + tokens - 1) / tokens;
    u32 band = i / (16 * deep) * 16, at = i % (16 * deep), wide = min(across - band, 16);
    return {(band + at % wide) * rows, at / wide * tokens};
}
