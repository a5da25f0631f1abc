"""Look up keys in file slices by Python tasks, many files each: keys in, one row per file that contains one out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.engine.spark.columns import FILE_ID, THERE
from pudi.engine.spark.read_tasks import task_count
from pudi.engine.spark.routing import salts
from pudi.engine.spark.session import column_in_workers, functions, in_workers, struct_type
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.metadata.record_index import RecordShards
from pudi.schema import PARTITION_PATH, RECORD_KEY, arrow_to_spark_json, conform
from pudi.schema.arrays import encoded_column, groups_of, take, take_column
from pudi.storage import executor_of
from pudi.tagging import Index
from pudi.tagging.index import RecordKeys, by_group, key_finder
from pudi.task import KeySearch
from pudi.task.global_index import newer_than_stored

LOCATION_SCHEMA = pa.schema([(PARTITION_PATH, pa.string()), (RECORD_KEY, pa.string()), (FILE_ID, pa.string())])
"""Partition path, record key and file id: where a key is."""
GONE_SCHEMA = pa.schema([(RECORD_KEY, pa.string())])

_BIN, _SALT = "_pudi_bin", "_pudi_salt"
_NUMBER, _PLACE = "_pudi_number", "_pudi_at"
_BIN_BYTES = 32 << 20
_LEAST_BINS, _MOST_BINS = 2, 64
_INDEX_WEIGHT = 4
"""Work of looking into a byte of an index, as bytes of a file that would take as long to read."""
_SMALL_INDEX = 64 << 20
"""Bytes of a record index up to which every task may read all of it."""
_TASK_KEYS = 50_000
"""Keys for which it's worth it."""
_MOST_COPIES = 16_000_000
"""Keys that may be sent to tasks, copies counted; beyond, one join over the key columns of all files is better."""
_COPY_BYTES, _FEW_COPIES = 400, 10_000
"""Bytes of files whose keys can be joined in the time of one such copy; copies that are always worth it."""


