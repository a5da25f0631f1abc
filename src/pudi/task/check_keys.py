"""Record keys held against the indexes that know them, and against each other, in bounded memory on either engine.

The first jobs read the keys of some file groups each and put them, by part, into a file; a part is a file group of the
index that they're compared with, or, where there's none, what some bits of the keys' hashes say. The second ones, one
for each part, compare what the files have with what the index has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogScope
from pudi.format import METADATA_DIR
from pudi.metadata.file_stats import leaf_values
from pudi.metadata.keys import secondary_shard_of, shard_of, split_secondary_keys
from pudi.metadata.partition_snapshot import PartitionSnapshot
from pudi.metadata.records import RECORD_INDEX
from pudi.metadata.secondary import keys_of_rows
from pudi.metadata.shards import FILE_ID, read_shard
from pudi.plan import ReadPlan
from pudi.record import KeyGenerator
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.storage import StorageBelow, open_input
from pudi.task.check_files import UNREADABLE
from pudi.task.check_revived import REVIVED, revived_keys
from pudi.task.finding import DATA_FILES, Finding, Findings
from pudi.task.index_keys import Portion
from pudi.task.read import SliceReader

RECORD_KEYS = "record keys"
"""What a finding about keys that are there twice is said of."""

_KEY, _OWNER = "key", "owner"
_STAGED = pa.schema([pa.field(_KEY, pa.string()), pa.field(_OWNER, pa.int32())])

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spread:
    """What is compared of each record, and over which parts it's spread; picklable.

    Attributes:
        ranges: by partition path the first part and how many there are; under None for all partitions.
        rest: the part of records in partitions that have none.
        column: the indexed column of a secondary index; None where record keys are compared.
        whole_key: see `secondary_shard_of`.
        keys: makes record keys of columns, where files have no meta fields; None where they have.
    """

    ranges: Mapping[str | None, tuple[int, int]]
    rest: int
    column: str | None = None
    whole_key: bool = False
    keys: KeyGenerator | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        own = [RECORD_KEY] if self.keys is None else list(self.keys.record_key_fields)
        top = (self.column or "").split(".", 1)[0]
        return own if not top or top in own else [*own, top]

    def texts(self, rows: pa.Table) -> pa.Array:
        """What is compared."""
        keys = rows[RECORD_KEY] if self.keys is None else self.keys.record_keys(rows)
        keys = _whole(keys)
        if self.column is None:
            return keys
        values = leaf_values(rows, self.column)
        return keys_of_rows(pa.nulls(len(keys), pa.string()) if values is None else values, keys)

    def parts(self, texts: pa.Array, partition: str) -> Numbers:
        """The part of each."""
        first, count = self.ranges.get(None) or self.ranges.get(partition) or (self.rest, 1)
        if self.column is not None:
            return first + secondary_shard_of(texts, count, whole_key=self.whole_key)
        return first + shard_of(texts, count)


@dataclass(frozen=True, slots=True)
class Staged(Findings):
    """What a `StageKeys` read, and where it left it.

    Attributes:
        path: the file; empty where there's nothing.
        size: its bytes.
        parts: which parts it has, in its order.
        records: how many records of each.
    """

    path: str = ""
    size: int = 0
    parts: tuple[int, ...] = ()
    records: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StageKeys:
    """Read the keys of some file groups and leave them by part. Picklable.

    Attributes:
        number: place among the jobs.
        plan: how slices are read.
        spread: what is left, and by which parts.
        slices: the file groups, by their numbers.
        staging: where to leave them; None for the table's own storage.
        path: the file.
    """

    number: int
    plan: ReadPlan
    spread: Spread
    slices: tuple[tuple[int, FileSlice], ...]
    staging: Storage | None
    path: str

    def run(self, storage: Storage, attempt: int) -> Staged:
        """Read them; see `FileJob.run`."""
        reader = SliceReader(storage, self.plan)
        texts, parts, owners = [pa.array([], pa.string())], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        found, unread = [], []
        for owner, file_slice in self.slices:
            try:
                # at once: what was read of a file that turns out to be damaged must not be taken for all of it
                rows = list(reader.read(file_slice))
                if self.spread.column is None and len(again := revived_keys(storage, self.plan, file_slice)):
                    found.append(Finding.of_keys(RECORD_KEYS, file_slice.path, again.sort(), REVIVED))
            except UNREADABLE as error:
                found.append(Finding(DATA_FILES, file_slice.path, f"can't be read: {error}"))
                unread.append(owner)
                continue
            if rows:
                texts.append(self.spread.texts(pa.Table.from_batches(rows)))
                parts.append(self.spread.parts(texts[-1], file_slice.partition))
                owners.append(np.full(len(texts[-1]), owner, dtype=np.int32))
        number = np.concatenate(parts)
        if not len(number):
            return Staged(self.number, 0, None, found=tuple(found), unread=tuple(unread))
        order = np.argsort(number, kind="stable")
        taken = pa.array(order)
        left = pa.table([pa.concat_arrays(texts).take(taken), pa.array(np.concatenate(owners)[order])], schema=_STAGED)
        own, begin = np.unique(number[order], return_index=True)
        counts = np.diff([*begin.tolist(), len(order)])
        content = _encoded(left, begin.tolist(), counts.tolist())
        path = f"{self.path}.{attempt}"
        (storage if self.staging is None else self.staging).put(path, content)
        numbers = tuple(own.tolist()), tuple(counts.tolist())
        return Staged(self.number, len(order), None, (), tuple(found), tuple(unread), path, len(content), *numbers)


def _encoded(rows: pa.Table, begin: Sequence[int], counts: Sequence[int]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _STAGED, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for start, count in zip(begin, counts, strict=True):
            writer.write_table(rows.slice(start, count).combine_chunks())
    return bytes(sink.getvalue())


def portions_by_part(staged: Sequence[Staged]) -> Mapping[int, tuple[Portion, ...]]:
    """What the first jobs left, by part."""
    found: dict[int, list[Portion]] = {}
    for each in staged:
        for batch, (part, records) in enumerate(zip(each.parts, each.records, strict=True)):
            found.setdefault(part, []).append(Portion(each.path, each.size, batch, records))
    return {part: tuple(portions) for part, portions in found.items()}


@dataclass(frozen=True, slots=True)
class CompareKeys:
    """Compare the keys of one part with each other and with an index. Picklable.

    Attributes:
        number: place among the jobs.
        portions: the keys.
        staging: where they are; None for the table's own storage.
        places: partition path and file id of each file group, by its number.
        unread: numbers of file groups whose keys could not be read.
        unique: whether a key must be one of a kind in the whole table (true) or in its partition (false); None where
            that isn't looked at.
        located: the record index's file group of this part, with the instants that count; None where it isn't compared.
        index: the secondary index that is compared; None for none.
        group: its file group of this part; None where there is none.
    """

    number: int
    portions: tuple[Portion, ...]
    staging: Storage | None
    places: tuple[tuple[str, str], ...]
    unread: frozenset[int] = frozenset()
    unique: bool | None = None
    located: tuple[FileSlice | None, LogScope] | None = None
    index: PartitionSnapshot | None = None
    group: FileSlice | None = None

    def run(self, storage: Storage, attempt: int) -> Findings:
        """Compare them; see `FileJob.run`."""
        parts = list(_staged(storage if self.staging is None else self.staging, self.portions))
        rows = pa.Table.from_batches(parts) if parts else _STAGED.empty_table()
        keys, owner = _whole(rows[_KEY]), np.asarray(_whole(rows[_OWNER])).astype(np.int64)
        found: list[Finding] = []
        if self.unique is not None:
            found += self._twice(keys, owner)
        name = RECORD_INDEX if self.index is None else self.index.name
        try:
            if self.located is not None:
                found += self._located(storage, *self.located, keys, owner)
            if self.index is not None:
                found += self._indexed(storage, self.index, keys)
        except UNREADABLE as error:
            found.append(Finding(name, "", f"can't be read: {error}"))
        return Findings(self.number, len(keys), None, found=tuple(found))

    def _twice(self, keys: pa.Array, owner: Numbers) -> Iterator[Finding]:
        """Keys that are there more than once."""
        partitions = sorted({partition for partition, _ in self.places})
        place = {partition: 0 if self.unique else number for number, partition in enumerate(partitions)}
        of_owner = np.array([place[partition] for partition, _ in self.places] or [0], dtype=np.int64)
        coded = pc.dictionary_encode(keys)
        pairs = np.asarray(coded.indices).astype(np.int64) * max(1, len(partitions)) + of_owner[owner]
        several, counts = np.unique(pairs, return_counts=True)
        several = several[counts > 1]
        where = several % max(1, len(partitions))
        for number in np.unique(where).tolist():
            codes = several[where == number] // max(1, len(partitions))
            named = pc.array_take(coded.dictionary, pa.array(codes))
            path = "" if self.unique else partitions[number]
            yield Finding.of_keys(RECORD_KEYS, path, named.sort(), "there more than once")

    def _located(
        self, storage: Storage, group: FileSlice | None, scope: LogScope, keys: pa.Array, owner: Numbers
    ) -> Iterator[Finding]:
        """Keys that the record index has in another place than they are in, hasn't got, or has for nothing."""
        names = [f"{partition}/{file_id}" if partition else file_id for partition, file_id in self.places]
        told, of_index, strange = pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0, bool)
        if group is not None:
            rows = read_shard(StorageBelow(storage, METADATA_DIR), group, scope)
            told = _whole(rows[RECORD_KEY])
            of_index = self._numbers(rows)
            strange = of_index < 0
        here, there = _matched(keys, owner, told, of_index)
        for number, missing in _by(owner, ~here):
            yield Finding.of_keys(RECORD_INDEX, names[number], keys.take(missing).sort(), "there, not by the index")
        spare = ~there & ~np.isin(of_index, list(self.unread))
        for number, rest in _by(of_index, spare & ~strange):
            named = told.take(rest).sort()
            yield Finding.of_keys(RECORD_INDEX, names[number], named, "there by the index only")
        if (spare & strange).any():
            named = told.filter(pa.array(spare & strange)).sort()
            yield Finding.of_keys(RECORD_INDEX, "", named, "by the index in file groups that aren't there")

    def _numbers(self, rows: pa.Table) -> Numbers:
        """Numbers of the file groups that rows of the index name; -1 for one that isn't there."""
        known = {place: number for number, place in enumerate(self.places)}
        partitions, files = (pc.dictionary_encode(_whole(rows[name])) for name in (PARTITION_PATH, FILE_ID))
        pairs = np.asarray(partitions.indices).astype(np.int64) * max(1, len(files.dictionary))
        pairs += np.asarray(files.indices)
        distinct, place = np.unique(pairs, return_inverse=True)
        folders, ids = partitions.dictionary.to_pylist(), files.dictionary.to_pylist()
        count = max(1, len(ids))
        numbers = [known.get((folders[pair // count], ids[pair % count]), -1) for pair in distinct.tolist()]
        return np.array(numbers or [0], dtype=np.int64)[place.reshape(-1)]

    def _indexed(self, storage: Storage, index: PartitionSnapshot, keys: pa.Array) -> Iterator[Finding]:
        """Records that a secondary index has under another value than they have, hasn't got, or has for nothing."""
        told = pa.array([], pa.string())
        if self.group is not None:
            told = _whole(index.read_slice(storage, self.group)["key"])
        for mine, other, what in ((keys, told, "not by the index"), (told, keys, "by the index only")):
            if what == "by the index only" and self.unread:
                return  # they may be those that could not be read
            lost = mine.filter(pc.invert(pc.is_in(mine, value_set=other)))
            if len(lost):
                yield Finding.of_keys(index.name, "", _as_pairs(lost).sort(), f"there {what}")


def _staged(storage: Storage, portions: Sequence[Portion]) -> Iterator[pa.RecordBatch]:
    for portion in portions:
        with pa.ipc.open_file(open_input(storage, portion.path, portion.size)) as reader:
            yield reader.get_batch(portion.batch)


def _matched(left: pa.Array, left_place: Numbers, right: pa.Array, right_place: Numbers) -> tuple[np.ndarray, ...]:
    """For each of two lists of keys in places whether the other one has it too."""
    codes = np.asarray(pc.dictionary_encode(pa.concat_arrays([left, right])).indices).astype(np.int64)
    places = np.concatenate([left_place, right_place]).astype(np.int64)
    pairs = codes * (int(places.max(initial=0)) + 2) + places + 1
    mine, others = pairs[: len(left)], pairs[len(left) :]
    return np.isin(mine, others), np.isin(others, mine)


def _by(owner: Numbers, chosen: np.ndarray) -> Iterator[tuple[int, pa.Array]]:
    """Rows that are chosen, by their owner."""
    rows = np.flatnonzero(chosen)
    for number in np.unique(owner[rows]).tolist():
        yield number, pa.array(rows[owner[rows] == number])


def _as_pairs(keys: pa.Array) -> pa.Array:
    """Keys of a secondary index as a person reads them: record key and value."""
    values, records = split_secondary_keys(keys)
    shown = pc.if_else(pc.is_null(values), "null", pc.binary_join_element_wise("'", pc.fill_null(values, ""), "'", ""))
    return pc.binary_join_element_wise(records, shown, "=")


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # of no chunks
        whole = pa.array([], whole.type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    return whole.cast(pa.string()) if pa.types.is_large_string(whole.type) else whole
