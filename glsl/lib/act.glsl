// Activations of a matrix product, as a row of words. ACT picks the contract:
//   ACT_F32  word w = element w
//   ACT_F16  word w = elements 2w, 2w+1 as halves
//   ACT_I8   word w = elements 16(w/4) + w%4 + 4m, m = 0..3, as signed bytes:
//            the order in which (codes >> 2k) & 0x03030303 yields weights.
//            Block b of 64 elements of row t of n is block b * n + t in memory: what
//            tiles of many rows read lies together. After all blocks: a pair (scale,
//            sum of the integers) of each.
#define ACT_F32 0
#define ACT_F16 1
#define ACT_I8 2

#if ACT == ACT_F32
#define ACT_PER_WORD 1u
uint act_element(uint w, uint m) { return w; }
// s + t*x of a code's value and an activation, not fused: twice a large float is infinite.
float act_mac(float s, float t, float x) { return add(s, mul(t, x)); }
#elif ACT == ACT_F16
#define ACT_PER_WORD 2u
#define act_mac mac
uint act_element(uint w, uint m) { return 2u * w + m; }
#else
#define ACT_PER_WORD 4u
#define ACT_BLOCK(t, b) ((b) * n + (t))
uint act_element(uint w, uint m) { return (w & ~15u) * 4u + (w & 12u) * 4u + (w & 3u) + 4u * m; }
#endif

// Where block b of row t of n rows of nb blocks is.
#ifndef ACT_BLOCK
#define ACT_BLOCK(t, b) ((t) * nb + (b))
#endif

// The pair of the block at i of n rows of nb blocks in a[] (uvec4).
#define ACT_PAIR(i) act_pair(a[n * nb * 4u + (i) / 2u], (i))
uvec2 act_pair(uvec4 two, uint i) { return (i & 1u) == 0u ? two.xy : two.zw; }
