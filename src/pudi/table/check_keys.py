"""Record keys as the indexes know them, compared with those in the files; and keys that are there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.action import MetaClient
from pudi.action.mdt.index_defs import read_definitions
from pudi.errors import CorruptError
from pudi.filegroup import FileSlice, open_base_file
from pudi.format import BloomFilter
from pudi.metadata import BLOOM_FILTERS, RECORD_INDEX, MetadataTable
from pudi.metadata.keys import bloom_key, split_secondary_keys
from pudi.metadata.shards import FILE_ID, RecordShards
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.table.difference import Difference

_SHOWN = 5
"""Keys that are named of many with the same trouble."""


@dataclass(slots=True)
class Keys:
    """The record keys of a table, and the file group that each is in.

    Attributes:
        slices: the file groups.
        parts: keys of each.
    """

    slices: list[FileSlice] = field(default_factory=list)
    parts: list[pa.ChunkedArray] = field(default_factory=list)

    def add(self, file_slice: FileSlice, keys: pa.ChunkedArray) -> None:
        """The keys of one more file group."""
        self.slices.append(file_slice)
        self.parts.append(keys)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(part) for part in self.parts)

    @property
    def all(self) -> pa.ChunkedArray:
        """All of them."""
        return pa.chunked_array([chunk for part in self.parts for chunk in part.chunks], pa.string())

    @property
    def owner(self) -> np.ndarray:
        """For each the number of its file group."""
        return np.repeat(np.arange(len(self.slices)), [len(part) for part in self.parts])

    def places(self) -> tuple[list[str], np.ndarray]:
        """Partition and file group of each file group as one text, and of each key the number of that."""
        return [_place(each.partition, each.file_id) for each in self.slices], self.owner


def _place(partition: str, file_id: str) -> str:
    return f"{partition}/{file_id}" if partition else file_id


def duplicates(keys: Keys, *, whole_table: bool) -> Iterator[Difference]:
    """Record keys that are there more than once.

    Args:
        keys: all keys.
        whole_table: whether a key must be one of a kind in the whole table; else in its partition.
    """
    groups: dict[str, list[int]] = {}
    for number, each in enumerate(keys.slices):
        groups.setdefault("" if whole_table else each.partition, []).append(number)
    for partition, numbers in groups.items():
        chunks = [chunk for number in numbers for chunk in keys.parts[number].chunks]
        counted = pa.chunked_array(chunks, pa.string()).value_counts()
        twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        if len(twice):
            yield Difference("record keys", partition, f"{_named(twice)} there more than once")


def location_differences(table: MetadataTable, keys: Keys) -> Iterator[Difference]:
    """Record keys that the index has in another place than they are in, hasn't got, or has for nothing."""
    shards = table.shards(RECORD_INDEX)
    index = RecordShards.of(table.storage, shards.all, table.scope, partitioned=shards.partitioned)
    parts = [index.scan(number) for number in range(len(index.slices))]
    told = pa.concat_tables([part.cast(_PLAIN) for part in parts]) if parts else _PLAIN.empty_table()
    names, owner = keys.places()
    known = pa.array(names, pa.string())
    places = pc.binary_join_element_wise(told[PARTITION_PATH], told[FILE_ID], "/")
    places = pc.if_else(pc.equal(told[PARTITION_PATH], ""), told[FILE_ID], places)
    of_index = np.asarray(pc.fill_null(pc.index_in(places, value_set=known), -1)).astype(np.int64)
    here, there = _matched(keys.all, owner, told[RECORD_KEY], of_index)
    for number, missing in _by(owner, ~here):
        yield Difference(RECORD_INDEX, names[number], f"{_named(keys.all.take(missing))} there, not by the index")
    for number, spare in _by(of_index, ~there):
        where = names[number] if number >= 0 else ""
        yield Difference(RECORD_INDEX, where, f"{_named(told[RECORD_KEY].take(spare))} there by the index only")


_PLAIN = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string()), (FILE_ID, pa.string())])


