#!/usr/bin/env python3
"""Literal test vectors of the kernel contracts, one file a contract.

The contracts are implemented here once more, from their doc comments in
runtime/ref, over rational numbers and without a look at the Go code's loops.

    python3 tools/vectors/make.py testdata/kernels

The files are the same with every Python 3.
"""

import random
import sys
from fractions import Fraction

from exact import (INF, NAN, add, bits, exp2, f16, f32, from_bits, mul, pow2, recip, rnd,
                   round13, rsqrt, silu, sub, tidy)
from formats import BLOCK, BlockWeights, FloatWeights

R = random.Random()  # seeded by contract
UNWRITTEN = None  # a word that the contract leaves alone
PAGE = 64
TINY = Fraction(1, 2**60)


def number(scale=1):
    """A random float32 of about the size of scale."""
    return rnd(Fraction(R.getrandbits(26) - 2**25, 2**24) * Fraction(scale))


def numbers(n, scale=1):
    return [number(scale) for _ in range(n)]


def words_of(xs):
    return [bits(x) for x in xs]


# --- the file ---------------------------------------------------------------

class File:
    def __init__(self, contract):
        R.seed(contract)
        self.contract, self.lines = contract, [f"# {contract}: words in hex, written by tools/vectors/make.py"]

    def case(self, name, domain, spec, push, args):
        """args: (access, kind, before, after); before None for out, after None for in."""
        self.lines += ["", f"case {name}", f"domain {domain[0]} {domain[1]}",
                       "spec " + " ".join(f"{w:x}" for w in spec),
                       "push " + " ".join(f"{w:x}" for w in push)]
        for access, kind, before, after in args:
            self.lines.append(f"{access} {kind} {len(before if before is not None else after)}")
            if before is not None:
                self.lines += dump(before)
            if after is not None:
                self.lines += ["gives"] + dump(after)

    def write(self, folder):
        with open(f"{folder}/{self.contract}.txt", "w") as f:
            f.write("\n".join(self.lines) + "\n")


def dump(words):
    """Eight items a line; w*n stands for n words, - for a word left alone."""
    items, at = [], 0
    while at < len(words):
        end = at
        while end < len(words) and words[end] == words[at]:
            end += 1
        item = "-" if words[at] is UNWRITTEN else f"{words[at]:08x}"
        items += [f"{item}*{end - at}"] if end - at > 2 else [item] * (end - at)
        at = end
    return [" " + " ".join(items[i:i + 8]) for i in range(0, len(items), 8)]


def arg_in(kind, words):
    return ("in", kind, words, None)


def arg_out(kind, words):
    return ("out", kind, None, words)


def arg_io(kind, before, after):
    return ("io", kind, before, after)


# --- activations ------------------------------------------------------------

