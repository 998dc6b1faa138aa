// Products of a warpgroup (128 threads): 64 rows of 32 signed bytes in registers by N
// columns of 32 in shared memory, int32 sums. Of a warp's 16 rows a lane has row l / 4
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
#endif
