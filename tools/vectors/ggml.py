#!/usr/bin/env python3
"""Random blocks of weights and what ggml makes of them.

    python3 tools/vectors/ggml.py LIBGGML_BASE testdata/formats/ggml.txt

LIBGGML_BASE is libggml-base.so of a build of llama.cpp, such as the one in the npm
package @node-llama-cpp/linux-x64. A line holds a format, the bytes of some blocks
and the float32 values, both in hex.
"""

import ctypes
import random
import struct
import sys

# ggml's name, elements and bytes of a block, offsets of the halves in it.
FORMATS = {
    "Q2_0": ("q2_0", 64, 18, (0,)), "TQ2_0": ("tq2_0", 256, 66, (64,)), "TQ1_0": ("tq1_0", 256, 54, (52,)),
    "Q1_0": ("q1_0", 128, 18, (0,)), "Q8_0": ("q8_0", 32, 34, (0,)), "Q4_0": ("q4_0", 32, 18, (0,)),
    "Q4_1": ("q4_1", 32, 20, (0, 2)), "Q2_K": ("q2_K", 256, 84, (80, 82)), "Q4_K": ("q4_K", 256, 144, (0, 2)),
    "Q6_K": ("q6_K", 256, 210, (208,)),
}


def main(library, path):
    ggml = ctypes.CDLL(library)
    r = random.Random(1)
    with open(path, "w") as out:
        out.write("# written by tools/vectors/ggml.py\n")
        for name, (row, elements, size, halves) in FORMATS.items():
            count = max(512 // elements, 1)
            data = bytearray(r.randbytes(size * count))
            for block in range(count):
                for at in halves:
                    data[block * size + at:block * size + at + 2] = struct.pack("<e", r.uniform(-0.1, 0.1))
            values = (ctypes.c_float * (elements * count))()
            getattr(ggml, f"dequantize_row_{row}")(bytes(data), values, ctypes.c_int64(elements * count))
            out.write(f"{name} {data.hex()} {bytes(values).hex()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
