"""Convert minimum and maximum values to and from the bytes in `FILE_STATS`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.format.avro_encode import decimal_cells, sized_decimals
from pudi.format.avro_values import Records, decimals
from pudi.metadata.value_types import ValueType, arrow_type


def integers_of(stored: pa.Array) -> npt.NDArray[np.int64]:
    """Decode integers from bytes; no nulls."""
    return np.frombuffer(_joined(stored), dtype="<i8").astype(np.int64)


def floats_of(stored: pa.Array) -> npt.NDArray[np.float64]:
    """Decode floating-point numbers from bytes; no nulls."""
    return np.frombuffer(_joined(stored), dtype="<f8").astype(np.float64)


def decimals_of(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decode decimals from bytes; null stays null. A value with too many digits for the type raises `BadAvro`."""
    whole = pc.fill_null(stored, b"\0")
    data = np.frombuffer(_joined(whole), dtype=np.uint8)
    ends = np.cumsum(np.asarray(pc.binary_length(whole)).astype(np.int64))
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    values = decimals(Records.of(data.tobytes()), begins, ends, kind)
    return values if not stored.null_count else pc.if_else(stored.is_valid(), values, pa.scalar(None, kind))


def stored_integers(values: pa.Array) -> pa.Array:
    """Encode integers, booleans, dates and times as bytes; no nulls."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif not pa.types.is_integer(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return _eights(np.asarray(values).astype("<i8"))


def stored_floats(values: pa.Array) -> pa.Array:
    """Encode floating-point numbers as bytes; no nulls."""
    return _eights(np.asarray(values).astype("<f8"))


def decimal_bytes(values: pa.Array) -> pa.Array:
    """Encode decimals as the fewest bytes of a big-endian integer (BigInteger.toByteArray); no nulls."""
    sized = sized_decimals(decimal_cells(values), np.ones(len(values), dtype=bool))
    offsets = np.frombuffer(sized.buffers()[1], dtype=np.int32)[: len(sized) + 1]
    data = np.delete(np.frombuffer(_joined(sized), dtype=np.uint8), offsets[:-1])  # without the lengths
    ends = pa.py_buffer(offsets - np.arange(len(offsets), dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(sized), [None, ends, pa.py_buffer(data)])


def typed(stored: pa.Array, kind: ValueType, info: str | None) -> pa.Array | None:
    """Decode bytes of one value type; None for an invalid type."""
    target = arrow_type(kind, info)
    if target is None:
        return None
    valid = stored.is_valid()
    if kind == ValueType.DECIMAL:
        return decimals_of(stored, target)
    if kind in (ValueType.STRING, ValueType.UUID, ValueType.BYTES, ValueType.FIXED):
        return stored.cast(target)
    known = stored.filter(valid)
    if kind in (ValueType.FLOAT, ValueType.DOUBLE):
        values = pa.array(floats_of(known)).cast(target)
    elif kind in (ValueType.BOOLEAN, ValueType.INT):
        values = pa.array(integers_of(known)).cast(target, safe=False)
    else:
        width = np.int32 if target.bit_width == 32 else np.int64
        values = pa.array(integers_of(known).astype(width)).view(target)
    if len(known) == len(stored):
        return values
    return pc.replace_with_mask(pa.nulls(len(stored), target), valid, values)


def untyped(values: pa.Array) -> pa.Array:
    """Encode values as bytes; null stays null."""
    valid, kind = values.is_valid(), values.type
    known = values if not values.null_count else values.filter(valid)
    if pa.types.is_decimal(kind):
        stored = decimal_bytes(known)
    elif pa.types.is_floating(kind):
        stored = stored_floats(known)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        stored = known.cast(pa.binary())
    else:
        stored = stored_integers(known)
    return stored if not values.null_count else pc.replace_with_mask(pa.nulls(len(values), pa.binary()), valid, stored)


def _joined(stored: pa.Array) -> bytes | memoryview:
    if not len(stored):
        return b""
    offsets = np.frombuffer(stored.buffers()[1], dtype=np.int32)[stored.offset : stored.offset + len(stored) + 1]
    data = stored.buffers()[2]
    return b"" if data is None else memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def _eights(values: np.ndarray) -> pa.Array:
    whole = np.ascontiguousarray(values)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(whole), [None, pa.py_buffer(whole)]).cast(pa.binary())
