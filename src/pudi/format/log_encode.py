"""Contents of log blocks that pudi writes: records or deletes in, the bytes of a block's content out (FORMAT 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import NotSupportedError
from pudi.format.avro_encode import (
    Fixed,
    Part,
    Repeated,
    Stretches,
    Varint,
    big_endian,
    encode_records,
    integers,
    joined,
    text_parts,
    whole,
)
from pudi.format.log_data import CONTENT_VERSION

_HEAD = Struct(">ii")
_ARRAY = 12
"""Branch of HoodieDeleteRecord.orderingVal that holds several values (ArrayWrapper)."""
_DEFAULT = b"\x04\x00"
"""The ordering value that stands for none: IntWrapper of 0 (OrderingValues.getDefault)."""


def encode_avro_content(schema: str, rows: pa.Table) -> bytes:
    """The content of an Avro data block.

    Args:
        schema: Avro schema of the records with their meta fields, JSON text.
        rows: the records, a column for each field.
    """
    return _HEAD.pack(CONTENT_VERSION, rows.num_rows) + encode_records(schema, rows)


def encode_deletes(keys: pa.Array, partition: str, ordering: Sequence[pa.Array] = ()) -> bytes:
    """The content of a delete block of version 3 (HoodieDeleteBlock.serializeV3).

    Args:
        keys: record keys.
        partition: their partition path.
        ordering: for each ordering field its values, one for each key; a null stands for no value, as does no field:
            such a delete beats all that is older, and loses to all that is newer.

    Raises:
        NotSupportedError: ordering values of a type that Hudi has no wrapper for.
    """
    count = len(keys)
    branch_of_text = Repeated(b"\x02", count)
    place = pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), pa.array([partition]))
    parts: list[Part] = [branch_of_text, *text_parts(whole(keys)), branch_of_text, *text_parts(place)]
    if not ordering:
        parts.append(Repeated(_DEFAULT, count))
    elif len(ordering) == 1:
        parts += _wrapped(whole(ordering[0]))
    else:
        parts.append(Repeated(bytes([_ARRAY << 1, 2, len(ordering) << 1]), count))
        for values in ordering:
            parts += _wrapped(whole(values))
        parts.append(Repeated(b"\x00", count))
    records = joined(parts).content.tobytes() if count else b""
    listed = joined([Varint(np.array([count]))]).content.tobytes() if count else b""
    payload = listed + records + b"\x00"
    return _HEAD.pack(CONTENT_VERSION, len(payload)) + payload


def _wrapped(values: pa.Array) -> list[Part]:
    """Ordering values with the branch of their wrapper; the default where there is none."""
    branch, value = _wrapper(values)
    missing = np.asarray(values.is_null())
    if not missing.any():
        return [Repeated(bytes([branch << 1]), len(values)), *value]
    default = np.tile(np.frombuffer(_DEFAULT, dtype=np.uint8), (len(values), 1))
    named = Fixed(np.full((len(values), 1), branch << 1, dtype=np.uint8), ~missing)
    return [Fixed(default, missing), named, *value]


def _wrapper(values: pa.Array) -> tuple[int, list[Part]]:
    """Branch and value, the latter for those that aren't null (HoodieAvroWrapperUtils.wrapValueIntoAvro)."""
    kind, present = values.type, np.asarray(values.is_valid()) if values.null_count else None
    types = pa.types
    if types.is_boolean(kind):
        return 1, [Fixed(np.asarray(pc.fill_null(values, False)).astype(np.uint8)[:, None], present)]
    if types.is_floating(kind):
        width = np.dtype("<f4") if kind == pa.float32() else np.dtype("<f8")
        numbers = np.asarray(pc.fill_null(values, 0)).astype(width)
        return (4 if kind == pa.float32() else 5), [Fixed(numbers.view(np.uint8).reshape(-1, width.itemsize), present)]
    if types.is_string(kind) or types.is_large_string(kind):
        return 7, text_parts(values, present)
    if types.is_decimal128(kind):
        return 9, _decimals(values, present)
    branch = 2 if kind == pa.int32() else 3 if kind == pa.int64() else 8 if types.is_date32(kind) else None
    branch = 11 if types.is_timestamp(kind) else branch
    if branch is None:
        raise NotSupportedError(f"ordering values of type {kind} in delete blocks")
    return branch, [Varint(integers(values), present)]


def _decimals(values: pa.Array, present: np.ndarray | None) -> list[Part]:
    """Decimals with 15 digits after the point, as bytes."""
    scaled = values.cast(pa.decimal128(38, 15))
    content = big_endian(scaled, 16)
    sizes = np.full(len(values), 16, dtype=np.int64)
    if present is not None:
        content, sizes = content[present], sizes * present
    return [Varint(np.full(len(values), 16, dtype=np.int64), present), Stretches(sizes, content.reshape(-1))]
