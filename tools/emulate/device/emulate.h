// What the emulation of a workgroup gives to kernels (emulated.h) and to its own parts.
// Threads are coroutines of one thread of the system: each runs until it has to wait.
#pragma once
#ifdef __cplusplus
extern "C" {
#endif

// Where a thread is, and its warp's lanes together.
unsigned emulated_thread(void);
unsigned emulated_group(int axis);
unsigned emulated_groups(int axis);
void emulated_warp_barrier(void);
// The words that each lane of the warp gives, n of them; all lanes have to be at this
// instruction. They are there until the lane is at the next one.
typedef const unsigned (*emulated_words)[8];
emulated_words emulated_lanes(const char *instruction, const unsigned *words, unsigned n);

// Barriers by number; all threads of the workgroup for 0 of them.
void emulated_meet(unsigned id, unsigned threads);
void emulated_pass_on(unsigned id, unsigned threads);

// Barriers in shared memory, by address.
void emulated_barrier_init(unsigned at, unsigned arrivals);
void emulated_arrive(unsigned at);
void emulated_wait(unsigned at, unsigned parity);

// Memory. Kernels are compiled with -fsanitize-coverage=trace-loads,trace-stores, whose
// calls before each access (memory.c) hold it to its bindings, or look for races.
extern unsigned char emulated_dynamic[]; // shared=N bytes
unsigned emulated_address(const void *p); // of shared memory, and back
void *emulated_pointer(unsigned at);
void emulated_raise(unsigned *flag); // a write that races with reads
void emulated_prefetch(const void *from, unsigned bytes);
void emulated_fence(void); // between other accesses and those of matrix instructions
void emulated_copy(unsigned to, const void *from, unsigned bytes);
void emulated_copy_some(unsigned to, const void *from, unsigned bytes, unsigned some);
void emulated_copies_commit(void);
void emulated_copies_wait(unsigned behind); // for all groups but the last so many

// Products of a warpgroup, see wgmma.cuh: 64 rows of 64 signed bytes in a by n columns at x
// of shared memory, to one of two sets of sums.
void emulated_multiply(unsigned n, unsigned set, const unsigned *a, unsigned x);
void emulated_sums_wait(void);
float emulated_sum(unsigned set, unsigned i);

// The kernel, by the addresses of its parameters.
void emulated_kernel(void **params);

#ifdef __cplusplus
}
#endif
