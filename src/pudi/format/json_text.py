"""Columns as JSON texts, in bulk: the two forms in which Hudi's CDC query gives records.

`avro_text` is what Avro's GenericData.toString makes, which gives records from CDC files. `plain_text` is what Jackson
makes of a row (InternalRowToJsonStringConverter), which gives records from data files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.format.avro_encode import decimal_cells
from pudi.schema.arrays import content_of, offsets_of
from pudi.schema.table_schema import decimal_bytes

_SHORT = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTROL = tuple(chr(code) for code in range(0x20) if chr(code) not in _SHORT)
_AVRO_ONLY = tuple(chr(code) for code in (*range(0x7F, 0xA0), *range(0x2000, 0x2100)))
"""Characters that Avro escapes and Jackson doesn't."""
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_NUMBER = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<power>[+-]?\d+))?$"


def avro_text(rows: pa.StructArray) -> pa.Array:
    """Return each record as Avro's toString writes it; "null" for a null.

    Args:
        rows: records, in pudi's types.
    """
    return _AVRO.text(rows)


def avro_texts(one: pa.StructArray, other: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    """Return the same of two versions of each record; a number that both have is written once."""
    if not len(one):
        return avro_text(one), avro_text(other)
    made: dict[str, tuple[pa.Array, pa.Array]] = {}
    for field, mine, theirs in zip(one.type, one.flatten(), other.flatten(), strict=True):
        if pt.is_float64(field.type):
            made[field.name] = _floats_of_both(mine, theirs)
    first, second = (
        _AVRO.record(rows, {name: texts[place] for name, texts in made.items()})
        for place, rows in enumerate((one, other))
    )
    return first, second


def plain_text(rows: pa.StructArray) -> pa.Array:
    """Return each record as compact JSON without the fields that are null; null for a null.

    Decimals are numbers. Hudi 1.2 writes `{"zero":false}` in their place, which says nothing of the value.
    """
    text = _PLAIN.text(rows)
    return pc.if_else(rows.is_valid(), text, pa.scalar(None, pa.string())) if rows.null_count else text


@dataclass(frozen=True, slots=True)
class _Style:
    """Spelling of values in one of the JSON forms.

    Attributes:
        comma: what separates fields, with its blanks.
        colon: what separates name and value.
        escaped: further characters that are written as escapes.
        skips_nulls: whether fields and map entries that are null are left out.
        binary: writes binary values.
        decimal: writes decimals.
    """

    comma: str
    colon: str
    escaped: tuple[str, ...]
    skips_nulls: bool
    binary: Callable[[pa.Array], pa.Array]
    decimal: Callable[[pa.Array], pa.Array]

    def text(self, values: pa.Array) -> pa.Array:
        """Return values as JSON texts; "null" for a null."""
        if not len(values):  # it may have no buffers
            return pa.array([], pa.string())
        found = self._text(values)
        return pc.fill_null(found, "null") if found.null_count else found

    def _text(self, values: pa.Array) -> pa.Array:
        """Like `text`, with any text or null for a null."""
        kind = values.type
        if pt.is_dictionary(kind):
            return self._text(values.dictionary).take(values.indices)
        if pt.is_string(kind) or pt.is_large_string(kind):
            return self._quoted(values.cast(pa.string()))
        if pt.is_boolean(kind) or pt.is_integer(kind):
            return values.cast(pa.string())
        if pt.is_floating(kind):
            return _floats(values)
        if pt.is_date32(kind):
            return values.cast(pa.int32()).cast(pa.string())
        if pt.is_timestamp(kind):
            return values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
        if pt.is_decimal(kind):
            return self.decimal(values)
        if pt.is_binary(kind):
            return self.binary(values)
        if pt.is_struct(kind):
            return self._struct(values)
        if pt.is_map(kind):
            return self._map(values)
        if pt.is_list(kind) or pt.is_large_list(kind):
            return self._list(values)
        return self._quoted(values.cast(pa.string()))

    def _quoted(self, texts: pa.Array) -> pa.Array:
        escaped = _escape(texts, (*_SHORT, *_CONTROL, *self.escaped))
        return pc.binary_join_element_wise('"', escaped, '"', "")

    def record(self, values: pa.StructArray, made: Mapping[str, pa.Array]) -> pa.Array:
        """Return records as texts, whose values of some fields are there as texts already."""
        found = self._struct(values, made)
        return pc.fill_null(found, "null") if found.null_count else found

    def _struct(self, values: pa.StructArray, made: Mapping[str, pa.Array] | None = None) -> pa.Array:
        pieces: list[str | pa.Array] = ["{"]
        skipped = self.skips_nulls and any(column.null_count for column in values.flatten())
        for number, (field, column) in enumerate(zip(values.type, values.flatten(), strict=True)):
            name = ("" if number == 0 and not skipped else self.comma) + _quoted_name(field.name) + self.colon
            if skipped and column.null_count:
                pair = pc.binary_join_element_wise(name, self.text(column), "")
                pieces.append(pc.if_else(column.is_valid(), pair, ""))
            elif made is not None and field.name in made:
                pieces += [name, pc.fill_null(made[field.name], "null")]
            else:
                pieces += [name, *self._pieces(column)]
        text = _put_together([*pieces, "}"], len(values))
        if skipped:  # every field begins with a comma, the first one too
            text = pc.binary_join_element_wise("{", pc.utf8_replace_slice(text, 0, 1 + len(self.comma), ""), "")
            text = pc.if_else(pc.equal(text, "{"), "{}", text)
        return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text

    def _pieces(self, values: pa.Array) -> list[str | pa.Array]:
        """Return what is put together to the texts of values."""
        if values.null_count or not len(values) or not pt.is_string(values.type):
            return [self.text(values)]
        return ['"', _escape(values, (*_SHORT, *_CONTROL, *self.escaped)), '"']

    def _map(self, values: pa.MapArray) -> pa.Array:
        first, last = _bounds(values)
        keys, items = values.keys.slice(first, last - first), values.items.slice(first, last - first)
        pairs = pc.binary_join_element_wise(self.text(keys), self.text(items), self.colon)
        kept = items.is_valid() if self.skips_nulls and items.null_count else None
        return _wrapped(_grouped(values, pairs, kept), values, self.comma, "{", "}")

    def _list(self, values: pa.ListArray) -> pa.Array:
        first, last = _bounds(values)
        items = self.text(values.values.slice(first, last - first))
        return _wrapped(_grouped(values, items, None), values, self.comma, "[", "]")


def _bounds(values: pa.Array) -> tuple[int, int]:
    """Return where the items of a list or map array begin and end."""
    offsets = values.offsets
    return (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)


def _grouped(values: pa.Array, items: pa.Array, kept: pa.Array | None) -> pa.ListArray:
    """Return the texts of items, as lists again; only those that are kept."""
    offsets = np.asarray(values.offsets).astype(np.int64)
    offsets = offsets - offsets[0] if len(offsets) else np.zeros(1, dtype=np.int64)
    if kept is not None:
        counts = np.concatenate([[0], np.cumsum(np.asarray(kept))])
        items, offsets = items.filter(kept), counts[offsets]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def _wrapped(lists: pa.ListArray, values: pa.Array, comma: str, begin: str, end: str) -> pa.Array:
    text = pc.binary_join_element_wise(begin, pc.binary_join(lists, comma), end, "")
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text


def _put_together(pieces: Sequence[str | pa.Array], count: int) -> pa.Array:
    """Join texts of all rows and of each row; those of all rows first among themselves."""
    joined: list[str | pa.Array] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    if not any(isinstance(piece, pa.Array) for piece in joined):
        return pa.array(["".join(map(str, joined))] * count, pa.string())
    return pc.binary_join_element_wise(*joined, "")


def _quoted_name(name: str) -> str:
    return '"' + "".join(_SHORT.get(char, char) for char in name) + '"'


def _escape(texts: pa.Array, characters: Sequence[str]) -> pa.Array:
    """Write some characters as escapes; the backslash comes first among them."""
    if _is_plain(texts):
        return texts
    pattern = "[" + "".join(f"\\x{{{ord(char):x}}}" for char in characters) + "]"
    if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
        return texts
    for char in characters:  # of an alphabet, not of the texts
        escape = _SHORT.get(char, f"\\u{ord(char):04X}")
        if char == "\\" or pc.any(pc.match_substring(texts, char)).as_py():
            texts = pc.replace_substring(texts, char, escape)
    return texts


def _is_plain(texts: pa.StringArray) -> bool:
    """Return whether texts have only printable ASCII characters that need no escape."""
    content = np.frombuffer(content_of(texts), np.uint8)
    return not np.any((content < 0x20) | (content >= 0x7F) | (content == ord('"')) | (content == ord("\\")))


def _floats(values: pa.Array) -> pa.Array:
    """Return numbers as Java writes them (Double.toString), and those that are no numbers as texts."""
    double = np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
    text = pc.fill_null(values.cast(pa.string()), "0")
    finite = np.isfinite(double)
    size = np.abs(double)
    plain = (size == 0) | ((size >= 1e-3) & (size < 1e7))
    whole = pa.array(plain & (np.floor(size) == size))  # Arrow writes these without a point
    result = text if not pc.any(whole).as_py() else pc.binary_join_element_wise(text, pc.if_else(whole, ".0", ""), "")
    large = finite & ~plain
    if large.any():
        places = np.cumsum(large) - 1
        scientific = _scientific(text.filter(pa.array(large)))
        result = pc.if_else(pa.array(large), scientific.take(pa.array(np.maximum(places, 0))), result)
    if not finite.all():
        words = np.where(np.isnan(double), '"NaN"', np.where(double > 0, '"Infinity"', '"-Infinity"'))
        result = pc.if_else(pa.array(finite), result, pa.array(words, pa.string()))
    return pc.if_else(values.is_valid(), result, pa.scalar(None, pa.string())) if values.null_count else result


def _floats_of_both(one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return two columns of numbers as texts; only those of the second that differ from the first are written again."""
    first = _floats(one)
    same = pc.fill_null(pc.equal(one.view(pa.int64()), other.view(pa.int64())), False)  # by bits: -0.0 isn't 0.0
    differing = pc.invert(same)
    changed = other.filter(differing)
    if not len(changed):
        return first, first
    if 2 * len(changed) > len(other):
        return first, _floats(other)
    return first, pc.replace_with_mask(first, differing, _floats(changed))


def _scientific(text: pa.Array) -> pa.Array:
    """Return numbers of any notation in Java's scientific one: `1.5E10`."""
    parts = pc.extract_regex(text, _NUMBER)
    sign, whole, part, power = (pc.struct_field(parts, name) for name in ("sign", "whole", "part", "power"))
    digits = pc.binary_join_element_wise(whole, part, "")
    significant = pc.utf8_ltrim(digits, "0")
    leading = np.asarray(pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant)))
    given = np.asarray(pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int64()))
    exponent = np.asarray(pc.utf8_length(whole)) - 1 - leading + given
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(significant, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    mantissa = pc.binary_join_element_wise(sign, first, "")
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(mantissa, rest, "."), pa.array(exponent).cast(pa.string()), "E"
    )


