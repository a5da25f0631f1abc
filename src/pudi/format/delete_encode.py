"""Delete blocks of log files to be written: keys and ordering values as Arrow in, a block's content out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import NotSupportedError
from pudi.format.avro_encode import decimal_cells, join, packed, sized_decimals, text_pieces, varint_piece
from pudi.format.log_deletes import AVRO_VERSION, DECIMAL_TYPE, HEAD, Wrapper
from pudi.schema.arrays import content_of
from pudi.schema.types import is_java_integer


def encode_deletes(
    keys: pa.Array, partitions: pa.Array, ordering: Sequence[pa.Array] = (), unconditional: np.ndarray | None = None
) -> bytes:
    """The content of a delete block of version 3.

    Args:
        keys: record keys, without nulls.
        partitions: partition paths; null where they're not to be said.
        ordering: the ordering fields' values, none where no field decides.
        unconditional: bool per delete: it gets the default ordering value and beats every older version, as without
            ordering fields; None for deletes whose only ordering value is null.

    Raises:
        NotSupportedError: an ordering field is of a type that Hudi has no ordering values of.
    """
    count = len(keys)
    live = np.ones(count, dtype=bool)
    branch = np.full(count, 2, dtype=np.uint8)
    named = np.asarray(partitions.is_valid())
    pieces = [
        *text_pieces(keys, live, branch),
        *text_pieces(partitions, live, np.where(named, branch, 0)),
        *_ordering_pieces(ordering, unconditional, live),
    ]
    records = join(pieces, count)
    payload = _list_head(count) + bytes(content_of(records)) + (b"\0" if count else b"")
    return HEAD.pack(AVRO_VERSION, len(payload)) + payload


def can_order_deletes(kind: pa.DataType) -> bool:
    """Return whether delete blocks can store ordering values of a type."""
    try:
        _wrap(pa.array([], kind), np.zeros(0, dtype=bool))
    except NotSupportedError:
        return False
    return True


def _list_head(count: int) -> bytes:
    piece = varint_piece(np.array([count], dtype=np.int64), np.ones(1, dtype=bool))
    return bytes(piece[0].as_py())


def _ordering_pieces(
    ordering: Sequence[pa.Array], unconditional: np.ndarray | None, live: np.ndarray
) -> list[pa.Array]:
    """One value by itself, several as an array of values, none as the int 0 (OrderingValues)."""
    none = unconditional if unconditional is not None else np.zeros(len(live), dtype=bool)
    if not ordering:
        return [_default(live)]
    some = live & ~none
    if len(ordering) == 1:
        return [_default(none), *_wrapped(ordering[0], some)]
    head = np.array([2 * Wrapper.ARRAY, 2, 2 * len(ordering)], dtype=np.uint8)
    inner = [piece for values in ordering for piece in _wrapped(values, some)]
    start = packed(np.tile(head, (len(live), 1)), 3, some)
    return [_default(none), start, *inner, packed(np.zeros((len(live), 1), np.uint8), 1, some)]


def _default(live: np.ndarray) -> pa.Array:
    return packed(np.tile(np.array([2 * Wrapper.INT, 0], dtype=np.uint8), (len(live), 1)), 2, live)


def _wrapped(values: pa.Array, live: np.ndarray) -> list[pa.Array]:
    """Values in the wrappers that Hudi's Spark writer puts them in (HoodieAvroWrapperUtils); null as the int 0."""
    there = np.asarray(values.is_valid()) & live
    branch, pieces = _wrap(values, there)
    return [_default(live & ~there), packed(np.full((len(live), 1), 2 * branch, dtype=np.uint8), 1, there), *pieces]


def _wrap(values: pa.Array, there: np.ndarray) -> tuple[int, list[pa.Array]]:
    kind, types = values.type, pa.types
    if types.is_boolean(kind):
        return Wrapper.BOOLEAN, [packed(np.asarray(pc.fill_null(values, False)).astype(np.uint8)[:, None], 1, there)]
    if is_java_integer(kind):  # Spark holds dates as ints
        return Wrapper.INT, [varint_piece(_ints(values, pa.int32()), there)]
    if types.is_int64(kind) or types.is_timestamp(kind):  # and timestamps as longs
        return Wrapper.LONG, [varint_piece(_ints(values, pa.int64()), there)]
    if types.is_floating(kind):
        numbers = np.asarray(pc.fill_null(values, 0.0))
        size = numbers.dtype.itemsize
        return (Wrapper.FLOAT if size == 4 else Wrapper.DOUBLE), [
            packed(numbers.view(np.uint8).reshape(-1, size), size, there)
        ]
    if types.is_string(kind):
        return Wrapper.STRING, text_pieces(values, there)
    if types.is_binary(kind):
        return Wrapper.BYTES, text_pieces(values, there)
    if types.is_decimal(kind) and kind.scale <= DECIMAL_TYPE.scale and kind.precision - kind.scale <= 15:
        return Wrapper.DECIMAL, [sized_decimals(decimal_cells(pc.cast(values, DECIMAL_TYPE)), there)]
    raise NotSupportedError(f"deletes with ordering values of type {kind}: Hudi has no place for them in log files")


def _ints(values: pa.Array, width: pa.DataType) -> np.ndarray:
    return np.asarray(pc.fill_null(values.view(width), 0)).astype(np.int64)
