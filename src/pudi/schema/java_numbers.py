"""Write floats and doubles as Java does, and read such texts (`Float.toString`, `Double.toString`).

Since Java 19 the text is the shortest that reads back as the number. Earlier releases, which most Hudi jobs run on,
divide out digit by digit and stop at the first one that tells the number from its neighbours, which at times gives
other digits: 2.0E23 is 1.9999999999999998E23 there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_FORM = r"^(?:-?(?:[0-9]+\.[0-9]+(?:E-?[0-9]+)?|Infinity)|NaN)\z"
_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<exp>[+-]?\d+))?$"
_FRACTION = 52
"""Bits of a double behind its highest one."""
_BITS_OF_5 = (0, *((5**power).bit_length() for power in range(1, 27)))
_LONG, _INT = 64, 32
"""Bits of Java's numbers."""


@dataclass(frozen=True, slots=True)
class _Binary:
    """A positive number, `bits * 2**(exponent - 52)`.

    Attributes:
        exponent: the exponent of the highest bit.
        bits: 53 bits, the highest of them set.
        significant: how many of them the number's type has.
    """

    exponent: int
    bits: int
    significant: int


_Digits = tuple[str, int]
"""Decimal digits without zeros at the end, and the place of the point: ("125", 1) is 1.25."""


def texts_of_numbers(numbers: pa.Array) -> pa.Array:
    """Write numbers as Java before 19 does; null stays null.

    Args:
        numbers: float32 or float64. Each is computed by itself, so they should be distinct.
    """
    single = numbers.type == pa.float32()
    texts = [None if value is None else _text(value, single=single) for value in numbers.to_pylist()]
    return pa.array(texts, pa.string())


def java_float_text(array: pa.Array) -> pa.Array:
    """The text of `Float.toString` or `Double.toString`: 0.1, 1.0E7, -0.0, NaN, Infinity.

    Digits are the fewest that tell the number from its neighbours, as in Java 19 and later. Older
    Javas print more of them for some numbers (1.9999999999999998E23 for 2e23), and every Java for
    the very smallest (4.9E-324, here 5.0E-324).
    """
    plain = pc.cast(array, pa.string())
    # flatten, unlike field, keeps the nulls of the struct.
    sign, whole, part, exp = pc.extract_regex(plain, _PARTS).flatten()
    every = pc.binary_join_element_wise(whole, part, "")
    kept = pc.utf8_ltrim(every, "0")
    zeros = pc.subtract(pc.utf8_length(every), pc.utf8_length(kept))
    given = pc.cast(pc.if_else(pc.equal(exp, ""), "0", pc.utf8_ltrim(exp, "+")), pa.int32())
    exponent = pc.subtract(pc.subtract(pc.add(given, pc.utf8_length(whole)), 1), zeros)
    digits = pc.utf8_rtrim(kept, "0")
    rest = pc.utf8_slice_codeunits(digits, 1)
    scientific = pc.binary_join_element_wise(
        sign,
        pc.utf8_slice_codeunits(digits, 0, 1),
        ".",
        pc.if_else(pc.equal(rest, ""), "0", rest),
        "E",
        pc.cast(exponent, pa.string()),
        "",
    )
    size = pc.abs(array)
    simple = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    decimal = pc.binary_join_element_wise(sign, whole, ".", pc.if_else(pc.equal(part, ""), "0", part), "")
    infinite = pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
    text = pc.case_when(
        pc.make_struct(pc.is_nan(array), pc.is_inf(array), simple), "NaN", infinite, decimal, scientific
    )
    return pc.cast(text, pa.string())


def numbers_of_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read numbers that Java wrote; null where a text is no such number.

    Args:
        texts: texts, null among them.
        kind: float32 or float64.
    """
    known = pc.if_else(pc.match_substring_regex(texts, _FORM), texts, pa.scalar(None, pa.string()))
    return known.cast(kind)


def _text(value: float, *, single: bool) -> str:
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    text, point = _digits(abs(value), single=single)
    if 0 < point < 8:
        return f"{sign}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    if -3 < point <= 0:
        return f"{sign}0.{'0' * -point}{text}"
    return f"{sign}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _estimated_point(number: _Binary) -> int:
    """Return Java's estimate of the decimal exponent, which may be too great by one."""
    mantissa = number.bits / (1 << _FRACTION)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + number.exponent * 0.301029995663981)


