"""Delete blocks of log files: a block in, keys and ordering values as Arrow out (HoodieDeleteBlock)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import NotSupportedError
from pudi.format.avro_values import BadAvro, Records, cut, decimals, varints
from pudi.format.kryo_deletes import BadKryo, ordering_values, read_java_deletes
from pudi.format.log_block import LogBlock
from pudi.schema.arrays import joined_arrays
from pudi.schema.types import is_java_integer

HEAD = Struct(">ii")
AVRO_VERSION = 3
_KEY, _PARTITION = 0, 1


class Wrapper(IntEnum):
    """Branches of HoodieDeleteRecord.orderingVal: how an ordering value is wrapped."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12


_VARINTS = frozenset({Wrapper.INT, Wrapper.LONG, Wrapper.DATE, Wrapper.TIME_MICROS, Wrapper.TIMESTAMP_MICROS})
_SIZED = frozenset({Wrapper.BYTES, Wrapper.STRING, Wrapper.DECIMAL})
_FIXED = {Wrapper.NULL: 0, Wrapper.BOOLEAN: 1, Wrapper.FLOAT: 4, Wrapper.DOUBLE: 8}
_ALIKE = {13: Wrapper.DATE}
"""Union branches of array elements, besides those of single values: LocalDateWrapper."""
DECIMAL_TYPE = pa.decimal128(30, 15)
"""Scale with which DecimalWrapper stores decimals, whatever the column's scale is."""

_MAX_FIELDS = 64
"""Most ordering values of one delete."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deletes of one block, in its order.

    Attributes:
        keys: record keys.
        partitions: partition paths; null where the block doesn't say.
        ordering: for each ordering field its value, in the field's type; null without a value.
        unconditional: bool per delete: it has the default ordering value (null or the int 0), so it beats every older
            version and loses to every newer one (OrderingValues.isDefault).
    """

    keys: pa.Array
    partitions: pa.Array
    ordering: tuple[pa.Array, ...]
    unconditional: np.ndarray


def decode_deletes(block: LogBlock, ordering: Sequence[pa.DataType] = ()) -> Deletes:
    """The deletes of a block.

    Args:
        block: a delete block.
        ordering: types of the table's ordering fields.

    Raises:
        CorruptError: the content is damaged, or an ordering value doesn't fit the field's type.
        NotSupportedError: a block of version 2 whose ordering values are of a class that Hudi doesn't order by.
    """
    if len(block.content) < HEAD.size:
        raise block.corrupt("is shorter than its own head")
    version, size = HEAD.unpack_from(block.content, 0)
    if version not in {1, 2, AVRO_VERSION} or size != len(block.content) - HEAD.size:
        raise block.corrupt(f"has version {version} and {size} bytes where it has {len(block.content) - HEAD.size}")
    payload = block.content[HEAD.size :]
    try:
        return _decode(payload, ordering) if version == AVRO_VERSION else _decode_java(payload, version, ordering)
    except NotSupportedError as error:
        raise NotSupportedError(
            error.message, path=block.path, instant=block.instant or None, offset=block.offset
        ) from error
    except (BadAvro, BadKryo) as error:
        raise block.corrupt(f"can't be decoded: {error}") from error


def _decode_java(payload: memoryview, version: int, ordering: Sequence[pa.DataType]) -> Deletes:
    """Return the deletes of a block of version 1 or 2; those have one ordering value at most."""
    found = read_java_deletes(payload, version)
    unconditional = np.array([each.is_default for each in found], dtype=bool)
    if len(ordering) > 1 and not unconditional.all():
        raise NotSupportedError(
            f"a delete block of version {version} in a table with {len(ordering)} ordering fields: have Apache Hudi "
            "compact the table once"
        )
    return Deletes(
        pa.array([each.key for each in found], pa.string()),
        pa.array([each.partition for each in found], pa.string()),
        tuple(ordering_values(found, kind) for kind in ordering),
        unconditional,
    )


def _decode(payload: memoryview, ordering: Sequence[pa.DataType]) -> Deletes:
    records = Records.of(payload)
    chosen = _chosen(records)
    found = _Walk(records, chosen)
    found.record()
    if not np.all(found.fits):
        raise BadAvro("a delete is cut off")
    keys = cut(records, *found.texts[_KEY], pa.string())
    spans, present = found.texts[_PARTITION], found.has_partition
    partitions = cut(records, *spans, pa.string())
    if not np.all(present):
        partitions = pc.if_else(pa.array(present), partitions, pa.scalar(None, pa.string()))
    values = found.values
    first = values[0]
    unconditional = (~found.is_array) & ((first.kind == Wrapper.NULL) | _is_zero(records, first))
    columns = tuple(
        _column(records, values[place] if place < len(values) else None, kind, unconditional, len(chosen))
        for place, kind in enumerate(ordering)
    )
    return Deletes(keys, partitions, columns, unconditional)


