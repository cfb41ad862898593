#!/usr/bin/env python3
"""Writes vectors.txt: expected results of floating-point ops and conversions, by exact rational arithmetic.

Nothing here is taken from the Rust code. Results come from fractions.Fraction (sums, products, quotients, fused multiply-adds,
conversions), from math.isqrt with 300 extra bits (square roots) and from mpmath at 200 bits (approximate functions), rounded
by the definition of each direction. Usage: reference.py [vectors per group] > vectors.txt

Lines: OP FMT OPERANDS... : RN RNA RZ RM RP      arithmetic; an op ending in .ftz flushes subnormals
       cvt FROM TO FLAGS OPERAND : RN RNA RZ RM RP
       approx OP FMT OPERAND : RESULT             correctly rounded
Numbers are encodings in hexadecimal.
"""
import math, random, sys
from fractions import Fraction
import mpmath

N = int(sys.argv[1]) if len(sys.argv) > 1 else 16
random.seed(2027)
mpmath.mp.prec = 200
MODES = ["rn", "rna", "rz", "rm", "rp"]
# name: (exponent bits, mantissa bits, kind of specials)
FMT = {"f16": (5, 10, "ieee"), "bf16": (8, 7, "ieee"), "f32": (8, 23, "ieee"), "f64": (11, 52, "ieee"), "e4m3": (4, 3, "nan"),
       "e5m2": (5, 2, "ieee"), "e2m3": (2, 3, "none"), "e3m2": (3, 2, "none"), "e2m1": (2, 1, "none"), "tf32": (8, 10, "ieee")}
NAN, INF = "nan", "inf"


class Fmt:
    def __init__(self, name):
        self.name = name
        self.exp, self.man, self.kind = FMT[name]
        self.bias = 2 ** (self.exp - 1) - 1
        self.emin = 1 - self.bias
        self.width = 1 + self.exp + self.man
        self.sign = 1 << (self.width - 1)
        top = (1 << (self.exp + self.man)) - 1
        self.inf_bits = ((1 << self.exp) - 1) << self.man
        self.max_bits = {"ieee": self.inf_bits - 1, "nan": top - 1, "none": top}[self.kind]
        self.max = self.decode(self.max_bits)[1]
        self.nan_bits = top

    def decode(self, bits):
        """(negative, value or NAN or INF)"""
        neg, mag = bool(bits & self.sign), bits & (self.sign - 1)
        if self.kind == "ieee" and mag >= self.inf_bits:
            return neg, INF if mag == self.inf_bits else NAN
        if self.kind == "nan" and mag == self.sign - 1:
            return neg, NAN
        field, frac = mag >> self.man, mag & ((1 << self.man) - 1)
        if field == 0:
            return neg, Fraction(frac) * Fraction(2) ** (self.emin - self.man)
        return neg, Fraction(frac + (1 << self.man)) * Fraction(2) ** (field - self.bias - self.man)

    def round(self, neg, value, mode, ftz):
        """Magnitude bits of a positive rational, or INF for overflow. With ftz there is no least exponent until after rounding."""
        quantum = Fraction(2) ** ((floor_log2(value) if ftz else max(floor_log2(value), self.emin)) - self.man)
        count = value / quantum
        low = math.floor(count)
        rest = count - low
        half = Fraction(1, 2)
        up = {"rn": rest > half or (rest == half and low % 2 == 1), "rna": rest >= half, "rz": False,
              "rm": neg and rest != 0, "rp": not neg and rest != 0}[mode]
        value = (low + up) * quantum
        if value > self.max:
            return INF
        if value < Fraction(2) ** self.emin:
            return 0 if ftz else int(value / Fraction(2) ** (self.emin - self.man))
        exp = floor_log2(value)
        return ((exp + self.bias) << self.man) + int(value / Fraction(2) ** (exp - self.man)) - (1 << self.man)

    def encode(self, neg, value, mode, satfinite=False, ftz=False):
        """All of a rounding: specials, overflow, sign"""
        if value is NAN:
            return self.max_bits if self.kind == "none" else self.nan_bits
        mag = value if value in (INF,) else (0 if value == 0 else self.round(neg, value, mode, ftz))
        if mag is INF:
            exact_inf = value is INF
            away = exact_inf or mode in ("rn", "rna") or (mode == "rm" and neg) or (mode == "rp" and not neg)
            mag = self.max_bits if satfinite or self.kind == "none" or not away else (
                self.inf_bits if self.kind == "ieee" else self.nan_bits)
        return mag | (self.sign if neg else 0)

    def flush(self, bits):
        return bits & self.sign if bits & self.inf_bits == 0 else bits