def _bits_of_5(power: int) -> int:
    return _BITS_OF_5[power] if power < len(_BITS_OF_5) else 3 * power


def _digits(value: float, *, single: bool) -> _Digits:
    number = _taken_apart(value, single=single)
    zeros = (number.bits & -number.bits).bit_length() - 1
    length = _FRACTION + 1 - zeros
    below_point = max(0, length - number.exponent - 1)
    if below_point == 0 and number.exponent < 63:
        return _of_integer(number)
    return _divided(number, zeros, length, below_point)


def _taken_apart(value: float, *, single: bool) -> _Binary:
    fraction, exponent = math.frexp(value)
    bits = int(math.ldexp(fraction, _FRACTION + 1))
    least, own = (-126, 24) if single else (-1022, 53)
    return _Binary(exponent - 1, bits, own - max(0, least - (exponent - 1)))


def _of_integer(number: _Binary) -> _Digits:
    """Return the digits of a whole number below 2**63, without those that its bits don't state."""
    whole = number.bits << number.exponent >> _FRACTION
    unstated = number.exponent - number.significant - 1 if number.exponent > number.significant else 0
    dropped = len(str(1 << unstated)) - 1 if unstated > 1 else 0
    if dropped:
        scale = 10**dropped
        whole = whole // scale + (whole % scale >= scale // 2)
    text = str(whole)
    return text.rstrip("0"), len(text) + dropped


def _wrapped(number: int, width: int) -> int:
    """Return the number as a signed one of so many bits holds it; 0 for any number of bits."""
    return number if not width else (number + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def _divided(number: _Binary, zeros: int, length: int, below_point: int) -> _Digits:
    """Divide the number by a power of ten, digit by digit, until the rest is less than half a unit of its last bit."""
    point = _estimated_point(number)
    fives, tens_fives = max(0, -point), max(0, point)
    twos, tens_twos = fives + below_point + number.exponent, tens_fives + below_point
    half_twos = twos - number.significant
    twos -= length - 1
    common = min(twos, tens_twos)
    twos, tens_twos, half_twos = twos - common, tens_twos - common, half_twos - common
    if length == 1:  # the next number below a power of two is nearer
        half_twos -= 1
    if half_twos < 0:
        twos, tens_twos, half_twos = twos - half_twos, tens_twos - half_twos, 0
    bits = length + twos + _bits_of_5(fives)
    over_bits = tens_twos + 1 + _bits_of_5(tens_fives + 1)
    exact = not (bits < _LONG and over_bits < _LONG)
    width = 0 if exact else _INT if bits < _INT and over_bits < _INT else _LONG
    rest = (number.bits >> zeros) * 5**fives << twos
    unit, half = 5**tens_fives << tens_twos, 5**fives << half_twos
    tens = unit * 10

    def step(rest: int, half: int) -> tuple[str, int, bool, bool]:
        digit, rest = divmod(rest, unit)
        rest *= 10
        if half <= 0:  # Java ran out of bits
            return str(digit), rest, True, True
        reached = _wrapped(rest + half, width)
        return str(digit), rest, rest < half, reached >= tens if exact else reached > tens

    half *= 10
    digits, rest, low, high = step(rest, half)
    if digits == "0" and not high:
        digits, point = "", point - 1
    if not -3 <= point < 8:  # an exponent follows, and with it a second digit
        low = high = False
    while not (low or high):
        half = _wrapped(half * 10, width)
        digit, rest, low, high = step(rest, half)
        digits += digit
    tie = 2 * rest - tens if low else 1
    if high and (tie > 0 or (tie == 0 and digits[-1] in "13579")):
        rounded = str(int(digits) + 1)
        digits, point = rounded, point + len(rounded) - len(digits)
    return digits.rstrip("0"), point + 1
