"""Writing GGUF files whose matrices are exactly Q2_0 (group 64), BF16 or F32.

Arrays are in numpy's order, outermost first: a matrix of R rows of K is (R, K)
here and [K, R] in the file.
"""

import struct

import numpy as np

F32, BF16, Q2_0 = 0, 30, 42
ALIGN = 32


def q2_0(x):
    """Blocks of 18 bytes: the scale as a half, then 64 codes of two bits. Every
    block must be scale * {-1, 0, 1, 2} with a scale that a half holds."""
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, 64)
    d = np.abs(blocks).max(axis=1)
    half = d.astype(np.float16)
    assert (half.astype(np.float32) == d).all(), "a scale that no half holds"
    codes = np.rint(blocks / np.where(d > 0, d, 1)[:, None]).astype(np.int32) + 1
    assert (d[:, None] * (codes - 1) == blocks).all(), "weights that are not ternary"
    four = codes.reshape(-1, 16, 4).astype(np.uint8)
    packed = four[..., 0] | four[..., 1] << 2 | four[..., 2] << 4 | four[..., 3] << 6
    return np.concatenate([half.view(np.uint8).reshape(-1, 2), packed], axis=1).tobytes()


def bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    assert (u & 0xFFFF == 0).all(), "weights that no bfloat16 holds"
    return (u >> 16).astype(np.uint16).tobytes()


def f32(x):
    return np.ascontiguousarray(x, np.float32).tobytes()


ENCODE = {F32: f32, BF16: bf16, Q2_0: q2_0}


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + _string(v)
    return struct.pack("<IIQ", 9, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)  # int32s


def write(path, meta, tensors):
    """tensors: (name, type, array) in the order of the file."""
    infos, bodies, offset = b"", [], 0
    for name, kind, array in tensors:
        dims = array.shape[::-1]
        infos += _string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        infos += struct.pack("<IQ", kind, offset)
        body = ENCODE[kind](array)
        body += bytes(-len(body) % ALIGN)
        bodies.append(body)
        offset += len(body)
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(meta))
    head += b"".join(_string(k) + _value(v) for k, v in meta.items()) + infos
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for body in bodies:
            f.write(body)
