"""Ways to damage a table, each with what a check is to say of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.filegroup import BaseFile, FileSlice
from pudi.format import BloomFilter, BloomOptions
from pudi.format.metadata_partitions import COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from pudi.metadata import column_stats_records, partition_stats_records, stats_of_records
from pudi.metadata.changes import Changes, bloom_changes, encode_changes, files_changes
from pudi.metadata.keys import secondary_keys
from pudi.metadata.record_index import encode_location, secondary_value
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.commit import commit_changes


def _open(path: Path) -> MetaClient:
    return MetaClient.open(str(path), None, {})


def say(path: Path, partition: str, changes: Changes) -> None:
    """Have the metadata table say something else from now on, as a writer with an error would."""
    meta = _open(path)
    mdt = open_metadata(meta)
    with meta.lock:
        newest = max(meta.store.load().commits[-1].requested, mdt.store.load().commits[-1].requested)
        commit_changes(mdt, f"{int(newest) + 1}", {partition: changes})


def newest_slice(path: Path, partition: str = "nyc") -> FileSlice:
    """A slice of a partition, with log files if one has some."""
    meta = _open(path)
    slices = [s for s in TableSnapshot.load(meta).view().all_slices() if s.partition == partition]
    return max(slices, key=lambda s: len(s.logs))


def newest_base(path: Path) -> BaseFile:
    """The base file of that slice."""
    base = newest_slice(path).base
    assert base is not None
    return base


def forget_a_file(path: Path) -> None:
    """A base file is listed no more."""
    base = newest_base(path)
    say(path, FILES, files_changes({base.partition: {base.name.name: None}}, partitions=["nyc"]))


def list_a_stranger(path: Path) -> None:
    """A file is listed that isn't there."""
    base = newest_base(path)
    name = base.name.name.replace(base.instant, f"{int(base.instant) + 1}")
    say(path, FILES, files_changes({base.partition: {name: 4711}}, partitions=["nyc"]))


def misplace_a_key(path: Path) -> None:
    """The record index has a key in another file group."""
    other = newest_slice(path, "chennai")
    said = encode_location(other.partition, other.file_id, 0)
    say(path, RECORD_INDEX, Changes(pa.array(["k0003"]), pa.array([said], pa.binary())))


def lose_a_key(path: Path) -> None:
    """The record index has a key no more."""
    say(path, RECORD_INDEX, Changes(pa.array([], pa.string()), pa.array([], pa.binary()), pa.array(["k0003"])))


def invent_a_key(path: Path) -> None:
    """The record index has a key that no file has."""
    own = newest_slice(path)
    said = encode_location(own.partition, own.file_id, 0)
    say(path, RECORD_INDEX, Changes(pa.array(["nobody"]), pa.array([said], pa.binary())))


def _narrow(path: Path, partition: str, name: str = "") -> None:
    """Statistics of `fare`, of partitions or of one file in nyc, end at its least value."""
    meta = _open(path)
    stats = stats_of_records(TableSnapshot.load(meta).metadata_table().read(partition))
    mine = stats.filter(pc.equal(stats["column"], "fare"))
    rows = mine.set_column(mine.schema.get_field_index("max"), mine.schema.field("max"), mine["min"])
    if partition == COLUMN_STATS:
        rows = rows.filter(pc.equal(rows["file"], name))
    partitions = pa.array(["nyc" if partition == COLUMN_STATS else name for name in rows["file"].to_pylist()])
    rows = rows.set_column(0, rows.schema.field(0), partitions)
    make = column_stats_records if partition == COLUMN_STATS else partition_stats_records
    told = encode_changes(make(rows, 2))
    say(path, partition, Changes(told.keys.slice(0, 0), told.values.slice(0, 0), told.keys))  # or it would be merged
    say(path, partition, told)


def narrow_a_file(path: Path) -> None:
    """Statistics of a file say that it hasn't values that it has."""
    _narrow(path, COLUMN_STATS, newest_base(path).name.name)


def narrow_a_log(path: Path) -> None:
    """The same of a log file."""
    _narrow(path, COLUMN_STATS, newest_slice(path).logs[-1].name.name)


def narrow_partitions(path: Path) -> None:
    """Statistics of partitions say that they haven't values that they have."""
    _narrow(path, PARTITION_STATS)


def truncate(partition: str) -> Callable[[Path], None]:
    """An HFile of the metadata table ends too early."""

    def run(path: Path) -> None:
        files = (path / ".hoodie" / "metadata" / partition).glob("*.hfile")
        file = max(files, key=lambda each: each.stat().st_size)
        file.write_bytes(file.read_bytes()[:-100])

    return run