def floor_log2(v):
    guess = v.numerator.bit_length() - v.denominator.bit_length()
    while Fraction(2) ** guess > v:
        guess -= 1
    while Fraction(2) ** (guess + 1) <= v:
        guess += 1
    return guess


def signed(x):
    return -x[1] if x[0] else x[1]


def add(a, b, mode):
    if NAN in (a[1], b[1]) or (a[1] is INF and b[1] is INF and a[0] != b[0]):
        return False, NAN
    if a[1] is INF:
        return a
    if b[1] is INF:
        return b
    total = signed(a) + signed(b)
    if total == 0:
        return (a[0] if a[0] == b[0] else mode == "rm"), total
    return total < 0, abs(total)


def mul(a, b, mode):
    neg = a[0] != b[0]
    if NAN in (a[1], b[1]) or (a[1] is INF and b[1] == 0) or (b[1] is INF and a[1] == 0):
        return False, NAN
    return neg, INF if INF in (a[1], b[1]) else a[1] * b[1]


def div(a, b, mode):
    neg = a[0] != b[0]
    if NAN in (a[1], b[1]) or (a[1] is INF and b[1] is INF) or (a[1] == 0 and b[1] == 0):
        return False, NAN
    if a[1] is INF or b[1] == 0:
        return neg, INF
    return neg, Fraction(0) if b[1] is INF else a[1] / b[1]


def sqrt(a, mode):
    if a[1] is NAN or (a[0] and a[1] != 0):
        return False, NAN
    if a[1] is INF or a[1] == 0:
        return a
    scaled = a[1] * Fraction(4) ** 1500
    assert scaled.denominator == 1
    root = math.isqrt(scaled.numerator)
    inexact = root * root != scaled.numerator
    return False, Fraction(2 * root + inexact, 2) / Fraction(2) ** 1500


def fma(a, b, c, mode):
    return add(mul(a, b, mode), c, mode)


OPS = {"add": (2, add), "sub": (2, lambda a, b, m: add(a, (not b[0], b[1]), m)), "mul": (2, mul), "div": (2, div), "sqrt": (1, sqrt),
       "fma": (3, fma)}


def corner(f):
    man = (1 << f.man) - 1
    one = f.bias << f.man
    return random.choice([0, 1, 2, man, man + 1, man + 2, one, one + 1, one - 1, f.inf_bits - 1, f.inf_bits - 2, f.inf_bits,
                          f.inf_bits + 1, one + (man >> 1) + 1, 2 * (man + 1)]) | random.choice([0, f.sign])


