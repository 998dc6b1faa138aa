// Memory as threads of a workgroup see it: bindings, shared memory with who accessed what
// when, and copies under way.
#include <stdlib.h>
#include <string.h>
#include "workgroup.h"

enum { POISON = 0xff };

// A word of shared memory: its last write, none at time 0, and since then the lanes of each
// warp that have read it, and when matrix instructions of a warp had, 0 for never. What
// nobody has written may be read; it is poison.
typedef struct {
    u32 time, thread, copying, multiplying, lanes[MAX_WARPS], multiplied[MAX_WARPS];
} Word;

// What a thread has begun: copies and ends of groups.
typedef struct Begun {
    struct Begun *next;
    enum { COPY, COMMIT } kind;
    u32 to, bytes;
    const void *from;
} Begun;

unsigned char emulated_dynamic[MAX_SHARED] __attribute__((aligned(1024)));
// The kernel's arrays, of which there may be none.
extern u8 __start_shared[] __attribute__((weak, visibility("hidden"))), __stop_shared[] __attribute__((weak, visibility("hidden")));

enum { WORDS = 2 * MAX_SHARED / 4 }; // of emulated_dynamic, then of arrays
static Word words[WORDS];
static u32 times[WORDS][MAX_THREADS]; // of reads
static Begun *begun[MAX_THREADS], **end_of[MAX_THREADS];

// Words that the thread's last write goes to, as others' did: no fault if it leaves them as they are.
static struct { u32 at, word, thread; } suspects[4];
static u32 suspected;

static _Noreturn void written_twice(u32 suspect) {
    fault("word %u of shared memory is written, as thread %u did, without a barrier in between", suspects[suspect].at, suspects[suspect].thread);
}

void settle(void) {
    while (suspected)
        if (*(u32 *)emulated_pointer(suspects[--suspected].at * 4) != suspects[suspected].word) written_twice(suspected);
}

unsigned emulated_address(const void *p) {
    u64 at = (const u8 *)p - emulated_dynamic;
    return at < MAX_SHARED ? at : MAX_SHARED + (u64)((const u8 *)p - __start_shared);
}

void *emulated_pointer(unsigned at) { return at < MAX_SHARED ? emulated_dynamic + at : __start_shared + (at - MAX_SHARED); }

static int knows(u32 thread, u32 time, int proxy) {
    return thread == current && !proxy || clocks[current].time[proxy][thread] >= time;
}

// A lane is enough for what a warp did as one.
static int knows_of_warp(u32 warp, u32 time) {
    for (u32 lane = 0; lane < LANES; lane++)
        if (knows(warp * LANES + lane, time, 0)) return 1;
    return 0;
}

static void reads(Word *w, u32 at) {
    if (w->copying) fault("word %u of shared memory is read while a copy to it is under way", at);
    if (!knows(w->thread, w->time, 0)) fault("word %u of shared memory is read, which thread %u wrote, without a barrier in between", at, w->thread);
    w->lanes[current / LANES] |= 1u << current % LANES;
    times[w - words][current] = now;
}

static void writes(Word *w, u32 at) {
    if (w->copying) fault("word %u of shared memory is written while a copy to it is under way", at);
    if (w->multiplying) fault("word %u of shared memory is written while matrix instructions read it", at);
    if (!knows(w->thread, w->time, 0)) {
        suspects[suspected].at = at, suspects[suspected].thread = w->thread;
        suspects[suspected++].word = *(u32 *)emulated_pointer(at * 4);
    }
    for (u32 warp = 0; warp * LANES < launch.local; warp++) {
        for (u32 lanes = w->lanes[warp]; lanes; lanes &= lanes - 1) {
            u32 thread = warp * LANES + __builtin_ctz(lanes);
            if (!knows(thread, times[w - words][thread], 0)) fault("word %u of shared memory is written, which thread %u reads, without a barrier in between", at, thread);
        }
        if (w->multiplied[warp] && !knows_of_warp(warp, w->multiplied[warp])) fault("word %u of shared memory is written, which matrix instructions of warp %u read, without a barrier in between", at, warp);
        w->lanes[warp] = w->multiplied[warp] = 0;
    }
    w->time = now;
    w->thread = current;
}

// The words of bytes of shared memory: of emulated_dynamic, or of arrays.
static Word *words_of(const u8 *p, u32 bytes) {
    u64 at = p - emulated_dynamic, array = p - __start_shared;
    if (at < MAX_SHARED) {
        if (at + bytes > launch.shared) fault("bytes %u to %u of shared memory, which has %u", (u32)at, (u32)at + bytes, launch.shared);
        return &words[at / 4];
    }
    if (array < (u64)(__stop_shared - __start_shared)) return &words[(MAX_SHARED + array) / 4];
    return NULL;
}

static void in_bindings(const u8 *p, u32 bytes) {
    for (u32 i = 0; i < launch.bindings; i++) {
        u64 at = p - launch.binding[i].at;
        if (at < launch.binding[i].bytes && at + bytes <= launch.binding[i].bytes) return;
    }
    int64_t from = 0; // in the binding that begins last before it, or else the first
    u32 binding = 0;
    for (u32 i = 0; i < launch.bindings; i++) {
        int64_t at = p - launch.binding[i].at;
        if (i == 0 || at >= 0 && (from < 0 || at < from)) from = at, binding = i;
    }
    fault("%u bytes from %lld on of binding %u, which has %llu", bytes, (long long)from, binding, (unsigned long long)launch.binding[binding].bytes);
}

