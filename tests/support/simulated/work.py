"""What processes do in a simulation: kinds of tables, and operations.

A record is a key, its partition, and a number that tells its history: the numbers of the operations that wrote it, as
digits to base 32. A write of the whole record begins that anew; an update appends to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pyarrow as pa

import pudi
from pudi.context import Context
from pudi.format import TABLE_LOCK
from pudi.storage import open_storage
from pudi.testing import InlineExecutor, TimerClock
from pudi.writes.create import create_table

BASE = 32
LAST = BASE - 1
"""Number of the operation that follows all others."""
FIRST_KEYS = tuple(f"k{number}" for number in range(6))
PARTITIONS = ("a", "b")
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])
ORDERING = "at"
"""The ordering column of tables that have one: the number of the operation that wrote the record last."""

Row = tuple[str, int]
"""Partition and number."""
State = Mapping[str, Row]
"""Rows by key."""


def partition_of(key: str) -> str:
    """A key is in one partition always."""
    return PARTITIONS[int(key[-1], 36) % 2]


def new_key(key: str) -> str:
    """A key that isn't there at first, in the same partition; several writers may bring it."""
    return f"x{key[1:]}"


def rows(found: Mapping[str, int], *, ordered: bool = False) -> pa.Table:
    """Numbers by key as records."""
    keys = list(found)
    made = pa.table({"id": keys, "p": [partition_of(k) for k in keys], "n": list(found.values())}, schema=SCHEMA)
    return made.append_column(ORDERING, pa.array([n % BASE for n in found.values()], pa.int64())) if ordered else made


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table, and where its services run."""

    table_type: Literal["cow", "mor"]
    index: Literal["simple", "bucket", "record"]
    version: Literal["6", "8", "9"]
    services: Literal["inline", "apart"]
    nonblocking: bool = False
    ordered: bool = False

    def __str__(self) -> str:
        said = f"{self.table_type}, version {self.version}, {self.index} index, services {self.services}"
        said += ", non-blocking" if self.nonblocking else ""
        return f"{said}, by event time" if self.ordered else said

    @property
    def is_loose(self) -> bool:
        """Whether its commits have no one order: without ordering column, by non-blocking concurrency control."""
        return self.nonblocking and not self.ordered

    @property
    def options(self) -> dict[str, str]:
        """The options of all its processes."""
        found = dict(_OPTIONS) | _INDEXES[self.index] | {"hoodie.write.table.version": self.version}
        inline = self.services == "inline"
        found["hoodie.table.services.enabled"] = str(inline).lower()
        found["hoodie.compact.inline"] = str(inline and self.table_type == "mor").lower()
        found["hoodie.clustering.inline"] = str(self.index != "bucket").lower()
        return found | (_NONBLOCKING if self.nonblocking else {})


KINDS = tuple(
    Kind(table_type, index, version, services)
    for services in ("inline", "apart")
    for table_type in ("cow", "mor")
    for index in ("simple", "bucket", "record")
    for version in ("6", "8", "9")
)
NONBLOCKING_KINDS = tuple(
    Kind("mor", "bucket", version, services, nonblocking=True, ordered=ordered)
    for ordered in (False, True)
    for services in ("inline", "apart")
    for version in ("8", "9")
)
"""Tables of writers that don't block each other; runs of them have the seeds below 0."""

_MODE = "hoodie.write.concurrency.mode"
_NONBLOCKING = {_MODE: "NON_BLOCKING_CONCURRENCY_CONTROL", "hoodie.bucket.index.num.buckets": "8"}
_ORDINARY = {_MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}

_OPTIONS = {
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.write.lock.provider": "StorageBasedLockProvider",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
    "hoodie.write.lock.wait_time_ms": "60000",
    "hoodie.client.heartbeat.interval_in_ms": "3000",
    "hoodie.client.heartbeat.tolerable.misses": "2",
    "hoodie.parquet.compression.codec": "uncompressed",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
_INDEXES = {
    "simple": {},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    "record": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "1",
    },
}


