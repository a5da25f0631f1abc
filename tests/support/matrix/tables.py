"""The tables of the damage matrix, each made once by a script of verbs, beside a plain model of its instants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import pudi
from pudi.client import MetaClient
from pudi.context import Context, ManualClock
from pudi.storage import StorageWrapper
from pudi.testing import SimulatedCrash
from pudi.writes.create import create_table
from support.archiving import archive

SCHEMA = pa.schema([("k", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
Rows = dict[str, str]


def rows(ts: int, value: str, *keys: int) -> pa.Table:
    """Records of some keys; every tenth key begins another partition."""
    said = [{"k": f"k{key:02}", "p": "abc"[key // 10], "ts": ts, "v": f"{value}{key}"} for key in keys]
    return pa.Table.from_pylist(said, schema=SCHEMA)


class _Ticking(ManualClock):
    def now_ms(self) -> int:
        self.advance(0.001)
        return super().now_ms()


class _Dying(StorageWrapper):
    """The process dies when it would complete an instant of the table."""

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        inside = path.startswith(".hoodie/") and path.rpartition("/")[0] in {".hoodie", ".hoodie/timeline"}
        if inside and path.endswith("commit"):
            raise SimulatedCrash(path)
        super().create(path, data, durable=durable)


@dataclass
class Made:
    """A table and what it holds.

    Attributes:
        path: its folder.
        options: of those who open it.
        mor: whether it's merge-on-read.
        logs_changes: whether its commits log change data.
        now: value by key.
        then: the same, at each instant that a verb completed.
        touched: by key, the instant that wrote it last.
        completed: completion times of those instants.
    """

    path: Path
    options: dict[str, str]
    mor: bool
    logs_changes: bool = False
    now: Rows = field(default_factory=dict)
    then: dict[str, Rows] = field(default_factory=dict)
    touched: dict[str, str] = field(default_factory=dict)
    completed: dict[str, str] = field(default_factory=dict)


class _Script:
    """Runs verbs on the table and on the model."""

    def __init__(self, made: Made, table: Any) -> None:
        self.made, self.table = made, table

    def put(self, verb: str, data: pa.Table) -> None:
        done = getattr(self.table, verb)(data)
        now = dict(self.made.now)
        for row in data.to_pylist():
            if verb == "insert_overwrite":
                now = {key: value for key, value in now.items() if _partition(key) != row["p"]}
        for row in data.to_pylist():
            self.made.touched[row["k"]] = done.instant
            if verb == "delete":
                now.pop(row["k"], None)
            else:
                now[row["k"]] = row["v"]
        self.made.now = now
        self.made.then[done.instant] = now

    def die(self, data: pa.Table) -> None:
        meta = self.table._meta
        dying = MetaClient.open(meta.storage.root, None, self.table._options, meta.context, _Dying(meta.storage))
        with contextlib.suppress(SimulatedCrash):
            pudi.Table.of(dying, self.table._options).upsert(data)


def _partition(key: str) -> str:
    return "abc"[int(key[1:]) // 10]


def _everything(do: _Script) -> None:
    do.put("bulk_insert", rows(1, "one", 0, 1, 2, 3, 10, 11, 12))
    do.put("insert", rows(1, "one", 20, 21))
    do.put("upsert", rows(2, "two", 0, 10))
    do.put("delete", rows(2, "", 1))
    do.put("insert_overwrite", rows(3, "three", 22, 23))
    do.die(rows(4, "died", 0, 11))
    do.put("upsert", rows(4, "four", 0, 2))
    if do.made.mor:
        if do.table.config.version >= 8:
            do.table.compact(log_compaction=True, options={"hoodie.log.compaction.blocks.threshold": "1"})
        do.table.compact()
    do.put("upsert", rows(5, "five", 0, 3, 10))
    do.put("delete", rows(5, "", 2))
    do.die(rows(6, "died", 0, 12))


def _indexed(do: _Script) -> None:
    do.put("bulk_insert", rows(1, "one", 0, 1, 2, 3, 10, 11, 12))
    do.table.create_index("record_index")
    do.table.create_index("secondary_index", "v")
    do.table.create_index("column_stats", "v", name="lower_v", expr="lower")
    do.table.create_index("bloom_filters")
    do.put("upsert", rows(2, "two", 0, 3, 10))
    do.put("delete", rows(5, "", 2))


def _archived(do: _Script) -> None:
    for number in range(8):
        do.put("upsert", rows(number, f"turn{number}x", 0, number, 10))
    archive(do.made.path, 4)
    for instant in list(do.made.then)[:4]:
        del do.made.then[instant]


def _evolved(do: _Script) -> None:
    do.put("insert", rows(1, "one", 0, 1, 10))
    do.table.add_column("extra", pa.float64())
    do.put("upsert", rows(2, "two", 0).append_column("extra", pa.array([1.5])))
    do.table.add_column("more", pa.int32())


def _hashed(do: _Script) -> None:
    do.put("upsert", rows(1, "one", 0, 1, 2, 10))
    do.put("upsert", rows(2, "two", 0, 10))
    do.put("delete", rows(3, "", 1))


def _logged(do: _Script) -> None:
    do.put("insert", rows(1, "one", 0, 1, 2, 10))
    do.put("upsert", rows(2, "two", 0, 10))
    do.put("upsert", rows(3, "three", 0, 1, 3))
    do.put("delete", rows(4, "", 1))


_LOGGING = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
}
_NO_METADATA = {"hoodie.metadata.enable": "false"}
_HASHING = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
}

SCRIPTS: Mapping[str, tuple[Callable[[_Script], None], str, int, dict[str, str]]] = {
    **{f"{kind}{version}": (_everything, kind, version, {}) for kind in ("cow", "mor") for version in (6, 8, 9)},
    "cow6 unlisted": (_everything, "cow", 6, _NO_METADATA),
    "mor9 unlisted": (_everything, "mor", 9, _NO_METADATA),
    "mor6 unlisted": (_everything, "mor", 6, _NO_METADATA),
    "mor9 parquet": (_everything, "mor", 9, {"hoodie.logfile.data.block.format": "parquet"}),
    "mor9 hfile": (_everything, "mor", 9, {"hoodie.logfile.data.block.format": "hfile"}),
    "cow9 hfile": (_everything, "cow", 9, {"hoodie.table.base.file.format": "HFILE"}),
    "cow9 orc": (_everything, "cow", 9, {"hoodie.table.base.file.format": "ORC"}),
    "mor9 virtual": (_everything, "mor", 9, {"hoodie.populate.meta.fields": "false"}),
    "mor9 indexed": (_indexed, "mor", 9, {}),
    "cow9 archived": (_archived, "cow", 9, _NO_METADATA),
    "mor6 archived": (_archived, "mor", 6, _NO_METADATA),
    "cow9 evolved": (_evolved, "cow", 9, {}),
    "mor9 hashing": (_hashed, "mor", 9, _HASHING),
    "cow9 logged": (_logged, "cow", 9, _LOGGING),
}
"""By name: what is done, to a table of which type, version and options."""


def make(folder: Path, name: str) -> Made:
    """Run a script in a folder that is there."""
    run, kind, version, options = SCRIPTS[name]
    path = folder / "table"
    given = {
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.write.table.version": str(version),
        "pudi.write.sync": "false",
        **options,
    }
    meta = create_table(
        str(path),
        SCHEMA,
        record_key=["k"],
        partition_by=["p"],
        ordering=["ts"],
        table_type=kind,
        name="matrix",
        options=given,
        storage_options=None,
        context=Context(_Ticking(), seed=1),
    )
    opened = {"pudi.write.sync": "false", "hoodie.write.set.null.for.missing.columns": "true"}
    opened |= {key: value for key, value in options.items() if key == "hoodie.metadata.enable"}
    made = Made(path, opened, kind == "mor", options == _LOGGING)
    run(_Script(made, pudi.Table.of(meta, given)))
    commits = pudi.Table(str(path), options=opened).timeline.commits
    made.completed = {instant.requested: instant.completion or instant.requested for instant in commits}
    return made