def activations(act, rows):
    """Words of the rows."""
    if act == "f32":
        return [bits(tidy(x)) for row in rows for x in row]
    if act == "f16":
        return [f16(row[i]) | f16(row[i + 1]) << 16 for row in rows for i in range(0, len(row), 2)]
    words, pairs = [], []
    for b in range(0, len(rows[0]), 64):
        for row in rows:
            d, q = block(row[b:b + 64])
            pairs += [bits(d), sum(q) & 0xFFFFFFFF]
            words += [sum((q[16 * (w // 4) + w % 4 + 4 * m] & 255) << 8 * m for m in range(4)) for w in range(16)]
    return words + pairs


def block(v):
    """Scale and integers of 64 elements."""
    if any(x in (INF, NAN) for x in v):
        return INF, [0] * 64
    top = max(abs(x) for x in v)
    if top < TINY:
        return Fraction(0), [0] * 64
    d = mul(top, rnd(Fraction(1, 127)))
    return d, [min(max(round(mul(x, recip(d))), -127), 127) for x in v]


def quantize(act):
    f = File(f"quantize_{act}")
    rows = [numbers(128), numbers(64, Fraction(1, 2**62)) + [number(3) if i % 9 else Fraction(i, 2) for i in range(64)]]
    f.case("two rows, a block of zeros", (128 // (4 if act == "i8" else 2), 2), [], [2, 128],
           [arg_in("f32", words_of(sum(rows, []))), arg_out("raw", activations(act, rows))])
    if act == "i8":
        rows = [numbers(64) for _ in range(3)]
        rows[0][5], rows[2][63] = INF, NAN
        f.case("values that are not finite", (16, 3), [], [3, 64],
               [arg_in("f32", words_of(sum(rows, []))), arg_out("raw", activations(act, rows))])
    else:
        edges = [65504, 65519, 65520, 65536, 2**20, Fraction(1, 2**24), Fraction(1, 2**25), Fraction(3, 2**26), Fraction(1, 2**14),
                 Fraction(2**24 - 1, 2**38), Fraction(2049, 2048), Fraction(4099, 4096), Fraction(4097, 4096), Fraction(12293, 4096), 2049, 2051]
        row = [rnd(s * e) for e in edges for s in (1, -1)] * 2
        f.case("borders of halves", (32, 1), [], [1, 64], [arg_in("f32", words_of(row)), arg_out("raw", activations(act, [row]))])
    return f


# --- rows -------------------------------------------------------------------

def norm(row, weight, inv, eps):
    parts = 1
    while parts * 2 <= min(256, len(row)):
        parts *= 2
    part = [Fraction(0)] * parts
    for i, x in enumerate(row):
        part[i % parts] = add(part[i % parts], mul(x, x))
    while len(part) > 1:
        h = len(part) // 2
        part = [add(part[i], part[i + h]) for i in range(h)]
    r = rsqrt(add(mul(part[0], inv), eps))
    return [mul(mul(x, r), w) for x, w in zip(row, weight)]


def rms_norm(act):
    f = File(f"rms_norm_{act}")
    for name, n, k, adds in (("two rows", 2, 64, 0), ("x += y", 2, 320, 1)):
        x, y, weight = [numbers(k) for _ in range(n)], [numbers(k, 2) for _ in range(n)], numbers(k, Fraction(3, 2))
        x[1][7], y[1][7] = Fraction(3, 2**61), Fraction(-2, 2**61)
        inv, eps = rnd(Fraction(1, k)), rnd(Fraction(1, 1000000))
        u = [[tidy(add(a, b)) for a, b in zip(p, q)] for p, q in zip(x, y)] if adds else x
        out = [norm(row, weight, inv, eps) for row in u]
        consts = numbers(3) + weight
        f.case(f"{name} of {k}", (n, 1), [], [n, k, 3, adds, bits(inv), bits(eps)],
               [arg_io("f32", words_of(sum(x, [])), words_of(sum(u, []))), arg_in("f32", words_of(sum(y, []))),
                arg_in("f32", words_of(consts)), arg_out("raw" if act != "f32" else "f32", activations(act, out))])
    return f


def silu_mul(act):
    f = File(f"silu_mul_{act}")
    n, k = 2, 64
    rows = [numbers(k, 20) + numbers(k) for _ in range(n)]
    rows[0][:6] = [rnd(v) for v in (Fraction(-50), Fraction(50), Fraction(-44), Fraction(1, 2**40), Fraction(-443, 10), Fraction(1))]
    out = [[mul(silu(g), u) for g, u in zip(row[:k], row[k:])] for row in rows]
    per = {"f32": 1, "f16": 2, "i8": 4}[act]
    f.case("two rows", (k // per, n), [], [n, k], [arg_in("f32", words_of(sum(rows, []))),
           arg_out("raw" if act != "f32" else "f32", activations(act, out))])
    return f


def add_check():
    f = File("add_check_f32")
    x, y = numbers(67), numbers(67, 5)
    x[3], y[3] = Fraction(5, 2**62), Fraction(-4, 2**62)
    x[4], y[4] = Fraction(2**24), Fraction(1)
    s = [tidy(add(a, b)) for a, b in zip(x, y)]
    f.case("finite", (67, 1), [], [67], [arg_io("f32", words_of(x), words_of(s)), arg_in("f32", words_of(y)), arg_io("u32", [0] * 16, [0] * 16)])
    wx, ws = words_of(x), words_of(s)
    wx[66] = ws[66] = bits(INF)
    f.case("an infinity", (67, 1), [], [67], [arg_io("f32", wx, ws), arg_in("f32", words_of(y)), arg_io("u32", [0] * 16, [1] + [0] * 15)])
    return f


def pick_rows_f32():
    f = File("pick_rows_f32")
    x, rows = [[R.getrandbits(32) & 0xFF7FFFFF for _ in range(5)] for _ in range(4)], [3, 0, 3]
    f.case("three rows of five", (5, 3), [], [5, 16], [arg_in("f32", sum(x, [])), arg_in("u32", [0] * 16 + rows), arg_out("f32", sum((x[r] for r in rows), []))])
    return f


def argmax():
    f = File("argmax_f32")
    nan, inf, low = 0x7FC00000, 0x7F800000, 0xFF800000
    rows = [words_of([Fraction(v) for v in (-3, 2, 7, 7, 1)]), [nan, bits(Fraction(-5)), nan, low, bits(Fraction(-6))],
            [nan] * 5, [low] * 5, [bits(Fraction(1)), inf, nan, inf, low], [0x80000000, 0, 0x80000000, 0, low]]
    want = [2, 1, 0xFFFFFFFF, 0, 1, 0]
    before = [9] * 16 + [7] * 6 + [5]
    f.case("ties, NaN, infinities", (6, 1), [], [5, 16], [arg_in("f32", sum(rows, [])), arg_io("u32", before, [9] * 16 + want + [5])])
    return f


# --- weights ----------------------------------------------------------------

class Weights:
    """Random packed weights."""

    def __init__(self, rows, nb, share=0, scale=Fraction(1, 10)):
        self.rows, self.nb, self.share, self.padded = rows, nb, share, (rows + 31) // 32 * 32
        self.code = [[[R.randrange(4) for _ in range(64)] for _ in range(nb)] for _ in range(rows)]
        self.half = [[f16(number(scale)) for _ in range(-(-nb >> share))] for _ in range(rows)]
        self.half[0][0] = 0x8001  # a subnormal

    def scale(self, row, b):
        return f32(self.half[row][b >> self.share])

    def codes(self):
        out = []
        for g in range(0, self.padded, 32):
            for b in range(self.nb):
                for row in range(g, g + 32):
                    code = self.code[row][b] if row < self.rows else [1] * 64
                    out += [sum(code[16 * j + i] << 2 * i for i in range(16)) for j in range(4)]
        return out

    def scales(self):
        out = []
        for g in range(0, self.padded, 32):
            for four in range(0, len(self.half[0]), 4):
                for row in range(g, g + 32):
                    h = [self.half[row][i] if row < self.rows and i < len(self.half[0]) else 0 for i in range(four, four + 4)]
                    out += [h[0] | h[1] << 16, h[2] | h[3] << 16]
        return out

    def row(self, r):
        return [tidy(mul(c - 1, self.scale(r, b))) for b in range(self.nb) for c in self.code[r][b]]

    def args(self):
        return [arg_in("raw", self.codes()), arg_in("raw", self.scales())]


def dequant():
    f = File("dequant_q2_0")
    w = Weights(3, 5)
    f.case("3 rows of 5 blocks", (32 * 5, 1), [0], [3, 5], w.args() + [arg_out("f32", words_of(sum((w.row(r) for r in range(3)), [])))])
    w = Weights(2, 20, 2)
    f.case("four blocks a scale", (32 * 20, 1), [2], [2, 20], w.args() + [arg_out("f32", words_of(w.row(0) + w.row(1)))])
    return f


def get_rows_q2_0():
    f = File("get_rows_q2_0")
    w, row0, tokens = Weights(3, 2), 100, [102, 99, 100, 103]
    out = [w.row(t - row0) if 0 <= t - row0 < 3 else [UNWRITTEN] * 128 for t in tokens]
    f.case("rows 100..102 of a table", (2, 4), [0], [3, 2, row0, 16],
           w.args() + [arg_in("u32", [0] * 16 + tokens), arg_out("f32", [UNWRITTEN if x is None else bits(x) for row in out for x in row])])
    return f


def mul_mat(act):
    f = File(f"mul_mat_q2_0_{act}")
    for name, rows, nb, n, row0, stride, share in (("a slice and one block", 3, 9, 2, 0, 3, 0), ("33 rows inside wider ones", 33, 2, 1, 5, 40, 0),
                                                   ("two blocks a scale", 2, 18, 1, 0, 2, 1)):
        w, x = Weights(rows, nb, share), [numbers(64 * nb, 4) for _ in range(n)]
        y = [[UNWRITTEN] * stride for _ in range(n)]
        for t in range(n):
            for r in range(rows):
                y[t][row0 + r] = bits(product(act, w, r, x[t]))
        f.case(name, (rows, n), [16 * min((nb + 7) // 8, 32), nb, share], [rows, n, nb, row0, stride],
               w.args() + [arg_in("raw" if act != "f32" else "f32", activations(act, x)), arg_out("f32", sum(y, []))])
    return f


def product(act, w, row, x):
    total = Fraction(0)
    for s in range(0, w.nb, 8):
        part = Fraction(0)
        for b in range(s, min(s + 8, w.nb)):
            part = add(part, term(act, [c - 1 for c in w.code[row][b]], w.scale(row, b), x[64 * b:64 * b + 64]))
        total = add(total, part)
    return tidy(total)


def term(act, t, dw, x):
    if act == "i8":
        d, q = block(x)
        return mul(sum(a * b for a, b in zip(t, q)), mul(dw, d))
    if act == "f16":
        x = [f32(f16(v)) for v in x]
    q = []
    for i in range(0, 64, 16):
        s = Fraction(0)
        for a, b in zip(t[i:i + 16], x[i:i + 16]):
            s = add(s, a * b)
        q.append(s)
    return mul(add(add(q[0], q[1]), add(q[2], q[3])), dw)


# --- other formats of weights ------------------------------------------------

def formats():
    files = []
    for name in list(BLOCK) + ["f32", "f16", "bf16"]:
        def weights(rows, nb, k=None):
            if name in BLOCK:
                return BlockWeights(R, name, rows, -(-nb // BLOCK[name][1]) * BLOCK[name][1])
            return FloatWeights(R, name, rows, k or 64 * nb)

        f = File(f"dequant_{name}")
        w = weights(3, 1, 150)
        f.case("3 rows", (32 * w.nb, 1), [], [3, w.width],
               [arg_in("raw", w.words), arg_out("f32", words_of(sum((w.row(r) for r in range(3)), [])))])
        files.append(f)

        f = File(f"get_rows_{name}")
        w, row0, tokens = weights(3, 1, 150), 100, [102, 99, 100, 103]
        out = [w.row(t - row0) if 0 <= t - row0 < 3 else [UNWRITTEN] * len(w.row(0)) for t in tokens]
        f.case("rows 100..102 of a table", (w.nb, 4), [], [3, w.width, row0, 16],
               [arg_in("raw", w.words), arg_in("u32", [0] * 16 + tokens),
                arg_out("f32", [UNWRITTEN if x is None else bits(x) for row in out for x in row])])
        files.append(f)

        for act in ("i8", "f16", "f32"):
            f = File(f"mul_mat_{name}_{act}")
            w, row0, stride = weights(3, 9, 600 if act == "f32" else None), 1, 5
            k = len(w.row(0))
            x = [numbers(k, 4) for _ in range(2)]
            y = [[UNWRITTEN] * stride for _ in x]
            for t, row in enumerate(x):
                quantized = [block(row[b:b + 64]) for b in range(0, k, 64)] if act == "i8" else []
                seen = {"i8": sum((q for _, q in quantized), []), "f16": [f32(f16(v)) for v in row], "f32": row}[act]
                for r in range(3):
                    y[t][row0 + r] = bits(w.product(act, r, seen, [d for d, _ in quantized]))
            f.case("a slice and more", (3, 2), [32, w.nb], [3, 2, w.width, row0, stride],
                   [arg_in("raw", w.words), arg_in("raw" if act != "f32" else "f32", activations(act, x)), arg_out("f32", sum(y, []))])
            files.append(f)
    return files


# --- attention --------------------------------------------------------------

class Cache:
    def __init__(self, pages, kv, dim):
        self.pages, self.kv, self.dim = pages, kv, dim
        self.half = [0] * (2 * pages * kv * PAGE * dim)

    def key(self, page, head, pos, d):
        return (((page * self.kv + head) * (self.dim // 8) + d // 8) * PAGE + pos % PAGE) * 8 + d % 8

    def value(self, page, head, pos, d):
        return len(self.half) // 2 + ((page * self.kv + head) * PAGE + pos % PAGE) * self.dim + d

    def words(self):
        return [self.half[i] | self.half[i + 1] << 16 for i in range(0, len(self.half), 2)]

    def v_base(self):
        return len(self.half) // 4

    def store(self, values, page, pos, row):
        for d, v in enumerate(row):
            self.half[self.value(page, 0, pos, d) if values else self.key(page, 0, pos, d)] = f16(v)


def rounded_up(x, digits):
    """To so many significant bits."""
    unit = Fraction(1)
    while x >= unit * 2**digits:
        unit *= 2
    while x < unit * 2 ** (digits - 1):
        unit /= 2
    return -(-x // unit) * unit


def quantized(bits, x):
    """Scale and integers of 32 elements."""
    top = max(abs(v) for v in x)
    if top < Fraction(1, 2**14):
        return Fraction(0), [0] * 32
    if bits == 8:
        d = min(rounded_up(mul(top, rnd(Fraction(1, 127))), 4), 512)
        return d, [min(max(round(mul(v, recip(d))), -127), 127) for v in x]
    d = min(rounded_up(top / 8, 8), 8160)
    sign = -1 if top in x else 1
    return sign * d, [min(max(round(sign * mul(v, recip(d))), -8), 7) for v in x]


class CacheQ(Cache):
    """A cache of few bits: integers and scales beside the halves that they mean."""

    def __init__(self, pages, kv, dim, bits):
        super().__init__(pages, kv, dim)
        self.bits = bits
        self.q = [0] * len(self.half)  # in the places of the halves
        self.d = {}  # half of a group, by the place of its first element

    def at(self, values, page, head, pos, d):
        return self.value(page, head, pos, d) if values else self.key(page, head, pos, d)

    def group(self, values, page, head, pos, g, scale, q):
        self.d[self.at(values, page, head, pos, 32 * g)] = f16(scale)
        for i, v in enumerate(q):
            at = self.at(values, page, head, pos, 32 * g + i)
            self.q[at], self.half[at] = v, f16(scale * v)

    def store(self, values, page, pos, row):
        for g in range(len(row) // 32):
            x = row[32 * g:32 * g + 32]
            if self.bits[values] == 16:
                for i, v in enumerate(x):
                    self.half[self.at(values, page, 0, pos, 32 * g + i)] = f16(v)
            else:
                self.group(values, page, 0, pos, g, *quantized(self.bits[values], x))

    def fill(self):
        for values in (False, True):
            for page in range(self.pages):
                for head in range(self.kv):
                    for pos in range(PAGE):
                        for g in range(self.dim // 32):
                            bits = self.bits[values]
                            scale = Fraction(R.randint(1, 15), 2 ** (R.randint(0, 2) + bits))
                            self.group(values, page, head, pos, g, scale, [R.randrange(-2 ** (bits - 1), 2 ** (bits - 1)) for _ in range(32)])

    def side(self, values):
        bits, out = self.bits[values], []
        for page in range(self.pages):
            for head in range(self.kv):
                rows = [(pos, range(8 * e, 8 * e + 8)) for e in range(self.dim // 8) for pos in range(PAGE)]
                scales = [(pos, s) for s in range(self.dim // 64) for pos in range(PAGE)]
                if values:
                    rows = [(pos, range(self.dim)) for pos in range(PAGE)]
                    scales = [(pos, s) for pos in range(PAGE) for s in range(self.dim // 64)]
                stored = self.half if bits == 16 else self.q
                for pos, dims in rows:
                    code = [stored[self.at(values, page, head, pos, d)] & (2**bits - 1) for d in dims]
                    out += [sum(c << bits * i for i, c in enumerate(code[at:at + 32 // bits])) for at in range(0, len(code), 32 // bits)]
                if bits < 16:
                    d = [[self.d.get(self.at(values, page, head, pos, 64 * s + i), 0) for i in (0, 32)] for pos, s in scales]
                    out += [low | high << 16 for low, high in d]
        return out

    def words(self):
        return self.side(False) + self.side(True)

    def v_base(self):
        return len(self.side(False))


def batch(positions, lists, extra=0):
    """Words of a batch: positions at 16, tables behind, then the page lists."""
    n, words, tables = len(positions), [], []
    for pages in lists:
        tables.append(16 + 2 * n + len(words))
        words += pages
    return [0] * 16 + positions + tables + words + [0] * extra


def qkv_rope_cache(suffix):
    f = File(f"qkv_rope_cache_{suffix}")
    heads, kv, dim, positions = 2, 1, 16 if suffix == "f16" else 64, [63, 64]
    pages, slots = [2, 0], heads + 2 * kv
    for name, turned, more, types in (("positions 63 and 64", dim, 0, [8, 4]), ("a part of the head turned, wider rows", 6, 5, [4, 16])):
        cache = Cache(3, kv, dim) if suffix == "f16" else CacheQ(3, kv, dim, types)
        before = cache.words()
        b = batch(positions, [pages, pages])
        x = [[numbers(dim, 3) for _ in range(slots)] + [numbers(more)] for _ in positions]
        x[0][3][1], x[0][3][2], x[1][3][0] = Fraction(70000), Fraction(-65520), Fraction(65519)
        q_norm, k_norm = numbers(dim), numbers(dim)
        table = numbers(65 * turned)
        consts = [Fraction(1)] + q_norm + k_norm + table
        inv, eps, scale = rnd(Fraction(1, dim)), rnd(Fraction(1, 100000)), rnd(Fraction(36067, 100000))
        saturated, y = 0, []
        for t, pos in enumerate(positions):
            page = pages[pos // PAGE]
            for slot in range(slots):
                u = x[t][slot]
                if slot < heads + kv:
                    u = norm(u, q_norm if slot < heads else k_norm, inv, eps)
                    half, rotated = turned // 2, list(u)
                    for i in range(half):
                        c, s = table[(pos * half + i) * 2], table[(pos * half + i) * 2 + 1]
                        rotated[i] = sub(mul(u[i], c), mul(u[i + half], s))
                        rotated[i + half] = add(mul(u[i], s), mul(u[i + half], c))
                    u = rotated
                if slot < heads:
                    y += [tidy(round13(mul(v, scale))) for v in u]
                    continue
                y += x[t][slot]
                cache.store(slot >= heads + kv, page, pos, u)
                saturated += sum(abs(v) >= 65520 for v in u)
            y += x[t][slots]
        after = list(b)
        after[1] = saturated
        f.case(name, (slots, 2), [dim, kv, turned] + (types if suffix == "q" else []),
               [heads, slots * dim + more, 16, 18, cache.v_base(), 1, 1 + dim, 1 + 2 * dim, bits(inv), bits(eps), bits(scale)],
               [arg_io("f32", words_of(sum((h for t in x for h in t), [])), words_of(y)), arg_io("raw", before, cache.words()),
                arg_io("u32", b, after), arg_in("f32", words_of(consts))])
    return f


def chunk(cache, q, page, head, count):
    dim = cache.dim
    s = []
    for j in range(count):
        v = Fraction(0)
        for d in range(dim):
            v = add(v, q[d] * f32(cache.half[cache.key(page, head, j, d)]))
        s.append(v)
    e = Fraction(round(max(s)))
    p = [round13(exp2(sub(v, e))) for v in s]
    l = Fraction(0)
    for v in p:
        l = add(l, v)
    o = []
    for d in range(dim):
        v = Fraction(0)
        for j in range(count):
            v = add(v, p[j] * f32(cache.half[cache.value(page, head, j, d)]))
        o.append(tidy(v))
    return e, tidy(l), o


def join(chunks):
    e, l, o = chunks[0]
    for next_e, next_l, next_o in chunks[1:]:
        m = max(e, next_e)
        a, b = pow2(e - m), pow2(next_e - m)
        e, l, o = m, tidy(add(l * a, next_l * b)), [tidy(add(x * a, y * b)) for x, y in zip(o, next_o)]
    r = recip(l)
    return [tidy(mul(x, r)) for x in o]


class Scene:
    """Two sequences: one of 71 positions, one of 2."""

    def __init__(self, suffix):
        R.seed("attention")
        self.suffix, self.types = suffix, [8, 4] if suffix == "q" else []
        self.kv, self.share, self.dim, self.chunks = 2, 2, 16, 2
        if self.types:
            self.kv, self.dim = 1, 64
        self.positions, self.lists = [70, 1], [[2, 0], [1]]
        self.heads, self.stride = self.kv * self.share, self.kv * self.share * self.dim + 4
        if self.types:
            self.cache = CacheQ(3, self.kv, self.dim, self.types)
            self.cache.fill()
        else:
            self.cache = Cache(3, self.kv, self.dim)
            self.cache.half = [f16(number(2)) for _ in self.cache.half]
        self.q = [[round13(number(2)) for _ in range(self.stride)] for _ in self.positions]
        self.batch = batch(self.positions, self.lists)
        self.parts = [[[chunk(self.cache, self.q[t][h * self.dim:(h + 1) * self.dim], self.lists[t][c], h // self.share, min(PAGE, pos + 1 - c * PAGE))
                        for c in range(pos // PAGE + 1)] for h in range(self.heads)] for t, pos in enumerate(self.positions)]

    def args(self):
        return [arg_in("f32", words_of(sum(self.q, []))), arg_in("raw", self.cache.words()), arg_in("u32", self.batch)]

    def part_words(self, missing):
        out = []
        for t in self.parts:
            for h in t:
                for c in range(self.chunks):
                    out += [bits(x) for x in h[c][2] + [h[c][0], h[c][1]]] if c < len(h) else [missing] * (self.dim + 2)
        return out


def attention(scene):
    f = File(f"attention_{scene.suffix}")
    y = [x for t in scene.parts for h in t for x in join(h)]
    f.case("two sequences", (scene.heads, 2), [scene.dim, scene.kv, scene.share] + scene.types, [2, scene.stride, 16, 18, scene.cache.v_base()],
           scene.args() + [arg_out("f32", words_of(y))])
    return f


def attention_part(scene):
    f = File(f"attention_part_{scene.suffix}")
    f.case("two sequences", (scene.chunks, 2 * scene.kv), [scene.dim, scene.kv, scene.share] + scene.types,
           [scene.chunks, scene.stride, 16, 18, scene.cache.v_base()], scene.args() + [arg_out("f32", scene.part_words(UNWRITTEN))])
    return f


def attention_join(scene, act):
    f = File(f"attention_join_{act}")
    rows = [[x for h in t for x in join(h)] for t in scene.parts]
    per = {"f32": 1, "f16": 2, "i8": 4}[act]
    f.case("two sequences", (scene.heads * scene.dim // per, 2), [scene.dim], [2, scene.heads, scene.chunks, 16],
           [arg_in("f32", scene.part_words(bits(NAN))), arg_in("u32", scene.batch),
            arg_out("raw" if act != "f32" else "f32", activations(act, rows))])
    return f


def main(folder):
    from delta import delta  # these use this file's helpers
    from experts import experts
    from hadamard import hadamards
    from sample import sampling
    scene, few = Scene("f16"), Scene("q")
    files = [dequant(), get_rows_q2_0(), pick_rows_f32(), add_check(), argmax(), qkv_rope_cache("f16"), attention(scene), attention_part(scene),
             qkv_rope_cache("q"), attention(few), attention_part(few)]
    files += [quantize(a) for a in ("f16", "i8")]
    for act in ("f32", "f16", "i8"):
        files += [rms_norm(act), silu_mul(act), mul_mat(act), attention_join(scene, act)]
    for f in files + formats() + delta() + experts() + hadamards() + sampling():
        f.write(folder)


if __name__ == "__main__":
    main(sys.argv[1])