@dataclass(frozen=True, slots=True)
class Bins:
    """File slices divided among tasks.

    Attributes:
        slices: the slices of each task.
        is_global: whether to look up a key in all partitions.
    """

    slices: tuple[tuple[FileSlice, ...], ...]
    is_global: bool

    @classmethod
    def of(cls, slices: Sequence[FileSlice], index: Index) -> Bins:
        """Neighbours of about the same size together, so that a partition's slices are in few tasks."""
        total = sum(s.size for s in slices)
        count = max(1, min(len(slices), _MOST_BINS, max(_LEAST_BINS, total // _BIN_BYTES)))
        parts: list[list[FileSlice]] = [[] for _ in range(count)]
        passed = 0
        for file_slice in sorted(slices, key=lambda s: (s.partition, s.file_id)):
            parts[min(count - 1, passed * count // max(total, 1))].append(file_slice)
            passed += file_slice.size
        return cls(tuple(tuple(part) for part in parts if part), index.is_global)

    def by_partition(self) -> dict[str, list[int]]:
        """Tasks that look into each partition."""
        found: dict[str, list[int]] = {}
        for number, part in enumerate(self.slices):
            for partition in {s.partition for s in part}:
                found.setdefault(partition, []).append(number)
        return found

    def pay(self, counts: Mapping[str, int]) -> bool:
        """Whether tasks that look into files take less than a join over the keys of all files.

        Args:
            counts: records by partition path.
        """
        stored = sum(s.size for part in self.slices for s in part)
        return self._copies(counts) <= min(_MOST_COPIES, stored // _COPY_BYTES + _FEW_COPIES)

    def _copies(self, counts: Mapping[str, int]) -> int:
        """Keys that tasks get in all."""
        if self.is_global:
            return sum(counts.values()) * len(self.slices)
        by_partition = self.by_partition()
        return sum(count * len(by_partition.get(partition, ())) for partition, count in counts.items())


def look_up(keyed: Any, storage: Storage, bins: Bins, search: KeySearch) -> Any:
    """Look keys up in files; return rows of `LOCATION_SCHEMA`.

    Args:
        keyed: frame with partition path and record key.
        storage: the table's files.
        bins: where to look.
        search: the index.
    """
    sql = functions(keyed)
    if bins.is_global:
        numbers = sql.expr(f"sequence(0, {len(bins.slices) - 1})")
    else:
        text = sql.lit(json.dumps(bins.by_partition(), ensure_ascii=False))
        numbers = sql.element_at(sql.from_json(text, "MAP<STRING, ARRAY<INT>>"), sql.col(PARTITION_PATH))
    spread = keyed.select(PARTITION_PATH, RECORD_KEY, sql.explode(numbers).alias(_BIN))
    placed = _salted(spread, len(bins.slices), len(bins.slices)).select(_BIN, PARTITION_PATH, RECORD_KEY)
    return in_workers(placed, LookupTasks(storage, bins, search.index).run, struct_of(LOCATION_SCHEMA))


def look_up_records(keyed: Any, records: RecordShards, slices: Sequence[FileSlice]) -> Any:
    """Look keys up in the record index; return rows of `LOCATION_SCHEMA`.

    Args:
        keyed: frame with partition path and record key.
        records: the record index; one task looks up keys in one of its file groups.
        slices: the table's slices: a file group that isn't there any more has no records.
    """
    known = frozenset(each.group for each in slices)
    keys = keyed.select(PARTITION_PATH, RECORD_KEY)
    schema = keys.schema.jsonValue()
    schema["fields"].append({"name": _BIN, "type": "integer", "nullable": False, "metadata": {}})
    numbered = in_workers(keys, ShardColumn(records).run, struct_type(schema))
    shards = max(1, len(records.slices))
    tasks = task_count(shards, _INDEX_WEIGHT * sum(s.size for s in records.slices))
    placed = _salted(numbered, shards, tasks).select(_BIN, PARTITION_PATH, RECORD_KEY)
    return in_workers(placed, RecordTasks(records, known).run, struct_of(LOCATION_SCHEMA))


def is_small(records: RecordShards) -> bool:
    """Whether every task may look into all of the record index, so that no exchange brings keys to its file groups."""
    return sum(each.size for each in records.slices) <= _SMALL_INDEX


def places_by_index(keyed: Any, records: RecordShards, slices: Sequence[FileSlice], count: int) -> Any:
    """Records with the place of each one's key by the record index, as columns `THERE` and `FILE_ID`, null for none.

    Only keys go through Python, and only numbers come back: records meet their places without a join.

    Args:
        keyed: frame of records.
        records: the record index, over the whole table.
        slices: the table's slices: a file group that isn't there any more has no records.
        count: number of records.
    """
    sql = functions(keyed)
    groups = tuple(dict.fromkeys(each.group for each in slices))
    frame = keyed.coalesce(max(1, count // _TASK_KEYS))  # each task reads the index again
    number = column_in_workers(frame, PlaceNumbers(records, groups).run, "int", RECORD_KEY)
    known = sql.lit(json.dumps([{THERE: partition, FILE_ID: file_id} for partition, file_id in groups]))
    places = sql.from_json(known, f"ARRAY<STRUCT<{THERE}: STRING, {FILE_ID}: STRING>>")
    placed = frame.withColumn(_NUMBER, number)
    return placed.withColumn(_PLACE, sql.get(places, _NUMBER)).select(*keyed.columns, f"{_PLACE}.*")


def older_than_stored(found: Any, storage: Storage, slices: Sequence[FileSlice], search: KeySearch) -> Any:
    """Return the keys of incoming records that are older than the stored version: rows of `GONE_SCHEMA`.

    Args:
        found: frame with record key, ordering columns, partition path and file id of the stored records.
        storage: the table's files.
        slices: the slices that they were found in.
        search: how versions are compared.
    """
    placed = by_file_group(found, len(slices))
    return in_workers(placed, CompareTasks(storage, tuple(slices), search).run, struct_of(GONE_SCHEMA))


def by_file_group(found: Any, count: int) -> Any:
    """Bring the rows of each file group to one task.

    Args:
        found: frame with partition path and file id.
        count: number of file groups.
    """
    tasks = max(1, min(count, _MOST_BINS))
    spread = found.selectExpr("*", f"CAST(pmod(hash({PARTITION_PATH}, {FILE_ID}), {tasks}) AS INT) AS {_BIN}")
    return _salted(spread, tasks, tasks).drop(_BIN, _SALT)


def _salted(frame: Any, bins: int, tasks: int) -> Any:
    """Rows of each bin together, and bins divided evenly among tasks."""
    numbers = salts(tasks)
    salt = f"element_at(from_json('{[numbers[n % tasks] for n in range(bins)]}', 'ARRAY<INT>'), {_BIN} + 1) AS {_SALT}"
    return frame.selectExpr("*", salt).repartition(tasks, _SALT)


def struct_of(schema: pa.Schema) -> Any:
    """Return the StructType of an Arrow schema."""
    return struct_type(json.loads(arrow_to_spark_json(schema)))


@dataclass(frozen=True, slots=True)
class LookupTasks:
    """Looks for keys in the slices of one task after the other.

    Args:
        storage: the table's files.
        bins: the slices.
        index: how they're looked into.
    """

    storage: Storage
    bins: Bins
    index: Index

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `LOCATION_SCHEMA` for rows with task number, partition path and record key."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        rows = pa.Table.from_batches(received)
        scope = [_BIN] if self.bins.is_global else [_BIN, PARTITION_PATH]
        for (number, *partition), places in groups_of(rows, scope):
            slices = [s for s in self.bins.slices[number] if not partition or s.partition == partition[0]]
            yield from self._find(take_column(rows[RECORD_KEY], places), slices)

    def _find(self, wanted: pa.ChunkedArray, slices: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
        keys = pc.unique(wanted.cast(pa.string()))
        finder = key_finder(keys, self.index)
        for file_slice in slices:
            hits = finder.find(self.storage, file_slice)
            if len(hits):
                place, file_id = pa.scalar(file_slice.partition), pa.scalar(file_slice.file_id)
                columns = [pa.repeat(place, len(hits)), keys.take(pa.array(hits)), pa.repeat(file_id, len(hits))]
                yield pa.RecordBatch.from_arrays(columns, schema=LOCATION_SCHEMA)


@dataclass(frozen=True, slots=True)
class ShardColumn:
    """Adds the number of the record index's file group that knows each key; keys that none knows are left out.

    Args:
        records: the index.
    """

    records: RecordShards

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, of partition path and record key, with `_BIN`."""
        for batch in batches:
            keys = batch[RECORD_KEY].cast(pa.string())
            numbers = np.full(len(keys), -1, dtype=np.int64)
            if self.records.partitioned:
                for (partition,), places in groups_of(pa.Table.from_batches([batch]), [PARTITION_PATH]):
                    numbers[np.asarray(places)] = self.records.shards_of(keys.take(places), partition)
            else:
                numbers = self.records.shards_of(keys)
            columns = [*batch.columns, pa.array(numbers.astype(np.int32))]
            whole = pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, _BIN])
            yield whole.filter(pa.array(numbers >= 0)) if (numbers < 0).any() else whole


@dataclass(frozen=True, slots=True)
class RecordTasks:
    """Looks keys up in one file group of the record index after the other.

    Args:
        records: the index.
        known: partition path and file id of the table's file groups.
    """

    records: RecordShards
    known: frozenset[FileGroupId]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `LOCATION_SCHEMA` for rows with the file group's number, partition path and record key."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        rows = pa.Table.from_batches(received)
        for (number,), places in groups_of(rows, [_BIN]):
            keys = pc.unique(take_column(rows[RECORD_KEY], places).cast(pa.string()))
            found = self.records.find(number, keys)
            for (partition, file_id), hits in by_group(found, keys, np.arange(len(keys))):
                if (partition, file_id) in self.known:
                    texts = [pa.repeat(pa.scalar(text), len(hits)) for text in (partition, file_id)]
                    columns = [texts[0], keys.take(pa.array(hits)), texts[1]]
                    yield pa.RecordBatch.from_arrays(columns, schema=LOCATION_SCHEMA)


@dataclass(frozen=True, slots=True)
class PlaceNumbers:
    """Looks keys up in all file groups of the record index.

    Args:
        records: the index, over the whole table.
        groups: partition path and file id of the table's file groups.
    """

    records: RecordShards
    groups: tuple[FileGroupId, ...]

    def run(self, batches: Sequence[pa.Array]) -> list[pa.Array]:
        """Return for each key the number of the file group that holds it, -1 for none, batch by batch."""
        coded = encoded_column(pa.chunked_array(batches, pa.string()))
        found = RecordKeys(coded.dictionary, self.records, spread=executor_of(self.records.storage).map)
        numbers = np.full(len(coded.dictionary), -1, dtype=np.int32)
        for number, group in enumerate(self.groups):
            numbers[found.of(group)] = number
        placed = numbers[np.asarray(coded.indices)]
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        return [pa.array(part) for part in np.split(placed, ends)]


@dataclass(frozen=True, slots=True)
class CompareTasks:
    """Compares records with the versions of them that are stored.

    Args:
        storage: the table's files.
        slices: where they're stored.
        search: how versions are compared.
    """

    storage: Storage
    slices: tuple[FileSlice, ...]
    search: KeySearch

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `GONE_SCHEMA` for rows with record key, ordering columns, partition path and file id."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        rows = pa.Table.from_batches(received)
        places = {s.group: s for s in self.slices}
        fields = self.search.rule.ordering_schema(self.search.schema)
        typed = pa.schema([pa.field(RECORD_KEY, pa.string()), *fields])
        for (partition, file_id), numbers in groups_of(rows, [PARTITION_PATH, FILE_ID]):
            own = conform(take(rows.select(typed.names), numbers), typed, table=self.storage.root)
            newer = newer_than_stored(self.storage, places[FileGroupId(partition, file_id)], own, self.search)
            older = take_column(own[RECORD_KEY], np.flatnonzero(~newer))
            yield from pa.table([older], schema=GONE_SCHEMA).to_batches()