@dataclass(slots=True)
class _Value:
    """One ordering value of each delete: which branch it is, and where it begins and ends."""

    kind: np.ndarray
    at: np.ndarray
    end: np.ndarray


@dataclass(slots=True)
class _Walk:
    """Reads a delete from each of some positions side by side; where there's none, `fits` becomes false.

    Nothing in the bytes says where a delete begins but the end of the one before, so that they are first read from
    wherever one may begin.
    """

    records: Records
    at: np.ndarray
    fits: np.ndarray = field(init=False)
    texts: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    has_partition: np.ndarray = field(init=False)
    is_array: np.ndarray = field(init=False)
    values: list[_Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at = self.at.copy()
        self.fits = np.ones(len(self.at), dtype=bool)

    def record(self) -> None:
        """Key, partition and ordering value."""
        everyone = np.arange(len(self.at))
        has_key = self._branch(everyone, 2) == 1
        self.fits &= has_key
        self.texts.append(self._text(everyone))
        self.has_partition = self._branch(everyone, 2) == 1
        begin, end = self.at.copy(), self.at.copy()
        named = np.flatnonzero(self.has_partition)
        begin[named], end[named] = self._text(named)
        self.texts.append((begin, end))
        self._ordering(everyone)

    def _ordering(self, rows: np.ndarray) -> None:
        kind = self._branch(rows, 13)
        self.is_array = kind == Wrapper.ARRAY
        single = np.where(self.is_array, Wrapper.NULL, kind)
        self.values.append(self._value(rows, single))
        arrays = np.flatnonzero(self.is_array & self.fits)
        if not len(arrays):
            return
        filled = arrays[self._branch(arrays, 2) == 1]
        left = np.zeros(len(self.at), dtype=np.int64)
        place = 0
        while len(filled):
            due = filled[left[filled] == 0]
            left[due] = self._count(due)
            filled = filled[(left[filled] > 0) & self.fits[filled]]
            if not len(filled):
                break
            if place >= _MAX_FIELDS:
                self.fits[filled] = False
                break
            if place >= len(self.values):
                none = np.full(len(self.at), Wrapper.NULL)
                self.values.append(_Value(none, self.at.copy(), self.at.copy()))
            branch = self._branch(filled, 14)
            value = self._value(filled, np.where(branch == 13, _ALIKE[13], branch))
            target = self.values[place]
            target.kind[filled], target.at[filled], target.end[filled] = value.kind, value.at, value.end
            left[filled] -= 1
            place += 1

    def _count(self, rows: np.ndarray) -> np.ndarray:
        counts = self._varint(rows)
        sized = np.flatnonzero(counts < 0)
        self._varint(rows[sized])
        counts = np.where(counts < 0, -counts, counts)
        self.fits[rows[(counts < 0) | (counts > _MAX_FIELDS)]] = False
        return counts

    def _value(self, rows: np.ndarray, kind: np.ndarray) -> _Value:
        begin = self.at[rows]
        for each in np.unique(kind):
            some = np.flatnonzero(kind == each)
            if each in _VARINTS:
                self._varint(rows[some])
            elif each in _SIZED:
                begin[some] = self._text(rows[some])[0]
            elif each in _FIXED:
                self._skip(rows[some], np.full(len(some), _FIXED[each]))
            else:  # an array in an array
                self.fits[rows[some]] = False
        return _Value(kind.copy(), begin, self.at[rows])

    def _branch(self, rows: np.ndarray, branches: int) -> np.ndarray:
        chosen = self._varint(rows)
        self.fits[rows[(chosen < 0) | (chosen >= branches)]] = False
        known: np.ndarray = np.where((chosen < 0) | (chosen >= branches), 0, chosen)
        return known

    def _text(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = self._varint(rows)
        begin = self.at[rows]
        self._skip(rows, lengths)
        return begin, self.at[rows]

    def _varint(self, rows: np.ndarray) -> np.ndarray:
        values, lengths, fits = varints(self.records, self.at[rows])
        self.fits[rows] &= fits
        self._skip(rows, np.broadcast_to(np.asarray(lengths), rows.shape))
        return values

    def _skip(self, rows: np.ndarray, sizes: np.ndarray) -> None:
        at = self.at[rows]
        bad = (sizes < 0) | (sizes > self.records.size - at)
        self.at[rows] = at + np.where(bad, 0, sizes)
        self.fits[rows[bad]] = False


def _chosen(records: Records) -> np.ndarray:
    """Return the starts of a block's deletes: the first follows the count, each other one its predecessor."""
    if not records.size:
        return np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(records.data[: records.size] == 2)  # a key that is there: branch 1
    walk = _Walk(records, candidates)
    if len(candidates):
        walk.record()
    ends = np.where(walk.fits, walk.at, records.size)
    index = np.searchsorted(candidates, ends)
    follows = (
        np.where(candidates[np.minimum(index, len(candidates) - 1)] == ends, index, -1) if len(candidates) else index
    )
    return _chain(records, candidates, ends, walk.fits, follows)


def _chain(
    records: Records, candidates: np.ndarray, ends: np.ndarray, fits: np.ndarray, follows: np.ndarray
) -> np.ndarray:
    """Follow the list, block by block of it."""
    following = np.where(fits, follows, -1).tolist()
    chosen: list[int] = []
    at = 0
    while True:
        if at >= records.size:
            raise BadAvro("the list of deletes has no end")
        count, at = _list_count(records, at)
        if count == 0:
            break
        if count > records.size:
            raise BadAvro(f"{count} deletes are implausible")
        place = int(np.searchsorted(candidates, at))
        last = -1 if place >= len(candidates) or candidates[place] != at else place
        for _ in range(count - 1):  # each says only where the next one begins
            if last < 0:
                break
            chosen.append(last)
            last = following[last]
        if last < 0 or not fits[last]:
            raise BadAvro("a delete is cut off")
        chosen.append(last)
        at = int(ends[last])
    if at != records.size:
        raise BadAvro("unexpected bytes follow the deletes")
    begin: np.ndarray = candidates[np.array(chosen, dtype=np.int64)] if chosen else np.zeros(0, dtype=np.int64)
    return begin


def _list_count(records: Records, at: int) -> tuple[int, int]:
    position = np.array([at])
    values, lengths, fits = varints(records, position)
    at += int(np.max(lengths))
    count = int(values[0])
    if count < 0:  # followed by the bytes of this part of the list
        position = np.array([min(at, records.size)])
        at += int(np.max(varints(records, position)[1]))
        count = -count
    if not np.all(fits) or at > records.size:
        raise BadAvro("the list of deletes has no count")
    return count, at


def _column(
    records: Records, value: _Value | None, kind: pa.DataType, unconditional: np.ndarray, count: int
) -> pa.Array:
    """One ordering field's values in its own type; null where a delete has none."""
    if value is None:
        return pa.nulls(count, kind)
    order, parts = [], []
    there = (value.kind != Wrapper.NULL) & ~unconditional
    if not is_java_integer(kind):  # one null of several values is written as the int 0
        there &= ~_is_zero(records, value)
    wanted = np.flatnonzero(there)
    for branch in np.unique(value.kind[wanted]):
        rows = wanted[value.kind[wanted] == branch]
        found = _stored(records, int(branch), value.at[rows], value.end[rows])
        try:
            parts.append(_as_field(found, kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadAvro(f"an ordering value is no {kind}: {error}") from error
        order.append(rows)
    if not parts:
        return pa.nulls(count, kind)
    rows = np.concatenate(order)
    places = np.full(count, -1, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return joined_arrays(parts).take(pa.array(places, mask=places < 0))


def _is_zero(records: Records, value: _Value) -> np.ndarray:
    """Return for each delete whether the value is Hudi's default, the int 0."""
    zero = np.zeros(len(value.kind), dtype=bool)
    ints = np.flatnonzero(value.kind == Wrapper.INT)
    zero[ints] = varints(records, value.at[ints])[0] == 0
    return zero


def _stored(records: Records, branch: int, begin: np.ndarray, end: np.ndarray) -> pa.Array:
    """Values of one branch in the type that the branch has."""
    if branch in _VARINTS:
        return pa.array(varints(records, begin)[0])
    if branch == Wrapper.STRING:
        return cut(records, begin, end, pa.string())
    if branch == Wrapper.BOOLEAN:
        return pa.array(records.data[begin] != 0)
    if branch in {Wrapper.FLOAT, Wrapper.DOUBLE}:
        return pa.array(records.at("<f4" if branch == Wrapper.FLOAT else "<f8", begin))
    if branch == Wrapper.DECIMAL:
        return decimals(records, begin, end, DECIMAL_TYPE)
    return cut(records, begin, end, pa.binary())


def _as_field(values: pa.Array, kind: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_integer(values.type) and (types.is_date32(kind) or types.is_time32(kind)):
        return pc.cast(pc.cast(values, pa.int32()), kind)
    if types.is_decimal(values.type) and types.is_decimal(kind):
        return pc.cast(values, kind, safe=True)
    return pc.cast(values, kind)
