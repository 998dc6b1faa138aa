"""Tern's arithmetic over rational numbers.

A float32 is a Fraction that binary32 can hold, or INF or NAN. Sums and products
are exact and then rounded once; nothing here uses the machine's floats for more
than packing. There is no negative zero: the contracts tidy what they store.
"""

import struct
from fractions import Fraction

INF, NAN = "inf", "nan"


def nearest(x, digits, least):
    """x to a multiple of 2^e with `digits` bits, e at least `least`, ties to even."""
    x = Fraction(x)
    if x == 0:
        return x
    e = least
    while abs(x) >= Fraction(2) ** (e + digits):
        e += 1
    unit = Fraction(2) ** e
    return round(x / unit) * unit  # round() of a Fraction takes ties to even


def rnd(x):
    """A rational number to float32."""
    x = Fraction(x)
    if x == 0:
        return x
    e = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    e = max(e - 25, -149)
    y = nearest(x, 24, e)
    assert abs(y) < Fraction(2) ** 128, "the vectors keep to finite values"
    return y


def add(a, b):
    return rnd(a + b)


def sub(a, b):
    return rnd(a - b)


def mul(a, b):
    return rnd(a * b)


def bits(x):
    if x == INF:
        return 0x7F800000
    if x == NAN:
        return 0x7FC00000
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


def from_bits(u):
    return Fraction(struct.unpack("<f", struct.pack("<I", u & 0xFFFFFFFF))[0])


def tidy(x):
    return Fraction(0) if abs(x) < Fraction(1, 2**60) else x


def recip(x):
    y = from_bits(0x7EF311C7 - bits(x))
    for _ in range(4):
        y = mul(y, sub(2, mul(x, y)))
    return y


def rsqrt(x):
    y = from_bits(0x5F3759DF - (bits(x) >> 1))
    h = mul(Fraction(1, 2), x)
    for _ in range(4):
        y = mul(y, sub(Fraction(3, 2), mul(mul(h, y), y)))
    return y


COEFFICIENTS = [0x39222000, 0x3AAFA460, 0x3C1D950E, 0x3D635766, 0x3E75FDF0, 0x3F317218]


def exp2(x):
    if x < -64:
        return Fraction(0)
    assert x <= 120
    n = round(x)
    f = sub(x, n)
    p = from_bits(COEFFICIENTS[0])
    for c in COEFFICIENTS[1:]:
        p = add(mul(p, f), from_bits(c))
    p = add(mul(p, f), 1)
    return p * Fraction(2) ** n


def sigmoid(x):
    e = exp2(mul(-abs(x), from_bits(0x3FB8AA3B)))
    r = recip(add(1, e))
    return r if x >= 0 else mul(e, r)


def silu(x):
    return mul(x, sigmoid(x))


def exp(x):
    return exp2(mul(x, from_bits(0x3FB8AA3B)))


def log1p(x):
    s = mul(x, recip(add(2, x)))
    z = mul(s, s)
    p = from_bits(0x3E102AF7)
    for c in (0x3E0F2E7E, 0x3E4CED0A, 0x3EAAAA71):
        p = add(mul(p, z), from_bits(c))
    return mul(mul(2, s), add(mul(p, z), 1))


def softplus(x):
    return add(max(x, Fraction(0)), log1p(exp(-abs(x))))


def pow2(d):
    return Fraction(2) ** int(d) if d >= -60 else Fraction(0)


def round13(x):
    """13 significant bits, halves away from zero."""
    if x == 0:
        return x
    e = 0
    while abs(x) >= Fraction(2) ** (e + 13):
        e += 1
    while abs(x) < Fraction(2) ** (e + 12):
        e -= 1
    unit = Fraction(2) ** e
    n = (abs(x) / unit + Fraction(1, 2)).__floor__()
    return n * unit if x > 0 else -n * unit


def f16(x):
    """Bits of the nearest half: ties to even, saturating; zero is +0."""
    h = min(nearest(abs(x), 11, -24), Fraction(65504))
    sign = 0x8000 if x < 0 and h > 0 else 0
    if h < Fraction(1, 2**14):
        return sign | int(h * 2**24)
    e = 0
    while h >= Fraction(2) ** (e + 1):
        e += 1
    while h < Fraction(2) ** e:
        e -= 1
    return sign | (e + 15) << 10 | int((h / Fraction(2) ** e - 1) * 1024)


def f32(h):
    """The value of a finite half."""
    e, m = h >> 10 & 31, h & 1023
    assert e < 31
    x = Fraction(m, 2**24) if e == 0 else Fraction(1024 + m, 1024) * Fraction(2) ** (e - 15)
    return -x if h & 0x8000 else x