static void access(const u8 *p, u32 bytes, int write) {
    if (not_traced(p)) return;
    settle();
    if ((u64)p % bytes) fault("%u bytes at an address that is no multiple", bytes);
    Word *w = words_of(p, bytes);
    if (!w) return in_bindings(p, bytes);
    for (u32 i = 0; i * 4 < bytes; i++) (write ? writes : reads)(w + i, w + i - words);
}

#define ACCESSES(n) \
    void __sanitizer_cov_load##n(const void *p) { access(p, n, 0); } \
    void __sanitizer_cov_store##n(const void *p) { access(p, n, 1); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void emulated_raise(unsigned *flag) { *flag = 1; }

void emulated_prefetch(const void *from, unsigned bytes) {
    if ((u64)from % 16 || bytes % 16 || bytes == 0) fault("%u bytes are fetched ahead, from an address that is %u modulo 16", bytes, (u32)((u64)from % 16));
    in_bindings(from, bytes);
}

u8 *shared_words(u32 at, u32 bytes) {
    u8 *p = emulated_pointer(at);
    access(p, bytes, 1);
    if (suspected) written_twice(0); // what will be written is not known yet
    return p;
}

void read_by_matrices(u32 at, u32 bytes) {
    for (u32 i = at / 4; i < (at + bytes) / 4; i++) {
        Word *w = words_of(emulated_dynamic + i * 4, 4);
        reads(w, i);
        if (!knows(w->thread, w->time, 1)) fault("word %u of shared memory is read by matrix instructions, which thread %u wrote, without a fence for them", i, w->thread);
        w->multiplying++;
    }
}

void read_by_matrices_ends(u32 at, u32 bytes) {
    for (u32 i = at / 4; i < (at + bytes) / 4; i++) {
        words[i].multiplying--;
        words[i].multiplied[current / LANES] = now;
    }
}

// Does what comes first of what a thread has begun.
static int land(u32 thread) {
    Begun *b = begun[thread];
    begun[thread] = b->next;
    if (!b->next) end_of[thread] = &begun[thread];
    int kind = b->kind;
    if (kind == COPY) {
        memcpy(emulated_pointer(b->to), b->from, b->bytes);
        for (u32 i = 0; i < b->bytes / 4; i++) words[b->to / 4 + i].copying--;
    }
    free(b);
    return kind;
}

static Begun *begin(int kind) {
    Begun *b = calloc(1, sizeof *b);
    if (!b) fault("no memory for copies");
    b->kind = kind;
    *end_of[current] = b;
    end_of[current] = &b->next;
    return b;
}

static void landed(void) {
    while (launch.order == BACKWARDS_AT_ONCE && begun[current] && begun[current]->kind != COMMIT) land(current);
}

static void copy(u32 to, const void *from, u32 bytes) {
    shared_words(to, bytes);
    for (u32 i = 0; i < bytes / 4; i++) words[to / 4 + i].copying++;
    Begun *b = begin(COPY);
    b->to = to, b->from = from, b->bytes = bytes;
    landed();
}

void emulated_copy(unsigned to, const void *from, unsigned bytes) {
    access(from, bytes, 0);
    copy(to, from, bytes);
}

void emulated_copy_some(unsigned to, const void *from, unsigned bytes, unsigned some) {
    static const u8 zeros[16];
    if (some == bytes) emulated_copy(to, from, bytes);
    else if (some == 0) copy(to, zeros, bytes);
    else fault("a copy of %u of %u bytes", some, bytes);
}

void emulated_copies_commit(void) { begin(COMMIT); }

void emulated_copies_wait(unsigned behind) {
    u32 groups = 0;
    for (Begun *b = begun[current]; b; b = b->next) groups += b->kind == COMMIT;
    while (groups > behind) groups -= land(current) == COMMIT;
}

// The first group of a thread, or all that it has begun.
int land_some(void) {
    u32 first = draw(launch.local);
    for (u32 i = 0; i < launch.local; i++) {
        u32 thread = (first + i) % launch.local;
        if (!begun[thread]) continue;
        while (begun[thread] && land(thread) != COMMIT) {}
        return 1;
    }
    return 0;
}

void begin_memory(void) {
    u64 arrays = __stop_shared - __start_shared;
    if (arrays > MAX_SHARED) fault("%llu bytes of shared arrays", (unsigned long long)arrays);
    memset(emulated_dynamic, POISON, sizeof emulated_dynamic);
    memset(__start_shared, POISON, arrays);
    memset(words, 0, launch.shared / 4 * sizeof *words);
    memset(words + MAX_SHARED / 4, 0, arrays / 4 * sizeof *words);
    for (u32 t = 0; t < launch.local; t++) end_of[t] = &begun[t];
}

void end_memory(void) {
    for (u32 t = 0; t < launch.local; t++)
        while (begun[t]) land(t);
}
