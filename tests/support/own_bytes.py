"""Tables whose every byte follows from a script: fixed clock, ids and data, one after the other on the local engine."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

import pudi
from pudi.client import MetaClient
from pudi.context import Context, ManualClock
from pudi.storage import StorageWrapper
from pudi.testing import SimulatedCrash
from pudi.writes.create import create_table
from support.trips import SCHEMA, table, trip

_VERSION = "hoodie.write.table.version"


class _TickingClock(ManualClock):
    """Tells a later time at each question, as long as it's asked in one order."""

    def now_ms(self) -> int:
        self.advance(0.001)
        return super().now_ms()


class _DyingStorage(StorageWrapper):
    """The process dies when it would create the file of a completed instant."""

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file, unless it completes something."""
        if path.startswith(".hoodie/timeline/") and not path.endswith((".requested", ".inflight")):
            raise SimulatedCrash(path)
        super().create(path, data, durable=durable)


def _make(root: Path, kind: str, version: str, **options: str) -> pudi.Table:
    named = {key.replace("__", "."): value for key, value in options.items()}
    given = {"hoodie.table.timeline.timezone": "UTC", _VERSION: version, **named}
    meta = create_table(
        str(root),
        SCHEMA,
        record_key=["uuid"],
        partition_by=["city"],
        ordering=["ts"],
        table_type=kind,
        name="trips",
        options=given,
        storage_options=None,
        context=Context(_TickingClock(), seed=1),
    )
    return pudi.Table.of(meta, given)


def _verbs(made: pudi.Table) -> None:
    """Every verb that changes records."""
    made.bulk_insert(table([trip(number, 10) for number in range(30)]))
    made.insert(table([trip(number, 10, "bob") for number in range(30, 40)]))
    made.upsert(table([trip(number, 20, "eve") for number in range(0, 45, 3)]))
    made.delete(table([trip(number, 30) for number in (1, 2, 3)]))
    made.update({"fare": "fare + 1", "ts": "ts + 1"}, where="city = 'nyc'")
    made.delete(where="uuid = 'k0009'")
    source = table([trip(number, 50, "merged") for number in (4, 5, 50)])
    made.merge(source).when_matched_update().when_not_matched_insert().execute()
    made.insert_overwrite(table([trip(number, 60) for number in (7, 10)]))
    made.delete_partitions(["chennai"])
    made.upsert(table([trip(number, 70) for number in (2, 7, 12)]))


def _services(made: pudi.Table) -> None:
    """Compaction of slices and of logs, among writes."""
    _verbs(made)
    for time in range(80, 140, 10):
        made.upsert(table([trip(number, time) for number in (0, 4, 6, 12)]))
    made.compact(log_compaction=True)
    made.upsert(table([trip(number, 150) for number in (0, 6)]))
    made.compact()
    made.delete(table([trip(0, 160)]))


def _schema(made: pudi.Table) -> None:
    """A schema that evolves, with and without an id for each column."""
    made.insert(table([trip(number, 10) for number in range(5)]))
    made.add_column("tip", pa.float64())
    made.rename_column("rider", "who")
    made.drop_column("fare")
    made.upsert(made.scan(where="ts > 5").to_arrow())


def _crashes(made: pudi.Table) -> None:
    """Writers that die when all but their commit is done, and those who repair."""
    made.bulk_insert(table([trip(number, 10) for number in range(10)]))
    meta = made._meta
    for time, verb in ((20, "upsert"), (30, "insert_overwrite"), (40, "delete")):
        dying = MetaClient.open(meta.storage.root, None, made._options, meta.context, _DyingStorage(meta.storage))
        with contextlib.suppress(SimulatedCrash):
            getattr(pudi.Table.of(dying, made._options), verb)(table([trip(number, time) for number in range(3)]))
        made.upsert(table([trip(number, time + 5) for number in range(5)]))


def _indexes(made: pudi.Table) -> None:
    """Indexes made of a table that has records, and kept by writes."""
    made.bulk_insert(table([trip(number, 10) for number in range(10)]))
    made.create_index("record_index")
    made.create_index("secondary_index", "rider")
    made.create_index("column_stats", "rider", name="lower_rider", expr="lower")
    made.create_index("bloom_filters")
    made.upsert(table([trip(number, 20, "eve") for number in range(0, 15, 3)]))
    made.delete(table([trip(3, 30)]))
    made.drop_index("lower_rider")
    made.upsert(table([trip(5, 40)]))


SCRIPTS: Mapping[str, tuple[Callable[..., None], str, str, dict[str, str]]] = {
    "cow 6": (_verbs, "cow", "6", {}),
    "cow 8": (_verbs, "cow", "8", {}),
    "cow 9": (_verbs, "cow", "9", {}),
    "mor 6": (_verbs, "mor", "6", {}),
    "mor 8": (_services, "mor", "8", {}),
    "mor 9": (_services, "mor", "9", {}),
    "cow 9 without a metadata table": (_verbs, "cow", "9", {"hoodie__metadata__enable": "false"}),
    "cow 9 record index": (
        _verbs,
        "cow",
        "9",
        {"hoodie__metadata__record__index__enable": "true", "hoodie__index__type": "RECORD_INDEX"},
    ),
    "mor 9 bloom filters": (_services, "mor", "9", {"hoodie__metadata__index__bloom__filter__enable": "true"}),
    "mor 9 Parquet logs": (_services, "mor", "9", {"hoodie__logfile__data__block__format": "parquet"}),
    "cow 9 buckets": (
        _verbs,
        "cow",
        "9",
        {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "2"},
    ),
    "cow 9 crashes": (_crashes, "cow", "9", {}),
    "mor 9 crashes": (_crashes, "mor", "9", {}),
    "cow 9 indexes": (_indexes, "cow", "9", {}),
    "mor 9 indexes": (_indexes, "mor", "9", {}),
    "cow 9 HFile": (_verbs, "cow", "9", {"hoodie__table__base__file__format": "HFILE"}),
    "cow 9 schema on read": (_schema, "cow", "9", {}),
}
"""By name: what is done, to a table of which type, version and options."""


def digests(folder: Path, name: str) -> dict[str, str]:
    """Run a script; by path of each file of its table, its size and the first quarter of its SHA-256.

    Files that name the table's location are listed only.
    """
    run, kind, version, options = SCRIPTS[name]
    root = folder / "trips"
    run(_make(root, kind, version, **options))
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): _digest(path.read_bytes(), root) for path in files}


def _digest(data: bytes, root: Path) -> str:
    if str(root).encode() in data:
        return "names its location"
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"
