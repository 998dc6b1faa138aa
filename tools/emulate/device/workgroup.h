// What the parts of the emulation share.
#pragma once
#include <stdint.h>
#include "emulate.h"

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

enum { LANES = 32, MAX_WARPS = 16, MAX_THREADS = LANES * MAX_WARPS, MAX_SHARED = 64 << 10 };

// Orders in which threads run, and when copies and matrix instructions take effect.
enum { FORWARDS_LATE, BACKWARDS_AT_ONCE, AT_RANDOM, ORDERS };

typedef struct {
    u32 local, shared, order, grid[2];
    u32 bindings;
    struct { u8 *at; u64 bytes; } binding[16];
    void **params;
} Launch;

extern Launch launch;
extern u32 group[2], current, now; // workgroup, thread, and time: it goes on at each release
u32 draw(u32 n);                   // a number below n, of the launch's own

// Reports what is wrong with the kernel, and ends the process.
_Noreturn void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

// threads.c: clocks say up to which time of each other thread a thread knows what that
// thread did to shared memory; [1] of what matrix instructions may read.
typedef struct { u32 time[2][MAX_THREADS]; } Clock;
extern Clock clocks[MAX_THREADS];
void join(Clock *to, const Clock *from);
void release(Clock *to); // what the current thread knows
void block(const char *where, const u32 *word, u32 mask, u32 value); // until *word & mask is not value
// Waits until all lanes of the warp are at the same place; true in the last of them, which
// goes first: the others return from it after warp_go.
int warp_meets(const char *where);
void warp_go(void);
void run_workgroup(void);

int not_traced(const void *p); // the thread's stack, and words of lanes

// memory.c
void begin_memory(void);
void settle(void); // whether the thread's last write was one
void end_memory(void);
int land_some(void); // copies under way whose thread does not wait for them: false if there are none
u8 *shared_words(u32 at, u32 bytes);
void read_by_matrices(u32 at, u32 bytes);
void read_by_matrices_ends(u32 at, u32 bytes);

// matrix.c
void begin_matrices(void);
void end_matrices(void);
