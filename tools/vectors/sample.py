"""Penalties, the largest logits and draws, as runtime/ref describes them
(penalise_f32.go, top_k_f32.go, sample_f32.go, sample.go), over rational numbers.
"""

from fractions import Fraction

from exact import add, bits, exp2, mul, rnd, sub, tidy
from make import File, R, arg_in, arg_io, arg_out, numbers, words_of

NAN, NONE, INFINITE, LOWEST = 0x7FC00000, 0xFFFFFFFF, 0x7F800000, 0xFF800000
HEAD = 16


def record(pairs=0, count=0, penalties=(1, 1, 0, 0), factor=0, k=128, top_p=0, min_p=0, seed=0, position=0):
    return ([pairs, count] + [bits(rnd(Fraction(p))) for p in penalties] + [bits(rnd(factor)), k, bits(rnd(top_p)), bits(rnd(min_p))]
            + [seed & NONE, seed >> 32, position & NONE, position >> 32])


def penalise():
    f = File("penalise_f32")
    k, repeat, presence, frequency = 9, rnd(Fraction(11, 10)), rnd(Fraction(1, 5)), rnd(Fraction(3, 10))
    inverse = rnd(1 / repeat)
    x = [numbers(k, 4), numbers(k, 4)]
    x[1][2] = Fraction(0)
    pairs = [[(0, 1), (3, 2), (8, 7)], [(2, 1), (4, 3)]]
    start = HEAD + 2 * 14
    batch, words = [7] * HEAD, []
    for row in pairs:
        batch += record(start + len(words), len(row), (repeat, inverse, presence, frequency))
        words += sum(map(list, row), [])
    after = [list(row) for row in x]
    for t, row in enumerate(pairs):
        for token, count in row:
            l = x[t][token]
            l = mul(l, inverse) if l > 0 else mul(l, repeat)
            after[t][token] = tidy(sub(l, add(mul(Fraction(count), frequency), presence)))
    f.case("two rows", (2, 1), [], [k, HEAD], [arg_io("f32", words_of(sum(x, [])), words_of(sum(after, []))), arg_in("u32", batch + words)])
    tiny = Fraction(1, 2**59)
    f.case("one that becomes zero", (1, 1), [], [2, HEAD],
           [arg_io("f32", words_of([tiny, -tiny]), words_of([Fraction(0), -4 * tiny])),
            arg_in("u32", [7] * HEAD + record(HEAD + 14, 2, (4, Fraction(1, 4), 0, 0)) + [0, 1, 1, 1])])
    return f


def value(word):
    """What to sort by: NaN has none."""
    if word & 0x7FFFFFFF > INFINITE:
        return None
    if word & 0x7FFFFFFF == INFINITE:
        return Fraction(-2**200 if word >> 31 else 2**200)
    x = Fraction(word & 0x7FFFFF | (0x800000 if word & 0x7F800000 else 0), 2**149) * 2**max((word >> 23 & 255) - 1, 0)
    return -x if word >> 31 else x


def best(words, k):
    """Positions of the k largest, then None."""
    order = sorted((i for i, w in enumerate(words) if value(w) is not None), key=lambda i: (-value(words[i]), i))
    return (order + [None] * k)[:k]


def top_k():
    f = File("top_k_f32")
    odd = [NAN, 0, 0x80000000, INFINITE, LOWEST, bits(Fraction(1)), 0xFFFFFFFF, bits(Fraction(1)), 0x7F7FFFFF, bits(Fraction(-1)), 0x80000000]
    rows = [words_of(numbers(5)) + odd + [0] * 4, [NAN] * 9 + [bits(Fraction(2))] * 6 + [LOWEST] * 5]
    width = len(rows[0])
    for name, part, k, ids in (("ties, NaN, infinities, signs of zero", 20, 6, False), ("parts, the last short", 8, 3, False),
                               ("more than there are", 20, 128, False), ("with ids", 20, 5, True), ("one", 7, 1, True)):
        parts, names = -(-width // part), [[R.getrandbits(31) for _ in row] for row in rows]
        values, found = [], []
        for row, own in zip(rows, names):
            for start in range(0, width, part):
                for i in best(row[start:start + part], k):
                    values.append(NAN if i is None else row[start + i])
                    found.append(NONE if i is None else own[start + i] if ids else start + i)
        f.case(name, (parts, len(rows)), [], [width, part, parts, k, len(rows), int(ids)],
               [arg_in("raw", sum(rows, []) + (sum(names, []) if ids else [])), arg_out("raw", values + found)])
    return f


def philox(seed, position):
    """The first word of Philox 4x32-10."""
    key, counter = [seed & NONE, seed >> 32], [position & NONE, position >> 32, 0, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & NONE, a >> 32 ^ counter[3] ^ key[1], a & NONE]
        key = [key[0] + 0x9E3779B9 & NONE, key[1] + 0xBB67AE85 & NONE]
    return counter[0]


def drawn(logits, factor, top_p, min_p, seed, position):
    """The index that is drawn from logits in order."""
    weights = [exp2(mul(sub(l, logits[0]), rnd(factor))) for l in logits]

    def total(w):
        s = Fraction(0)
        for x in w:
            s = add(s, x)
        return s

    if 0 < top_p < 1:
        limit = mul(rnd(top_p), total(weights))
        weights = weights[:next(n for n in range(1, len(weights) + 1) if total(weights[:n]) >= limit)]
    while len(weights) > 1 and weights[-1] < rnd(min_p):
        weights.pop()
    limit = mul(Fraction(philox(seed, position) >> 8, 2**24), total(weights))
    return next(n for n in range(len(weights)) if total(weights[:n + 1]) > limit)


def sample():
    f = File("sample_f32")
    k, share = 7, lambda a, b: Fraction(a, b)
    settings = [dict(factor=share(3, 2)), dict(factor=share(3, 2), top_p=share(4, 5)), dict(factor=share(1, 2), min_p=share(1, 3)),
                dict(factor=3, k=3), dict(factor=share(1, 4), k=5, top_p=share(9, 10), min_p=share(1, 10)), dict(k=1, factor=2**100)]
    records, values, ids, want = [], [], [], []
    for n, s in enumerate(settings * 6):
        s = dict(s, seed=R.getrandbits(64), position=R.getrandbits(9 + n))
        logits, own = sorted(numbers(k, 3), reverse=True), R.sample(range(1000), k)
        if n % 4 == 1:
            logits[3] = logits[2] = logits[1]
        records += record(**s)
        values, ids = values + words_of(logits), ids + own
        want.append(own[drawn(logits[:s.get("k", k)], s["factor"], s.get("top_p", 0), s.get("min_p", 0), s["seed"], s["position"])])
    n = len(want)
    head = [7] * HEAD
    f.case("settings", (n, 1), [], [k, n, HEAD, HEAD + len(records)],
           [arg_in("raw", values + ids), arg_io("u32", head + records + [9] * n, head + records + want)])
    short = record(factor=1) + record(factor=1)
    f.case("short lists", (2, 1), [], [3, 2, HEAD, HEAD + len(short)],
           [arg_in("raw", words_of(numbers(1)) + [NAN] * 5 + [11] + [NONE] * 5), arg_io("u32", head + short + [9, 9], head + short + [11, NONE])])
    endless = record(factor=1, seed=3)
    f.case("an infinity", (1, 1), [], [3, 1, HEAD, HEAD + len(endless)],
           [arg_in("raw", [INFINITE, INFINITE, bits(Fraction(1)), 5, 6, 4]), arg_io("u32", head + endless + [9], head + endless + [5])])
    return f


def sampling():
    return [penalise(), top_k(), sample()]
