// Runs a kernel in whole workgroups: launches come on standard input, and what memory
// holds afterwards goes to standard output. All numbers are words of the machine.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "workgroup.h"

enum { ALIGNMENT = 256, SECONDS = 120 };

// A launch: this head, the bytes of each buffer, the buffer of each binding, and the bytes of
// each structure; then the content of buffers and structures.
enum { LOCAL, SHARED, ORDER, GRID_X, GRID_Y, BUFFERS, BINDINGS, STRUCTURES, HEAD };

Launch launch;
static u64 state;

u32 draw(u32 n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 32) % n;
}

static void answer(u32 wrong, const void *data, u64 bytes) {
    u64 head[2] = {wrong, bytes};
    if (fwrite(head, sizeof head, 1, stdout) != 1 || fwrite(data, 1, bytes, stdout) != bytes || fflush(stdout)) exit(2);
}

void fault(const char *format, ...) {
    char text[512];
    int n = snprintf(text, sizeof text, "workgroup %u,%u, thread %u: ", group[0], group[1], current);
    va_list values;
    va_start(values, format);
    vsnprintf(text + n, sizeof text - n, format, values);
    answer(1, text, strlen(text));
    _exit(1);
}

static void take(void *to, u64 bytes) {
    if (fread(to, 1, bytes, stdin) != bytes) exit(2);
}

static void run(void) {
    for (group[1] = 0; group[1] < launch.grid[1]; group[1]++)
        for (group[0] = 0; group[0] < launch.grid[0]; group[0]++) {
            alarm(SECONDS); // of a kernel that goes on without waiting for anything
            begin_memory();
            begin_matrices();
            run_workgroup();
            end_matrices();
            end_memory();
        }
    alarm(0);
}

int main(void) {
    u32 head[HEAD], numbers[64];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        u32 buffers = head[BUFFERS], bindings = head[BINDINGS], structures = head[STRUCTURES], *bytes = numbers, *binding = bytes + buffers, *sizes = binding + bindings;
        if (bindings > 16 || buffers > bindings || structures > 2 || head[LOCAL] % LANES || head[LOCAL] > MAX_THREADS || head[SHARED] > MAX_SHARED) exit(2);
        take(numbers, (buffers + bindings + structures) * sizeof *numbers);
        u64 all = 0, at[16];
        for (u32 i = 0; i < buffers; i++) {
            at[i] = all += ALIGNMENT;
            all += (bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
        u8 *memory = aligned_alloc(ALIGNMENT, all + ALIGNMENT), structure[2][4096];
        void *address[16], *params[18];
        if (!memory) exit(2);
        memset(memory, 0, all + ALIGNMENT);
        for (u32 i = 0; i < buffers; i++) take(memory + at[i], bytes[i]);
        launch = (Launch){.local = head[LOCAL], .shared = head[SHARED], .order = head[ORDER], .grid = {head[GRID_X], head[GRID_Y]}, .bindings = bindings, .params = params};
        for (u32 i = 0; i < bindings; i++) {
            address[i] = launch.binding[i].at = memory + at[binding[i]];
            launch.binding[i].bytes = bytes[binding[i]];
            params[i] = &address[i];
        }
        for (u32 i = 0; i < structures; i++) {
            if (sizes[i] > sizeof structure[i]) exit(2);
            take(structure[i], sizes[i]);
            params[bindings + i] = structure[i];
        }
        state = head[ORDER];
        run();
        u64 total = 0;
        for (u32 i = 0; i < buffers; i++) {
            memmove(memory + total, memory + at[i], bytes[i]);
            total += bytes[i];
        }
        answer(0, memory, total);
        free(memory);
    }
    return 0;
}