def _matched(
    left: pa.ChunkedArray, left_place: np.ndarray, right: pa.ChunkedArray, right_place: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each of two lists of keys in places whether the other one has it too."""
    coded = pa.chunked_array([*left.chunks, *right.chunks], pa.string()).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([np.zeros(0, np.int64), *(np.asarray(chunk.indices) for chunk in coded.chunks)])
    places = np.concatenate([left_place, right_place]).astype(np.int64)
    pairs = codes.astype(np.int64) * (int(places.max(initial=0)) + 2) + places + 1
    mine, others = pairs[: len(left)], pairs[len(left) :]
    return np.isin(mine, others), np.isin(others, mine)


def _by(owner: np.ndarray, chosen: np.ndarray) -> Iterator[tuple[int, pa.Array]]:
    """Rows that are chosen, by their owner."""
    rows = np.flatnonzero(chosen)
    for number in np.unique(owner[rows]).tolist():
        yield number, pa.array(rows[owner[rows] == number])


def _named(keys: pa.Array | pa.ChunkedArray) -> str:
    shown = ", ".join(repr(key) for key in keys.slice(0, _SHOWN).to_pylist())
    more = f", and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
    return f"{len(keys):,} record keys ({shown}{more}) are" if len(keys) > 1 else f"record key {shown} is"


def bloom_differences(meta: MetaClient, table: MetadataTable, slices: Sequence[FileSlice]) -> Iterator[Difference]:
    """Base files with keys that their bloom filter doesn't know, or without one."""
    bases = {bloom_key(s.partition, s.base.name.name): s.base for s in slices if s.base is not None}
    found = {row["key"]: row["BloomFilterMetadata"] for row in table.read(BLOOM_FILTERS, keys=list(bases)).to_pylist()}
    for key, base in bases.items():
        held = found.get(key)
        if held is None:
            yield Difference(BLOOM_FILTERS, base.path, "the file has no bloom filter in the metadata table")
            continue
        keys = open_base_file(meta.storage, base).read([RECORD_KEY]).column(0)
        try:
            known = BloomFilter.from_base64(held["bloomFilter"], held["type"]).might_contain(keys)
        except CorruptError as error:
            yield Difference(BLOOM_FILTERS, base.path, str(error))
            continue
        lost = keys.filter(pc.invert(known))
        if len(lost):
            yield Difference(BLOOM_FILTERS, base.path, f"{_named(lost)} unknown to the bloom filter")


def value_differences(
    meta: MetaClient, table: MetadataTable, name: str, values: Callable[[str], pa.Table]
) -> Iterator[Difference]:
    """Records that a secondary index has under another value than they have, hasn't got, or has for nothing.

    Args:
        meta: the table.
        table: its metadata table.
        name: the index, a partition of the metadata table.
        values: record key and value of a column of all records.
    """
    fields = (read_definitions(meta).get(name) or {}).get("sourceFields") or []
    if len(fields) != 1:
        yield Difference(name, "", "no definition says which column it is about")
        return
    rows = values(fields[0])
    kind = rows.schema.field(fields[0]).type
    if not (pa.types.is_string(kind) or pa.types.is_signed_integer(kind)):
        return
    records = table.read(name)["key"].combine_chunks()
    told, keys = split_secondary_keys(records)
    pairs = [_paired(rows[RECORD_KEY], rows[fields[0]].cast(pa.string())), _paired(keys, told)]
    for mine, other, what in ((pairs[0], pairs[1], "not by the index"), (pairs[1], pairs[0], "by the index only")):
        lost = mine.filter(pc.invert(pc.is_in(mine, value_set=other)))
        if len(lost):
            yield Difference(name, "", f"{_named(lost)} there {what}")


def _paired(keys: pa.Array | pa.ChunkedArray, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Key and value as one text."""
    shown = pc.if_else(pc.is_null(values), "null", pc.binary_join_element_wise("'", pc.fill_null(values, ""), "'", ""))
    whole = pc.binary_join_element_wise(keys, shown, "=")
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
