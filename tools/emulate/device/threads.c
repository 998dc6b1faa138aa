// Coroutines, warps and barriers of a workgroup.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "workgroup.h"

enum { STACK = 256 << 10, BARRIERS = 16, MANY = 64 };

// A thread of the workgroup: what it waits for, and at which instruction.
typedef struct {
    jmp_buf at;
    int done;
    const char *where;
    const u32 *word;
    u32 mask, value;
} Thread;

// Lanes that wait for the others of their warp, and their words, by parity of the round.
typedef struct {
    u32 round, arrived, words[2][LANES][8];
    const char *where;
} Warp;

typedef struct {
    u32 round, expected, arrived, waiting, waits[MAX_THREADS];
    Clock clock;
} Barrier;

// A barrier in shared memory.
typedef struct {
    u32 at, arrivals, left, phase, maker, made;
    Clock arriving, arrived;
} Counter;

u32 group[2], current, now;
Clock clocks[MAX_THREADS];
static Thread threads[MAX_THREADS];
static Warp warps[MAX_WARPS];
static Barrier barriers[BARRIERS];
static Counter counters[MANY];
static u32 counted, fences; // fences: whether there were any
static jmp_buf scheduler;
static u8 *stacks;

unsigned emulated_thread(void) { return current; }
unsigned emulated_group(int axis) { return group[axis]; }
unsigned emulated_groups(int axis) { return launch.grid[axis]; }

static void forget(Clock *c) {
    for (int proxy = 0; proxy < 2; proxy++) memset(c->time[proxy], 0, launch.local * sizeof c->time[0][0]);
}

void join(Clock *to, const Clock *from) {
    for (u32 proxy = 0; proxy <= fences; proxy++)
        for (u32 t = 0; t < launch.local; t++)
            if (to->time[proxy][t] < from->time[proxy][t]) to->time[proxy][t] = from->time[proxy][t];
}

void release(Clock *to) {
    clocks[current].time[0][current] = now++;
    join(to, &clocks[current]);
}

// What this thread knows is there for matrix instructions, too.
void emulated_fence(void) {
    Clock *mine = &clocks[current];
    fences = 1;
    mine->time[0][current] = now++;
    memcpy(mine->time[1], mine->time[0], launch.local * sizeof mine->time[0][0]);
}

void block(const char *where, const u32 *word, u32 mask, u32 value) {
    Thread *t = &threads[current];
    t->where = where, t->word = word, t->mask = mask, t->value = value;
    settle();
    if ((*word & mask) == value && !_setjmp(t->at)) _longjmp(scheduler, 1);
}

static Warp *warp(void) { return &warps[current / LANES]; }

int warp_meets(const char *where) {
    Warp *w = warp();
    if (w->arrived == 0) w->where = where;
    if (strcmp(w->where, where)) fault("lanes of warp %u are at %s and at %s", current / LANES, w->where, where);
    if (++w->arrived == LANES) return 1;
    block(where, &w->round, ~0u, w->round);
    return 0;
}

void warp_go(void) {
    warp()->arrived = 0;
    warp()->round++;
}

void emulated_warp_barrier(void) {
    if (!warp_meets("bar.warp")) return;
    Clock *all = &clocks[current];
    u32 first = current / LANES * LANES;
    for (u32 t = first; t < first + LANES; t++) {
        clocks[t].time[0][t] = now;
        join(all, &clocks[t]);
    }
    now++;
    for (u32 t = first; t < first + LANES; t++) join(&clocks[t], all);
    warp_go();
}

emulated_words emulated_lanes(const char *instruction, const unsigned *words, unsigned n) {
    u32 (*all)[8] = warp()->words[warp()->round % 2];
    memcpy(all[current % LANES], words, n * sizeof *words);
    if (warp_meets(instruction)) warp_go();
    return (emulated_words)all;
}

static Barrier *arrive_at(u32 id, u32 threads) {
    if (id >= BARRIERS || threads % LANES || threads > launch.local) fault("barrier %u of %u threads", id, threads);
    Barrier *b = &barriers[id];
    if (threads == 0) threads = launch.local;
    if (b->arrived == 0) {
        b->expected = threads;
        forget(&b->clock);
    }
    if (b->expected != threads) fault("barrier %u is of %u threads and of %u", id, b->expected, threads);
    release(&b->clock);
    b->arrived++;
    return b;
}

static void complete(Barrier *b) {
    if (b->arrived < b->expected) return;
    for (u32 i = 0; i < b->waiting; i++) join(&clocks[b->waits[i]], &b->clock);
    b->arrived = b->waiting = 0;
    b->round++;
}

