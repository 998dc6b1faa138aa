#version 450
#include "tern.glsl"
// The largest elements of a part of a row: runtime/ref/top_k_f32.go
// A radix selection by digits of 4 bits finds the smallest of them; what is
// larger, and the first of what equals it, is then put into order.
layout(local_size_x = LOCAL) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer List { uint list[]; };
layout(push_constant) uniform P { uint width, part, parts, k, n, has_ids; };

const uint MOST = 128u;   // largest k
shared uint top[MOST];    // largest key of every 128th element
shared uint bound;        // at least k keys reach it, if there are as many
shared uint bins[8 * 16]; // keys by digit, for each digit
shared uint tied[MOST];   // keys equal to the smallest, in 128 runs of elements
shared uint chosen;
shared uint chosen_key[MOST], chosen_at[MOST];

// Integers in the order of floats; 0 for NaN.
uint key(uint u) {
    if ((u & 0x7fffffffu) > INF_BITS) return 0u;
    return u == 0x80000000u ? u : (u >> 31) != 0u ? ~u : u | 0x80000000u;
}

void choose(uint slot, uint key, uint i) {
    chosen_key[slot] = key;
    chosen_at[slot] = i;
}

void main() {
    uint p = group_x(), row = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex;
    uint first = p * part, at = row * width + first, count = min(part, width - first);
    if (lane < MOST) {
        top[lane] = 0u;
        tied[lane] = 0u;
        bins[lane] = 0u;
    }
    if (lane == 0u) chosen = 0u;
    barrier();

    // The k-th largest of 128 maxima keeps most elements out of the bins.
    uint best = 0u;
    for (uint i = lane; i < count; i += LOCAL) best = max(best, key(x[at + i]));
    atomicMax(top[lane % MOST], best);
    barrier();
    if (lane < MOST) {
        uint rank = 0u, mine = top[lane];
        for (uint j = 0u; j < MOST; j++) rank += uint(top[j] > mine || (top[j] == mine && j < lane));
        if (rank == k - 1u) bound = max(mine, 1u);
    }
    barrier();

    uint low = bound, smallest = 0u, mask = 0u, need = k; // of elements that begin with the digits of smallest
    for (uint d = 0u; d < 8u; d++) {
        uint shift = 28u - 4u * d;
        for (uint i = lane; i < count; i += LOCAL) {
            uint u = key(x[at + i]);
            if (u >= low && (u & mask) == smallest) atomicAdd(bins[16u * d + ((u >> shift) & 15u)], 1u);
        }
        barrier();
        uint digit = 15u;
        while (digit > 0u && bins[16u * d + digit] < need) need -= bins[16u * d + digit--];
        smallest |= digit << shift;
        mask |= 15u << shift;
        if (bins[16u * d + digit] == need) { // all of these, so the other digits do not matter
            smallest = max(smallest, 1u) - 1u;
            need = 0u;
            break;
        }
    }

    uint run = (count + MOST - 1u) / MOST;
    for (uint i = lane; i < count; i += LOCAL) {
        uint u = key(x[at + i]);
        if (u < low) continue;
        if (u > smallest) choose(atomicAdd(chosen, 1u), u, i);
        if (u == smallest && need > 0u) atomicAdd(tied[i / run], 1u);
    }
    barrier();
    uint larger = chosen, size = larger;
    for (uint j = 0u; j < MOST; j++) size = min(size + tied[j], larger + need);
    if (lane < MOST && tied[lane] > 0u) {
        uint before = 0u;
        for (uint j = 0u; j < lane; j++) before += tied[j];
        uint end = min((lane + 1u) * run, count);
        for (uint i = lane * run; i < end && before < need; i++) {
            if (key(x[at + i]) == smallest) choose(larger + before++, smallest, i);
        }
    }
    barrier();

    uint to = (row * parts + p) * k, ids = n * parts * k;
    if (lane < size) {
        uint rank = 0u, mine = chosen_key[lane], i = chosen_at[lane];
        for (uint j = 0u; j < size; j++) rank += uint(chosen_key[j] > mine || (chosen_key[j] == mine && chosen_at[j] < i));
        list[to + rank] = x[at + i];
        list[ids + to + rank] = has_ids == 0u ? first + i : x[n * width + at + i];
    } else if (lane < k) {
        list[to + lane] = 0x7fc00000u;
        list[ids + to + lane] = 0xffffffffu;
    }
}