_ORDERED = "-ordered"
"""The end of the names of tables with an ordering column."""


@cache
def first_files(kind: Kind) -> dict[str, bytes]:
    """The files of a table of a kind, with its first records: two commits."""
    root = root_of(kind)
    clock = TimerClock(1_700_000_000_000 - 60_000)
    context = Context(clock, 1, InlineExecutor(clock, 1), alone=True)
    ordering = [ORDERING] if kind.ordered else []
    arguments: dict[str, Any] = {"record_key": ["id"], "partition_by": ["p"], "ordering": ordering, "name": "t"}
    schema = rows({}, ordered=kind.ordered).schema
    meta = create_table(
        root, schema, table_type=kind.table_type, options=kind.options, storage_options=None, context=context,
        **arguments,
    )  # fmt: skip
    table = pudi.Table.of(meta.reopen(kind.options), kind.options)
    table.insert(rows(dict.fromkeys(FIRST_KEYS[:3], 0), ordered=kind.ordered))
    clock.advance(1)
    table.insert(rows(dict.fromkeys(FIRST_KEYS[3:], 0), ordered=kind.ordered))
    storage = open_storage(root)
    return {info.path: bytes(storage.read(info.path)) for info in storage.list() if info.path != TABLE_LOCK}


def root_of(kind: Kind) -> str:
    """Where the tables of a kind seem to be."""
    mode = ("-nonblocking" if kind.nonblocking else "") + (_ORDERED if kind.ordered else "")
    return f"memory://simulated/{kind.table_type}-{kind.index}-{kind.version}-{kind.services}{mode}"


FIRST_INSTANT = "20231114221220000"
"""The first of the two commits that are there at the beginning."""
FIRST_STATE: State = {key: (partition_of(key), 0) for key in FIRST_KEYS}

Verb = Literal[
    "upsert", "update", "append", "delete", "delete where", "insert", "overwrite", "drop partition", "read",
    "find", "maintain", "run pending", "schedule", "savepoint",
]  # fmt: skip
WRITES: tuple[Verb, ...] = (
    "upsert", "upsert", "update", "update", "update", "append", "append", "delete", "delete where", "insert",
    "overwrite", "drop partition",
)  # fmt: skip
NONBLOCKING_WRITES: tuple[Verb, ...] = (
    "upsert", "upsert", "upsert", "insert", "insert", "update", "update", "append", "delete", "delete", "delete",
    "overwrite", "drop partition",
)  # fmt: skip


