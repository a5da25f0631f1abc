"""Floating point numbers as Java prints them: an Arrow array of floats in, strings out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<exp>[+-]?\d+))?$"


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
