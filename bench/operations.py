"""The operations that are measured, and the interface of contestants."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

FILTER = "city = 'nyc' AND fare > 90"

ROUND = [
    "bulk_insert",
    "upsert_10",
    "upsert_1_new",
    "delete_1",
    "aggregate",
    "filtered",
    "incremental",
    "one_row",
    "plain_scan",
    "plain_write",
]
"""Operations of a round, in their order, on a table that is new in each round."""


@dataclass(frozen=True)
class Setting:
    """A table that contestants keep, and what is measured on it.

    Attributes:
        name: in file names and on the page.
        title: on the page.
        operations: of a round, in their order: a method of the contestants, or `verb:batch`.
        key: record key columns.
        partition: partition column, empty for none.
        ordering: ordering column, empty for none.
        options: writers' options, by Hudi's names, which pudi and Hudi take alike.
        load: batch of the first write.
        rows: of trips; 0 where the data has a size of its own.
        table_type: `cow` or `mor`.
        prepared: what the table is that's made once by pudi, each contestant going on with a copy (Delta Lake can't):
            `groups` or `logs`, see `trips.py`; empty for a table of each contestant's own.
        peers: contestants beside pudi; None for all.
        groups: contestants with a JVM, without one, or both side by side, see `run.py`.
    """

    name: str
    title: str
    operations: tuple[str, ...]
    key: tuple[str, ...] = ("uuid",)
    partition: str = "city"
    ordering: str = "ts"
    options: dict[str, str] = field(default_factory=dict)
    load: str = "trips"
    rows: int = 1_000_000
    table_type: str = "cow"
    prepared: str = ""
    peers: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ("spark", "spark4")


TRIPS = Setting("trips", "Trips", tuple(ROUND), rows=0, groups=("local", "spark", "spark4"))
_INDEXED = ("bulk_insert", "upsert_10", "upsert_1_new", "delete_1", "one_row")
_HUDI = ("hudi-gzip", "hudi-zstd")
RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
SETTINGS = [
    Setting(
        "mor",
        "Merge-on-read",
        ("bulk_insert", "upsert_10", "upsert_1_new", "delete_1", "aggregate", "incremental", "one_row"),
        table_type="mor",
        peers=_HUDI,
    ),
    Setting(
        "mor-local",
        "Merge-on-read on the local engine",
        ("bulk_insert", "upsert_10", "upsert_1_new", "delete_1", "aggregate", "incremental", "one_row"),
        table_type="mor",
        peers=("delta-rs",),
        groups=("local",),
    ),
    Setting(
        "mor-logs",
        "Ten log files of 1% in Avro over each base file",
        ("aggregate", "compact"),
        options={"hoodie.logfile.data.block.format": "avro"},
        table_type="mor",
        prepared="logs",
        peers=_HUDI,
    ),
    Setting("bloom", "Bloom index", _INDEXED, options={"hoodie.index.type": "BLOOM"}, peers=_HUDI),
    Setting(
        "bucket",
        "Bucket index, two buckets a partition",
        _INDEXED,
        options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
        peers=_HUDI,
    ),
    Setting(
        "global-simple", "Global simple index", _INDEXED, options={"hoodie.index.type": "GLOBAL_SIMPLE"}, peers=_HUDI
    ),
    Setting("global-bloom", "Global bloom index", _INDEXED, options={"hoodie.index.type": "GLOBAL_BLOOM"}, peers=_HUDI),
    Setting(
        "overwrite",
        "insert_overwrite of every partition by a tenth of the rows",
        ("bulk_insert", "insert_overwrite:upsert_10"),
        peers=_HUDI,
    ),
    Setting(
        "groups",
        "1,000 file groups, bloom index",
        ("upsert:random_1", "one_row"),
        options={"hoodie.index.type": "BLOOM", "hoodie.index.bloom.num_entries": "2000"},
        prepared="groups",
        peers=("hudi-zstd",),
    ),
    Setting(
        "record-index",
        "Record index over the whole table",
        ("bulk_insert", "upsert_10", "upsert_1_new", "delete_1", "one_row", "point_lookup"),
        options=RECORD_INDEX,
        peers=_HUDI,
        groups=("keys",),
    ),
    Setting(
        "index-build",
        "A record index made for a table that has none",
        ("bulk_insert", "build_index"),
        options={"hoodie.metadata.enable": "true"},
        rows=10_000_000,
        peers=("hudi-zstd",),
        groups=("spark",),
    ),
    Setting(
        "lineitem",
        "TPC-H lineitem, SF1, refreshes of 0.1%",
        ("bulk_insert", "upsert:rf1", "delete:rf2", "q1", "q6"),
        key=("l_orderkey", "l_linenumber"),
        partition="",
        ordering="",
        load="lineitem",
        rows=0,
        peers=("hudi-zstd", "delta-spark"),
    ),
]

TITLES = {
    "bulk_insert": "bulk_insert",
    "upsert_10": "upsert 10% over all files",
    "upsert_1_new": "upsert 1% new keys",
    "delete_1": "delete 1%",
    "aggregate": "full-scan aggregate",
    "filtered": "filtered scan",
    "incremental": "incremental",
    "one_row": "one-row upsert",
    "insert_overwrite:upsert_10": "insert_overwrite",
    "upsert:random_1": "upsert of 1% random keys",
    "upsert:rf1": "new rows (RF1)",
    "delete:rf2": "delete of rows (RF2)",
    "compact": "compaction",
    "point_lookup": "one row by its key",
    "build_index": "making the index",
    "q1": "Q1",
    "q6": "Q6",
}


@dataclass
class Stopwatch:
    """Seconds of an operation: all of it, and what of it was planning (before any data is read)."""

    seconds: float = 0.0
    planning: float | None = None
    answer: Any = None
    started: float = field(default_factory=time.perf_counter)

    def planned(self) -> None:
        """Planning ends here."""
        self.planning = time.perf_counter() - self.started


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure a block."""
    watch = Stopwatch()
    yield watch
    watch.seconds = time.perf_counter() - watch.started


def one_key(data: Path) -> str:
    """The key of the trip that is upserted alone, which no batch deletes."""
    key: str = pq.read_table(data / "one_row", columns=["uuid"])["uuid"][0].as_py()
    return key


class Contestant(Protocol):
    """One engine, in a process of its own. An operation that it doesn't offer has no method.

    Each method does one operation within `stopwatch()` and returns it; what has to be got ready is done before.
    Reads leave `(rows, checksum)` as the answer, so that nobody is fast by being wrong.
    """

    def versions(self) -> dict[str, str]:
        """Names and versions of what does the work."""

    def open(self, data: Path, table: Path, setting: Setting) -> None:
        """Take up new batches, and the place of a new table that isn't there yet (or is, if it's prepared)."""

    def close(self) -> None:
        """Give back everything."""


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of installed packages."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from the source tree
            found[name] = "source tree"
    return found