ORDERED_WRITES: tuple[Verb, ...] = tuple(verb for verb in NONBLOCKING_WRITES if verb != "delete")
"""Without deletes: whether an older version that comes after one counts depends on compactions, which drop deletes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one process.

    Attributes:
        number: of all operations, from 1; the digit that it writes.
        verb: what it does.
        keys: the keys that it's about.
        after_ms: how long the process waits before it.
    """

    number: int
    verb: Verb
    keys: tuple[str, ...] = ()
    after_ms: float = 0.0

    def __str__(self) -> str:
        return f"{self.verb} {' '.join(self.keys)} (operation {self.number})".replace("  ", " ")

    @property
    def partition(self) -> str:
        """The partition of its first key."""
        return partition_of(self.keys[0])

    def concerns(self, key: str) -> bool:
        """Whether it writes or removes the record of a key, if it's there."""
        if self.verb in {"overwrite", "drop partition"}:
            return partition_of(key) == self.partition
        return key in (map(new_key, self.keys) if self.verb == "insert" else self.keys)

    @property
    def is_read(self) -> bool:
        """Whether it reads the table and returns what it saw."""
        return self.verb in {"read", "find"}

    @property
    def is_write(self) -> bool:
        """Whether it's one commit that changes records."""
        return self.verb in WRITES

    def run(self, table: pudi.Table) -> Any:
        """Do it; a read returns the numbers by key, a write its result."""
        keys = self.keys
        listed = ", ".join(f"'{key}'" for key in keys)
        nonblocking = table._options.get(_MODE) == _NONBLOCKING[_MODE]
        ordinary = {"options": _ORDINARY} if nonblocking else {}
        ordered = table.path.endswith(_ORDERED)
        match self.verb:
            case "upsert":
                return table.upsert(rows(dict.fromkeys(keys, self.number), ordered=ordered))
            case "insert":
                return table.upsert(rows({new_key(key): self.number for key in keys}, ordered=ordered))
            case "update":
                changes: dict[str, Any] = {"n": f"n * {BASE} + {self.number}"}
                changes |= {ORDERING: f"{self.number}"} if ordered else {}
                return table.update(changes, where=f"id in ({listed})")
            case "append":
                return self._append(table)
            case "delete":
                return table.delete(rows(dict.fromkeys(keys, 0)))
            case "delete where":
                return table.delete(where=f"id in ({listed})")
            case "overwrite":
                here = [key for key in keys if partition_of(key) == self.partition]
                return table.insert_overwrite(rows(dict.fromkeys(here, self.number), ordered=ordered), **ordinary)
            case "drop partition":
                return table.delete_partitions([self.partition], **ordinary)
            case "read":
                return seen(table.scan())
            case "find":
                return seen(table.scan(where=f"id in ({listed})"))
            case "maintain":
                return table.maintain()
            case "run pending":
                return table.run_pending()
            case "schedule":
                return [table.schedule(service) for service in self.keys]
            case "savepoint":
                return table.savepoint()

    def _append(self, table: pudi.Table) -> Any:
        """Read, append, and write that back if nothing has changed."""
        scan = table.scan(where="id in ({})".format(", ".join(f"'{key}'" for key in self.keys)))
        found = seen(scan)
        if not found:
            return None
        return table.upsert(
            rows(
                {key: number * BASE + self.number for key, (_, number) in found.items()},
                ordered=table.path.endswith(_ORDERED),
            ),
            if_unchanged_since=scan.instant,
        )

    @property
    def may_miss(self) -> bool:
        """Whether it only changes records that it finds, and isn't refused if another write brings one meanwhile."""
        return self.verb in {"append", "delete"}

    def apply(self, state: State, missed: Collection[str] = (), *, ordered: bool = False) -> State:
        """Return the state after it.

        Args:
            state: the state before it.
            missed: keys that it didn't find, since they came while it was at work.
            ordered: whether a record that an operation of a greater number wrote stays.
        """
        after = dict(state)
        keys = [key for key in self.keys if key not in missed]
        if ordered and self.verb not in {"overwrite", "drop partition"}:
            named = new_key if self.verb == "insert" else str
            keys = [key for key in keys if state.get(named(key), ("", 0))[1] % BASE <= self.number]
        match self.verb:
            case "upsert":
                after |= {key: (partition_of(key), self.number) for key in keys}
            case "insert":
                after |= {new_key(key): (partition_of(key), self.number) for key in keys}
            case "update" | "append":
                for key in set(keys) & set(after):
                    after[key] = after[key][0], after[key][1] * BASE + self.number
            case "delete" | "delete where":
                after = {key: row for key, row in after.items() if key not in keys}
            case "overwrite" | "drop partition":
                after = {key: row for key, row in after.items() if row[0] != self.partition}
                if self.verb == "overwrite":
                    here = [key for key in keys if partition_of(key) == self.partition]
                    after |= dict.fromkeys(here, (self.partition, self.number))
        return after

    def sees(self, state: State) -> State:
        """What a read of a state returns."""
        return state if self.verb == "read" else {key: row for key, row in state.items() if key in self.keys}


def seen(scan: Any) -> State:
    """The rows of a scan by key; a key that comes twice is named so."""
    found: dict[str, Row] = {}
    for row in scan.to_arrow().select(["id", "p", "n"]).to_pylist():
        key = row["id"]
        found[f"{key} twice" if key in found else key] = row["p"], row["n"]
    return found
