#!/usr/bin/env python3
"""Q2_0 by an implementation of its own, for the tests of model/quantize.

usage: quantize.py BLOCKS [LIBGGML_BASE]

Makes BLOCKS blocks of 64 float32 numbers, rounds them by ggml's reference rule, and
prints the SHA-256 of the blocks of 18 bytes. With a libggml-base.so of llama.cpp, as
the npm package @node-llama-cpp/linux-x64 3.22.1 ships it, also what its reference
functions make of the same numbers, in each format. Needs numpy.

The numbers: r(n) is output n of the splitmix64 stream of seed 0, and block b takes
r(65b) for the whole block and r(65b + 1 + i) for element i. By b % 8:

  0, 1, 2  u * 2^e, u uniform in [-1, 1) by the top 24 bits, e = r % 25 - 20
  3        the same, but element 0 is a tie between two halves:
           (2049 + 2*(r >> 32 & 511)) / 2048 * 2^e, beyond all others
  4        k/8 * 2^e, k = r % 17 - 8, so that halves of the largest number are ties
  5        t * 2^e * (1 + j/1024), t = r % 3 - 1, j = r >> 32 & 1023
  6        zeros, those of odd r negative; in every other such block element r % 64 is 2^e
  7        any float32 with an exponent from -60 to 14 and either sign
"""

import ctypes
import hashlib
import sys

import numpy as np

GAMMA = np.uint64(0x9E3779B97F4A7C15)


def splitmix(n):
    z = (n + np.uint64(1)) * GAMMA
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def numbers(first, count):
    """float32 [count][64]"""
    b = np.arange(first, first + count, dtype=np.uint64)[:, None]
    i = np.arange(64, dtype=np.uint64)[None, :]
    whole = splitmix(np.uint64(65) * b)
    r = splitmix(np.uint64(65) * b + np.uint64(1) + i)
    low = lambda v, n: (v % np.uint64(n)).astype(np.int64)
    power = np.exp2(low(whole, 25) - 20.0)
    high = lambda n: (whole >> np.uint64(32) & np.uint64(n)).astype(np.int64)
    x = ((r >> np.uint64(40)).astype(np.float64) / 2**23 - 1) * power
    kind = (b % np.uint64(8)).astype(np.int64)
    at = np.arange(64)[None, :]
    x = np.where((kind == 3) & (at == 0), (2049 + 2 * high(511)) / 2048 * power, x)
    x = np.where(kind == 4, (low(r, 17) - 8) / 8 * power, x)
    x = np.where(kind == 5, (low(r, 3) - 1) * power * (1 + high(1023) / 1024), x)
    lone = (b // np.uint64(8) % np.uint64(2) == 1) & (at == low(whole, 64))
    x = np.where(kind == 6, np.where(lone, power, np.where(r % np.uint64(2) == 1, -0.0, 0.0)), x)
    x = x.astype(np.float32)
    exponent = (low(r >> np.uint64(32), 75) + 67).astype(np.uint32)
    word = (r & np.uint64(0x807FFFFF)).astype(np.uint32) | exponent << np.uint32(23)
    return np.where(kind == 7, word.view(np.float32), x)


def q2_0(x):
    """Blocks of 18 bytes. All steps are in float32, but for rounding to integers."""
    d = np.abs(x).max(axis=1)
    inverse = np.where(d > 0, np.float32(1) / np.where(d > 0, d, np.float32(1)), np.float32(0))
    v = (x * inverse[:, None]).astype(np.float64)
    q = np.clip(np.sign(v) * np.floor(np.abs(v) + 0.5) + 1, 0, 3).astype(np.uint8).reshape(-1, 16, 4)
    codes = q[..., 0] | q[..., 1] << 2 | q[..., 2] << 4 | q[..., 3] << 6
    return np.concatenate([d.astype("<f2").view(np.uint8).reshape(-1, 2), codes], axis=1).tobytes()


FORMATS = {"q2_0": (64, 18), "tq1_0": (256, 54), "tq2_0": (256, 66), "q1_0": (128, 18), "q8_0": (32, 34), "q4_0": (32, 18)}


def ggml(library, name, x):
    """The reference function of ggml on all numbers as one row."""
    elements, size = FORMATS[name]
    out = ctypes.create_string_buffer(x.size // elements * size)
    x = np.ascontiguousarray(x)
    getattr(library, f"quantize_row_{name}_ref")(x.ctypes.data_as(ctypes.c_void_p), out, ctypes.c_int64(x.size))
    return out.raw


def main(blocks, path=None):
    rules = {"Q2_0": q2_0}
    if path:
        library = ctypes.CDLL(path)
        rules |= {f"{name} by ggml": lambda x, name=name: ggml(library, name, x) for name in FORMATS}
    digests, step = {name: hashlib.sha256() for name in rules}, 1 << 15
    for first in range(0, blocks, step):
        x = numbers(first, min(step, blocks - first))
        for name, rule in rules.items():
            digests[name].update(rule(x))
    for name, digest in digests.items():
        print(digest.hexdigest(), name)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(int(sys.argv[1]), *sys.argv[2:])