def near(f, bits):
    """A number whose exponent differs little from that of another"""
    field = ((bits >> f.man) & ((1 << f.exp) - 1)) + random.randint(-f.man - 3, f.man + 3)
    field = min(max(field, 0), (1 << f.exp) - 2)
    return random.choice([0, f.sign]) | field << f.man | random.getrandbits(f.man) & random.choice([-1, -1 << (f.man // 2)])


def operands(f, n, op):
    if random.random() < 0.25:
        return [corner(f) for _ in range(n)]
    first = random.getrandbits(f.width) if random.random() < 0.4 else near(f, f.bias << f.man)
    rest = [near(f, random.choice([first, f.bias << f.man, f.man + 1])) for _ in range(n - 1)]
    if op == "fma" and random.random() < 0.6:
        a, b = f.decode(first), f.decode(rest[0])
        product = mul(a, b, "rn")
        if product[1] not in (NAN, INF):
            # Cancellation: the addend is close to minus the product.
            rest[1] = f.encode(not product[0], product[1], "rn") ^ random.choice([0, 0, 1, 2, 5])
    return [first] + rest


def arithmetic():
    for name in ("f16", "bf16", "f32", "f64"):
        f = Fmt(name)
        for op, (n, function) in OPS.items():
            for ftz in ([False, True] if name in ("f16", "f32") else [False]):
                # Just below the least normal number, where flushing before and after rounding differ.
                least, one = 1 << f.man, f.bias << f.man
                edges = {2: [[least, one - 1], [least + 1, one - 2]], 3: [[least, one - 1, 0], [least + 1, one - 2, f.sign]]}
                edges = edges.get(n, []) if op in ("mul", "fma") else []
                for args in edges + [operands(f, n, op) for _ in range(N)]:
                    ins = [f.decode(f.flush(a) if ftz else a) for a in args]
                    outs = [f.encode(*function(*ins, mode), mode, ftz=ftz) for mode in MODES]
                    print(op + (".ftz" if ftz else ""), name, *map(hex, args), ":", *map(hex, outs))


def round_int(value, neg, mode):
    low, rest = math.floor(value), value - math.floor(value)
    half = Fraction(1, 2)
    return low + {"rn": rest > half or (rest == half and low % 2 == 1), "rna": rest >= half, "rz": False, "rm": neg and rest != 0,
                  "rp": not neg and rest != 0}[mode]


def to_int(src, value, neg, bits, is_signed, mode):
    lo, hi = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    if value is NAN:
        return 1 << (bits - 1) if src == "f64" or bits == 64 else 0
    if value is INF:
        return (lo if neg else hi) & ((1 << bits) - 1)
    whole = round_int(value, neg, mode)
    return min(max(-whole if neg else whole, lo), hi) & ((1 << bits) - 1)


def float_source(f):
    choice = random.random()
    if choice < 0.2:
        return corner(f)
    if choice < 0.4:
        return random.getrandbits(f.width)
    # Around powers of two where integers and small formats end, ties included.
    target = Fraction(random.choice([random.getrandbits(6), random.getrandbits(33), max(2 ** random.randint(0, 64) - random.randint(0, 3), 0)]))
    target += random.choice([0, 0, Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)])
    target *= random.choice([1, 1, Fraction(1, 2 ** random.randint(0, 30))])
    return f.encode(random.random() < 0.5, target, "rz")


def conversions():
    ints = [(s + str(b), b, s == "s") for b in (8, 16, 32, 64) for s in "us"]
    floats = ["f16", "bf16", "f32", "f64"]
    for src in floats:
        f = Fmt(src)
        for name, bits, is_signed in ints:
            for _ in range(max(N // 2, 4)):
                a = float_source(f)
                neg, value = f.decode(a)
                print("cvt", src, name, "-", hex(a), ":", *(hex(to_int(src, value, neg, bits, is_signed, m)) for m in MODES))
        for dst in floats:
            if dst != src:
                narrowing(src, dst, "-")
    for name, bits, is_signed in ints:
        for dst in floats:
            g = Fmt(dst)
            for _ in range(max(N // 2, 4)):
                a = random.getrandbits(bits) & random.choice([(1 << bits) - 1, (1 << random.randint(1, bits)) - 1])
                value = a - (1 << bits) if is_signed and a >> (bits - 1) else a
                outs = [g.encode(value < 0, Fraction(abs(value)), m) for m in MODES]
                print("cvt", name, dst, "-", hex(a), ":", *map(hex, outs))
    for dst in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "tf32", "f16", "bf16"):
        for flags in ("satfinite", "satfinite.relu", "relu"):
            narrowing("f32", dst, flags)


def narrowing(src, dst, flags):
    f, g = Fmt(src), Fmt(dst)
    for _ in range(N):
        a = float_source(f)
        if random.random() < 0.5:
            # Near a number of the destination, or between two.
            neg, v = g.decode(random.getrandbits(g.width))
            if v not in (NAN, INF):
                bits = f.encode(neg, v, "rz")
                a = random.choice([bits, bits + 1, max(bits - 1, 0), bits + (1 << max(f.man - g.man - 1, 0))])
        neg, value = f.decode(a)
        outs = []
        for mode in MODES:
            out = g.encode(neg, value, mode, "satfinite" in flags)
            if "relu" in flags and value is not NAN and neg:
                out = 0
            outs.append(out << 13 if dst == "tf32" else out)
        print("cvt", src, dst, flags, hex(a), ":", *map(hex, outs))


APPROX = {"rcp": lambda x: 1 / x, "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x), "sin": mpmath.sin, "cos": mpmath.cos,
          "lg2": lambda x: mpmath.log(x, 2), "ex2": lambda x: mpmath.power(2, x), "tanh": mpmath.tanh}


def approximations():
    for name in ("f32", "f16", "bf16"):
        f = Fmt(name)
        for op, function in APPROX.items():
            for _ in range(N):
                a = near(f, f.bias << f.man)
                if op in ("sqrt", "rsqrt", "lg2"):
                    a &= ~f.sign
                neg, v = f.decode(a)
                if v == 0:
                    continue
                x = mpmath.mpf(v.numerator) / v.denominator * (-1 if neg else 1)
                y = function(x)
                sign, man, exp, _ = y._mpf_
                out = f.encode(bool(sign), Fraction(int(man)) * Fraction(2) ** int(exp), "rn")
                print("approx", op, name, hex(a), ":", hex(out))


arithmetic()
conversions()
approximations()
