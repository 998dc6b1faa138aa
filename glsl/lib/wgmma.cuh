// Products of a warpgroup (128 threads): 64 rows of 32 signed bytes in registers by N
// columns of 32 in shared memory, int32 sums, or of 16 halves, float sums. Of a warp's 16 rows a lane has row l / 4
// and row l / 4 + 8: four registers of four bytes at 4 (l % 4), of both rows at 0, then
// of both at 16. Of the sums it has columns 8 g + 2 (l % 4) and the next, of both rows.
//
// Sums live in registers that only the assembler names: a compiler that knew them would
// copy them while matrices are still being added.
#include "stages.cuh"

#ifdef __CUDA__
// Columns as rows of 64 bytes from at on, in swizzle of 64 bytes: part p of 16 bytes of
// row r is at p ^ (r / 2 % 4).
DEVICE u64 matrix_of(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | (u64)(512 >> 4) << 32 | 2ull << 62; }

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
DEVICE void wgmma_wait_but_last() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); } // for all groups but one

#define REGS_16(c) #c "0," #c "1," #c "2," #c "3," #c "4," #c "5," #c "6," #c "7," #c "8," #c "9," #c "10," #c "11," #c "12," #c "13," #c "14," #c "15"
#define REGS_32(c) REGS_16(c) "," #c "16," #c "17," #c "18," #c "19," #c "20," #c "21," #c "22," #c "23," #c "24," #c "25," #c "26," #c "27," \
                   #c "28," #c "29," #c "30," #c "31"
#define WGMMA(N, regs, a, i, x, p) asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" regs "}, {%0, %1, %2, %3}, %4, " #p ";" \
                                                ::"r"(a[i]), "r"(a[i + 1]), "r"(a[i + 2]), "r"(a[i + 3]), "l"(matrix_of(x)) : "memory")
// c = 64 rows of 64 bytes in a by N columns at x; DECLARE_SUMS and DECLARE_WGMMA come first.
#define DECLARE_SUMS(c, d, n) asm volatile(".reg .b32 " #c "<" #n ">, " #d "<" #n ">;") // two sets of n
#define DECLARE_WGMMA() asm volatile(".reg .pred none, all;\nsetp.ne.b32 none, 0, 0;\nsetp.eq.b32 all, 0, 0;")
#define MULTIPLY(N, regs, a, x) do { u32 x_ = (x); wgmma_fence(); WGMMA(N, regs, a, 0, x_, none); WGMMA(N, regs, a, 4, x_ + 32, all); wgmma_commit(); } while (0)
#define SUM_AS_FLOAT(f, c, i) asm volatile("cvt.rn.f32.s32 %0, " #c #i ";" : "=f"(f))

// The same for halves: a lane has two at 2 (l % 4), of both rows, then two at 8 + 2 (l % 4).
// Columns are rows of 128 bytes in swizzle of 128 bytes: part p of 16 bytes of row r is
// at p ^ (r % 8), from a multiple of 1024 bytes on.
DEVICE u64 halves_of(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }

#define REGS_64(c) REGS_32(c) "," #c "32," #c "33," #c "34," #c "35," #c "36," #c "37," #c "38," #c "39," #c "40," #c "41," #c "42," #c "43," #c "44," #c "45," #c "46," #c "47," \
                   #c "48," #c "49," #c "50," #c "51," #c "52," #c "53," #c "54," #c "55," #c "56," #c "57," #c "58," #c "59," #c "60," #c "61," #c "62," #c "63"
#define WGMMA_HALVES(N, regs, a, i, x, p) asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" regs "}, {%0, %1, %2, %3}, %4, " #p ", 1, 1, 0;" \
                                                       ::"r"((a)[i]), "r"((a)[i + 1]), "r"((a)[i + 2]), "r"((a)[i + 3]), "l"(halves_of(x)) : "memory")
// DECLARE_HALVES comes first; with more = 0 a product of p = begun begins the sums anew.
#define DECLARE_HALVES() do { DECLARE_WGMMA(); asm volatile(".reg .f32 sum<64>;\n.reg .pred begun;"); } while (0)
#define BEGUN(more) asm volatile("setp.ne.b32 begun, %0, 0;" ::"r"(more))
// Adds 64 rows of 64 halves in a by N columns at x to c.
#define MULTIPLY_HALVES(N, regs, a, x, p) do { u32 x_ = (x); wgmma_fence(); WGMMA_HALVES(N, regs, a, 0, x_, p); WGMMA_HALVES(N, regs, a, 4, x_ + 32, all); \
                                              WGMMA_HALVES(N, regs, a, 8, x_ + 64, all); WGMMA_HALVES(N, regs, a, 12, x_ + 96, all); wgmma_commit(); } while (0)
#define FLOAT_SUM(f, i) asm volatile("mov.f32 %0, sum" #i ";" : "=f"(f))
#endif