def remove(what: str) -> Callable[[Path], None]:
    """A folder is gone."""

    def run(path: Path) -> None:
        for file in (path / what).rglob("*"):
            if file.is_file():
                file.unlink()

    return run


def garble_definitions(path: Path) -> None:
    """The definitions of indexes are none."""
    (path / ".hoodie" / ".index_defs" / "index.json").write_text(json.dumps({"indexDefinitions": {"column_stats": 7}}))


def narrow_results(path: Path) -> None:
    """An expression index over riders says of a file that it hasn't results that it has."""
    meta, name = _open(path), newest_base(path).name.name
    stats = stats_of_records(TableSnapshot.load(meta).metadata_table().read(UPPER))
    rows = stats.filter(pc.equal(stats["file"], name))
    rows = rows.set_column(rows.schema.get_field_index("max"), rows.schema.field("max"), pa.array([b"A"], pa.binary()))
    rows = rows.set_column(rows.schema.get_field_index("min"), rows.schema.field("min"), pa.array([b"A"], pa.binary()))
    rows = rows.set_column(0, rows.schema.field(0), pa.array(["nyc"], pa.string()))
    told = encode_changes(column_stats_records(rows, 2))
    say(path, UPPER, Changes(told.keys.slice(0, 0), told.values.slice(0, 0), told.keys))
    say(path, UPPER, told)


def misfile_a_value(path: Path) -> None:
    """The secondary index over riders has a record under another one."""
    keys = secondary_keys(pa.array(["nobody"]), pa.array(["k0003"]))
    say(path, BY_RIDER, Changes(keys, pa.array([secondary_value()], pa.binary())))


def empty_a_filter(path: Path) -> None:
    """The filter of an expression index over riders has none of a file's results."""
    base = newest_base(path)
    none = BloomFilter.build(pa.array(["somebody else"]), BloomOptions(num_entries=10))
    say(path, LOWER, bloom_changes([(base.partition, base.name.name, base.instant, none)]))


UPPER, LOWER, BY_RIDER = "expr_index_upper", "expr_index_lower", "secondary_index_rider"
"""Indexes with names that a table may be given for these damages: statistics, filters, and values."""


@dataclass(frozen=True)
class Damage:
    """One way.

    Attributes:
        name: what it is.
        do: does it.
        index: what the check says is wrong.
        told: part of what it says of it.
    """

    name: str
    do: Callable[[Path], None]
    index: str
    told: str


NAMED_DAMAGES = [
    Damage("narrow results", narrow_results, UPPER, "results for 'rider': values from A to A are stated"),
    Damage("empty filter", empty_a_filter, LOWER, "missing from its bloom filter"),
    Damage("misfiled value", misfile_a_value, BY_RIDER, "only in the index"),
    Damage("truncated results", truncate(UPPER), UPPER, "can't be read"),
]
DAMAGES = [
    Damage("forgotten file", forget_a_file, FILES, "the file is not listed, so readers miss its records"),
    Damage("stranger listed", list_a_stranger, FILES, "the file is listed, but missing"),
    Damage("misplaced key", misplace_a_key, RECORD_INDEX, "record key 'k0003' is missing from the index"),
    Damage("lost key", lose_a_key, RECORD_INDEX, "record key 'k0003' is missing from the index"),
    Damage("invented key", invent_a_key, RECORD_INDEX, "record key 'nobody' is only in the index"),
    Damage("narrow statistics", narrow_a_file, COLUMN_STATS, "column 'fare': values from"),
    Damage("narrow statistics of a log", narrow_a_log, COLUMN_STATS, "column 'fare': values from"),
    Damage("narrow partitions", narrow_partitions, PARTITION_STATS, "column 'fare' in nyc/"),
    Damage("truncated files", truncate(FILES), FILES, "can't be read"),
    Damage("truncated statistics", truncate(COLUMN_STATS), COLUMN_STATS, "can't be read"),
    Damage("truncated record index", truncate(RECORD_INDEX), RECORD_INDEX, "can't be read"),
    Damage("no record index", remove(".hoodie/metadata/record_index"), RECORD_INDEX, "can't be read"),
    Damage("no metadata table", remove(".hoodie/metadata"), "metadata table", "can't be read"),
    Damage("no definitions", garble_definitions, COLUMN_STATS, "can't be read"),
]
