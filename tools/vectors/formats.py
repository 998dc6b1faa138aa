"""Packed weights of the block formats and of floats, as runtime/ref/block.go and
float_weights.go describe them, made up and multiplied over rational numbers.
"""

from fractions import Fraction

from exact import add, bits, f16, f32, from_bits, mul, rnd, tidy


def element(k, m):
    """The element of byte m of code word k."""
    return 16 * (k // 4) + k % 4 + 4 * m


def code_words(codes):
    return [sum((codes[element(k, m)] & 255) << 8 * m for m in range(4)) for k in range(16)]


def squeeze(codes, bits):
    """Code words of codes of few bits, several to a word."""
    per, words = 8 // bits, code_words(codes)
    return [sum(w << bits * i for i, w in enumerate(words[at:at + per])) for at in range(0, 16, per)]


def base3(digits):
    """The byte of four or five digits, the first the most significant."""
    v = sum(d * 3 ** (4 - n) for n, d in enumerate(digits))
    return -(-v * 256 // 243)


def trits(codes):
    """Three words and the tail byte."""
    digit = [[codes[element(k, m)] for m in range(4)] for k in range(16)]
    words = [sum(base3([digit[5 * w + n][m] for n in range(5)]) << 8 * m for m in range(4)) for w in range(3)]
    return words, base3(digit[15])


def pair(low, high):
    return low | high << 16


class Block:
    """64 weights: integers q, s and n (by quarter), halves d and m (by half of the block)."""

    def __init__(self, r, like=None):
        self.q, self.s, self.n = [], [1] * 4, [0] * 4
        self.d = like.d if like else [half(r), half(r)]
        self.m = like.m if like else [half(r), half(r)]

    def weight(self, i):
        v = self.q[i] * self.s[i // 16] * f32(self.d[i // 32])
        return tidy(rnd(v + self.n[i // 16] * f32(self.m[i // 32])))


def half(r):
    return f16(Fraction(r.getrandbits(12) - 2**11, 2**14))


def offset(codes, by):
    return [c - by for c in codes]


def blocks(r, count, low, high, shared):
    """Blocks of one unit with codes of low..high; all share d and m, or none do."""
    out = []
    for _ in range(count):
        b = Block(r, out[0] if shared and out else None)
        if shared:
            b.d, b.m = [b.d[0]] * 2, [b.m[0]] * 2
        b.q = [r.randint(low, high) for _ in range(64)]
        out.append(b)
    return out


def q8_0(r):
    b, = blocks(r, 1, -128, 127, False)
    return [b], code_words(b.q) + [pair(*b.d)]


def q4_0(r):
    b, = blocks(r, 1, -8, 7, False)
    return [b], squeeze(offset(b.q, -8), 4) + [pair(*b.d)]


def q4_1(r):
    b, = blocks(r, 1, 0, 15, False)
    b.n = [1] * 4
    return [b], squeeze(b.q, 4) + [pair(*b.d), pair(*b.m)]


def q1_0(r):
    unit = blocks(r, 2, 0, 1, True) + blocks(r, 2, 0, 1, True)
    words = [w for b in unit for w in squeeze(b.q, 1)]
    for b in unit:
        b.q = [2 * c - 1 for c in b.q]
    return unit, words + [pair(unit[0].d[0], unit[2].d[0])]


def ptq1_0(r):
    unit = blocks(r, 2, -1, 1, True)
    (a, x), (b, y) = (trits(offset(u.q, -1)) for u in unit)
    return unit, a + b + [x | y << 8 | unit[0].d[0] << 16]


def tq1_0(r):
    unit = blocks(r, 4, -1, 1, True)
    packed = [trits(offset(u.q, -1)) for u in unit]
    words = [w for three, _ in packed for w in three]
    return unit, words + [sum(tail << 8 * i for i, (_, tail) in enumerate(packed)), unit[0].d[0]]


def q2_k(r):
    unit = blocks(r, 4, 0, 3, True)
    for b in unit:
        b.s, b.n = [r.randrange(16) for _ in range(4)], [r.randrange(16) for _ in range(4)]
    words = [w for b in unit for w in squeeze(b.q, 2)]
    words += [sum((s | n << 4) << 8 * j for j, (s, n) in enumerate(zip(b.s, b.n))) for b in unit]
    return unit, words + [pair(unit[0].d[0], unit[0].m[0])]


def q4_k(r):
    unit = blocks(r, 4, 0, 15, True)
    s, n = [r.randrange(64) for _ in range(8)], [r.randrange(64) for _ in range(8)]
    for i, b in enumerate(unit):
        b.s, b.n = ([v[2 * i]] * 2 + [v[2 * i + 1]] * 2 for v in (s, n))
    words = [w for b in unit for w in squeeze(b.q, 4)]
    words += [sum((v & 15) << 4 * g for g, v in enumerate(x)) for x in (s, n)]
    words += [pair(*(sum((v >> 4) << 2 * g for g, v in enumerate(x)) for x in (s, n)))]
    return unit, words + [pair(unit[0].d[0], unit[0].m[0])]


def q6_k(r):
    unit = blocks(r, 4, -32, 31, True)
    for b in unit:
        b.s = [r.randint(-128, 127) for _ in range(4)]
    codes = [offset(b.q, -32) for b in unit]
    words = [w for c in codes for w in squeeze([v & 15 for v in c], 4)]
    words += [w for c in codes for w in squeeze([v >> 4 for v in c], 2)]
    words += [sum((v & 255) << 8 * j for j, v in enumerate(b.s)) for b in unit]
    return unit, words + [unit[0].d[0]]


# What makes a unit, its blocks, terms of a block, and whether there are minima.
BLOCK = {
    "q8_0": (q8_0, 1, 2, False), "q4_0": (q4_0, 1, 2, False), "q4_1": (q4_1, 1, 2, True), "q1_0": (q1_0, 4, 1, False),
    "ptq1_0": (ptq1_0, 2, 1, False), "tq1_0": (tq1_0, 4, 1, False),
    "q2_k": (q2_k, 4, 1, True), "q4_k": (q4_k, 4, 1, True), "q6_k": (q6_k, 4, 2, False),
}


def grouped(rows, words):
    """Words of units [row][unit][word] with 32 rows innermost."""
    out = []
    for g in range(0, rows, 32):
        for u in range(len(words[0])):
            for w in range(len(words[0][0])):
                out += [words[r][u][w] if r < rows else 0 for r in range(g, g + 32)]
    return out


class BlockWeights:
    def __init__(self, r, name, rows, nb):
        make, per, self.terms, self.minima = BLOCK[name]
        units = [[make(r) for _ in range(0, nb, per)] for _ in range(rows)]
        self.blocks = [[b for unit, _ in row for b in unit] for row in units]
        self.nb, self.width = nb, nb
        self.words = grouped(rows, [[words for _, words in row] for row in units])

    def row(self, r):
        return [b.weight(i) for b in self.blocks[r] for i in range(64)]

    def product(self, act, row, x, scales):
        """x by block: integers with their scales, or floats."""
        total = Fraction(0)
        for s in range(0, self.nb, 8):
            part = Fraction(0)
            for i in range(s, min(s + 8, self.nb)):
                for t in range(self.terms):
                    part = add(part, self.term(self.blocks[row][i], t, x[64 * i:64 * i + 64], scales[i] if act == "i8" else None))
            total = add(total, part)
        return tidy(total)

    def term(self, b, t, x, da):
        quarters = range(4) if self.terms == 1 else (2 * t, 2 * t + 1)
        d, m = f32(b.d[2 * t // self.terms]), f32(b.m[2 * t // self.terms])
        if da is not None:
            c = sum(b.s[j] * b.q[i] * x[i] for j in quarters for i in range(16 * j, 16 * j + 16))
            low = sum(b.n[j] * x[i] for j in quarters for i in range(16 * j, 16 * j + 16))
            assert abs(c) < 2**24
            v = mul(c, mul(d, da))
            return add(v, mul(low, mul(m, da))) if self.minima else v
        c, low = [], []
        for j in quarters:
            p = s = Fraction(0)
            for i in range(16 * j, 16 * j + 16):
                p, s = add(p, mul(b.q[i], x[i])), add(s, x[i])
            c.append(mul(b.s[j], p))
            low.append(mul(b.n[j], s))
        v = mul(tree(c), d)
        return add(v, mul(tree(low), m)) if self.minima else v


def tree(c):
    return add(c[0], c[1]) if len(c) == 2 else add(add(c[0], c[1]), add(c[2], c[3]))


class FloatWeights:
    def __init__(self, r, name, rows, k):
        self.nb, self.width = (k + 63) // 64, k
        self.value, words = [], []
        for _ in range(rows):
            both = [self.random(r, name) for _ in range(k)]
            self.value.append([v for _, v in both])
            row = [b for b, _ in both] + [0] * (64 * self.nb - k)
            if name != "f32":
                row = [pair(*row[i:i + 2]) for i in range(0, len(row), 2)]
            per = len(row) // self.nb
            words.append([row[i:i + per] for i in range(0, len(row), per)])
        self.words = grouped(rows, words)

    def random(self, r, name):
        v = rnd(Fraction(r.getrandbits(20) - 2**19, 2**20))
        if name == "f16":
            return f16(v), f32(f16(v))
        if name == "f32":
            return bits(v), v
        return bits(v) >> 16, from_bits(bits(v) >> 16 << 16)

    def row(self, r):
        return self.value[r]

    def product(self, act, row, x, scales):
        total = Fraction(0)
        for s in range(0, self.nb, 8):
            part = Fraction(0)
            for b in range(s, min(s + 8, self.nb)):
                c = [Fraction(0)] * 4
                for i in range(64 * b, min(64 * b + 64, self.width)):
                    c[i % 64 // 16] = add(c[i % 64 // 16], mul(self.value[row][i], x[i]))
                v = tree(c)
                part = add(part, mul(v, scales[b]) if act == "i8" else v)
            total = add(total, part)
        return tidy(total)