def _avro_bytes(values: pa.Array) -> pa.Array:
    """Return bytes as Avro writes them: as characters of Latin-1."""
    letters = pa.array([chr(code) for code in range(256)], pa.string())
    whole = values.cast(pa.large_binary())
    offsets = offsets_of(whole)
    characters = letters.take(pa.array(np.frombuffer(content_of(whole), np.uint8)))
    lists = pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), characters)
    text = _escape(pc.binary_join(lists, ""), (*_SHORT, *_CONTROL, *_AVRO_ONLY))
    made = pc.binary_join_element_wise('"', text, '"', "")
    return pc.if_else(values.is_valid(), made, pa.scalar(None, pa.string())) if values.null_count else made


def _avro_fixed(values: pa.Array) -> pa.Array:
    """Return decimals as Avro writes values of a fixed size: the numbers of their bytes, highest first, signed."""
    size = decimal_bytes(values.type.precision)
    stored = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    numbers = np.ascontiguousarray(decimal_cells(stored)[:, 16 - size :]).view(np.int8)
    digits = pa.array(numbers.ravel()).cast(pa.string())
    lists = pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32) * size), digits)
    return _wrapped(lists, values, ", ", "[", "]")


def _base64(values: pa.Array) -> pa.Array:
    """Return bytes in Base64, three bytes at a time as numbers, without a loop over values."""
    whole = values.cast(pa.large_binary())
    offsets = offsets_of(whole)
    lengths = np.diff(offsets)
    data = np.frombuffer(whole.buffers()[2] or b"", np.uint8)
    groups = (lengths + 2) // 3
    first = np.concatenate([[0], np.cumsum(groups)])
    padded = np.zeros(int(first[-1]) * 3, dtype=np.uint8)
    source = np.arange(int(lengths.sum()))
    padded[source + np.repeat(first[:-1] * 3 - (np.cumsum(lengths) - lengths), lengths)] = data[
        source + np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths)
    ]
    three = padded.reshape(-1, 3).astype(np.uint32)
    word = (three[:, 0] << 16) | (three[:, 1] << 8) | three[:, 2]
    letters = _BASE64[np.stack([(word >> shift) & 63 for shift in (18, 12, 6, 0)], axis=1)]
    if len(letters):
        ends, rest = first[1:][groups > 0] - 1, (lengths % 3)[groups > 0]
        letters[ends[rest > 0], 3] = ord("=")
        letters[ends[rest == 1], 2] = ord("=")
    text = pa.Array.from_buffers(
        pa.large_string(),
        len(values),
        [None, pa.py_buffer((first * 4).astype(np.int64)), pa.py_buffer(letters.ravel())],
    )
    made = pc.binary_join_element_wise('"', text.cast(pa.string()), '"', "")
    return pc.if_else(values.is_valid(), made, pa.scalar(None, pa.string())) if values.null_count else made


def _number(values: pa.Array) -> pa.Array:
    """Return decimals as numbers, with all digits of their scale."""
    return values.cast(pa.string())


_AVRO = _Style(", ", ": ", _AVRO_ONLY, skips_nulls=False, binary=_avro_bytes, decimal=_avro_fixed)
_PLAIN = _Style(",", ":", (), skips_nulls=True, binary=_base64, decimal=_number)