void emulated_meet(unsigned id, unsigned threads) {
    Barrier *b = arrive_at(id, threads);
    u32 round = b->round;
    b->waits[b->waiting++] = current;
    complete(b);
    block("bar.sync", &b->round, ~0u, round);
}

void emulated_pass_on(unsigned id, unsigned threads) { complete(arrive_at(id, threads)); }

static Counter *counter(u32 at) {
    for (Counter *c = counters; c < counters + counted; c++)
        if (c->at == at) {
            if (c->maker != current && clocks[current].time[0][c->maker] < c->made) fault("the mbarrier at %u of shared memory is used before its making is known", at);
            return c;
        }
    fault("no mbarrier is at %u of shared memory", at);
}

void emulated_barrier_init(unsigned at, unsigned arrivals) {
    *(u64 *)shared_words(at, 8) = 0;
    if (counted == MANY) fault("more than %d mbarriers", MANY);
    Counter *c = &counters[counted++];
    memset(c, 0, sizeof *c);
    c->at = at, c->arrivals = c->left = arrivals;
    c->maker = current, c->made = now;
}

void emulated_arrive(unsigned at) {
    Counter *c = counter(at);
    release(&c->arriving);
    if (--c->left) return;
    c->arrived = c->arriving;
    forget(&c->arriving);
    c->left = c->arrivals;
    c->phase++;
}

void emulated_wait(unsigned at, unsigned parity) {
    Counter *c = counter(at);
    block("mbarrier.wait", &c->phase, 1, parity);
    join(&clocks[current], &c->arrived);
}

static void start(void) {
    emulated_kernel(launch.params);
    settle();
    threads[current].done = 1;
    _longjmp(scheduler, 1);
}

// Runs a thread until it waits or is done.
static void run(u32 t) {
    static ucontext_t context;
    current = t;
    if (_setjmp(scheduler)) return;
    if (threads[t].where) _longjmp(threads[t].at, 1);
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (u64)t * STACK;
    context.uc_stack.ss_size = STACK;
    makecontext(&context, start, 0);
    setcontext(&context);
}

int not_traced(const void *p) {
    return (u64)((const u8 *)p - (stacks + (u64)current * STACK)) < STACK || (u64)((const u8 *)p - (const u8 *)warps) < sizeof warps;
}

static int ready(const Thread *t) { return !t->done && (!t->where || (*t->word & t->mask) != t->value); }

static _Noreturn void stuck(void) {
    char text[256] = "";
    for (u32 t = 0; t < launch.local; t++) {
        u32 n = 0;
        size_t end = strlen(text);
        if (threads[t].done || strstr(text, threads[t].where)) continue;
        for (u32 u = t; u < launch.local; u++) n += !threads[u].done && !strcmp(threads[u].where, threads[t].where);
        snprintf(text + end, sizeof text - end, ", %u threads wait at %s", n, threads[t].where);
    }
    fault("nothing goes on%s", text);
}

// Fills in the order in which a round goes over the threads.
static void deal(u32 *order) {
    for (u32 i = 0; i < launch.local; i++) order[i] = launch.order == BACKWARDS_AT_ONCE ? launch.local - 1 - i : i;
    for (u32 i = launch.local; launch.order == AT_RANDOM && i > 1; i--) {
        u32 j = draw(i), t = order[j];
        order[j] = order[i - 1], order[i - 1] = t;
    }
}

void run_workgroup(void) {
    if (!stacks) stacks = mmap(NULL, (u64)MAX_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) fault("no memory for stacks");
    memset(threads, 0, sizeof threads);
    memset(warps, 0, sizeof warps);
    for (Barrier *b = barriers; b < barriers + BARRIERS; b++) b->round = b->arrived = b->waiting = 0;
    for (u32 t = 0; t < launch.local; t++) forget(&clocks[t]);
    counted = fences = 0;
    now = 1;
    for (u32 left = launch.local; left;) {
        u32 order[MAX_THREADS], able = 0;
        deal(order);
        for (u32 i = 0; i < launch.local; i++) {
            if (!ready(&threads[order[i]])) continue;
            able++;
            if (launch.order == AT_RANDOM && draw(2)) continue;
            run(order[i]);
            left -= threads[current].done;
        }
        if (left && (!able || launch.order == AT_RANDOM && draw(2)) && !land_some() && !able) stuck();
    }
    for (u32 id = 0; id < BARRIERS; id++)
        if (barriers[id].arrived) fault("the kernel ends while %u of %u threads are at barrier %u", barriers[id].arrived, barriers[id].expected, id);
}
