"""What processes do in a simulation: kinds of tables, operations, and the plan of a whole run by its seed.

A record is a key, its partition, and a number that tells its history: the numbers of the operations that wrote it, as
digits to base 32. A write of the whole record begins that anew; an update appends to it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pyarrow as pa

import pudi
from pudi.action.create import create_table
from pudi.context import Context
from pudi.format import TABLE_LOCK
from pudi.storage import open_storage
from pudi.testing import InlineExecutor, TimerClock
from support.simulated.script import WEATHERS, Script, Weather

BASE = 32
LAST = BASE - 1
"""Number of the operation that follows all others."""
FIRST_KEYS = tuple(f"k{number}" for number in range(6))
PARTITIONS = ("a", "b")
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])

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


def rows(found: Mapping[str, int]) -> pa.Table:
    """Numbers by key as records."""
    keys = list(found)
    return pa.table({"id": keys, "p": [partition_of(k) for k in keys], "n": list(found.values())}, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table, and where its services run."""

    table_type: Literal["cow", "mor"]
    index: Literal["simple", "bucket", "record"]
    version: Literal["6", "8", "9"]
    services: Literal["inline", "apart"]
    nonblocking: bool = False

    def __str__(self) -> str:
        said = f"{self.table_type}, version {self.version}, {self.index} index, services {self.services}"
        return f"{said}, non-blocking" if self.nonblocking else said

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
    Kind("mor", "bucket", version, services, nonblocking=True)
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


@cache
def first_files(kind: Kind) -> dict[str, bytes]:
    """The files of a table of a kind, with its first records: two commits."""
    root = root_of(kind)
    clock = TimerClock(1_700_000_000_000 - 60_000)
    context = Context(clock, 1, InlineExecutor(clock, 1), alone=True)
    arguments: dict[str, Any] = {"record_key": ["id"], "partition_by": ["p"], "ordering": [], "name": "t"}
    meta = create_table(
        root, SCHEMA, table_type=kind.table_type, options=kind.options, storage_options=None, context=context,
        **arguments,
    )  # fmt: skip
    table = pudi.Table.of(meta.reopen(kind.options), kind.options)
    table.insert(rows(dict.fromkeys(FIRST_KEYS[:3], 0)))
    clock.advance(1)
    table.insert(rows(dict.fromkeys(FIRST_KEYS[3:], 0)))
    storage = open_storage(root)
    return {info.path: bytes(storage.read(info.path)) for info in storage.list() if info.path != TABLE_LOCK}


def root_of(kind: Kind) -> str:
    """Where the tables of a kind seem to be."""
    mode = "-nonblocking" if kind.nonblocking else ""
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
        match self.verb:
            case "upsert":
                return table.upsert(rows(dict.fromkeys(keys, self.number)))
            case "insert":
                return table.upsert(rows({new_key(key): self.number for key in keys}))
            case "update":
                return table.update({"n": f"n * {BASE} + {self.number}"}, where=f"id in ({listed})")
            case "append":
                return self._append(table)
            case "delete":
                return table.delete(rows(dict.fromkeys(keys, 0)))
            case "delete where":
                return table.delete(where=f"id in ({listed})")
            case "overwrite":
                here = [key for key in keys if partition_of(key) == self.partition]
                return table.insert_overwrite(rows(dict.fromkeys(here, self.number)), **ordinary)
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
            rows({key: number * BASE + self.number for key, (_, number) in found.items()}),
            if_unchanged_since=scan.instant,
        )

    @property
    def may_miss(self) -> bool:
        """Whether it only changes records that it finds, and isn't refused if another write brings one meanwhile."""
        return self.verb in {"append", "delete"}

    def apply(self, state: State, missed: Collection[str] = ()) -> State:
        """Return the state after it.

        Args:
            state: the state before it.
            missed: keys that it didn't find, since they came while it was at work.
        """
        after = dict(state)
        keys = [key for key in self.keys if key not in missed]
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


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """What one process does, and its clock."""

    name: str
    operations: tuple[Operation, ...]
    offset_ms: float = 0.0
    drift: float = 0.0
    jumps: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: kind of table, processes, and the weather."""

    seed: int
    kind: Kind
    weather: Weather
    processes: tuple[ProcessPlan, ...]

    @classmethod
    def of(cls, seed: int, kind: Kind | None = None) -> Plan:
        """Return the run that a seed stands for."""
        chance = random.Random(seed)
        kinds = KINDS if seed >= 0 else NONBLOCKING_KINDS
        kind = kind or kinds[seed % len(kinds)]
        weather = WEATHERS[(seed // len(kinds)) % len(WEATHERS)] if chance.random() < 0.8 else chance.choice(WEATHERS)
        numbers = iter(range(1, LAST))
        appends = chance.random() < 0.25
        processes = [
            _writer(f"writer {number}", chance, numbers, kind, appends=appends, count=chance.randint(2, 4))
            for number in range(1, chance.choice((2, 2, 3, 3, 4, 5)) + 1)
        ]
        processes.append(_reader("reader", chance, numbers))
        if kind.services == "apart":
            processes += [
                _keeper(f"keeper {number}", chance, numbers, kind) for number in range(1, chance.choice((2, 3)))
            ]
        return cls(seed, kind, weather, tuple(p for p in processes if p.operations))

    def script(self) -> Script:
        """Return the fates of its calls."""
        return Script(self.seed, self.weather)


def _clock(chance: random.Random) -> dict[str, Any]:
    """A clock that is at most 250 ms off, since locks that expire allow for 500 ms between two machines."""
    offset = chance.uniform(-150, 150)
    jumps = ((chance.uniform(0, 3_000), chance.uniform(-100, 100)),) if chance.random() < 0.5 else ()
    return {"offset_ms": offset, "drift": chance.uniform(-1e-6, 1e-6), "jumps": jumps}


def _pause(chance: random.Random) -> float:
    return chance.uniform(0, 400) if chance.random() < 0.9 else chance.uniform(0, 30_000)


def _writer(name: str, chance: random.Random, numbers: Any, kind: Kind, *, appends: bool, count: int) -> ProcessPlan:
    if kind.nonblocking:
        return _stream(name, chance, numbers, count=count)
    done = []
    for number, _ in zip(numbers, range(count), strict=False):
        verb: Verb = chance.choice(("update", "append")) if appends else chance.choice(WRITES)
        keys = tuple(chance.sample(FIRST_KEYS, chance.choice((1, 1, 2, 3))))
        done.append(Operation(number, verb, keys, _pause(chance)))
    return ProcessPlan(name, tuple(done), **_clock(chance))


def _stream(name: str, chance: random.Random, numbers: Any, *, count: int) -> ProcessPlan:
    """A writer in a hurry, of records that may be new, so that buckets are begun and written at once."""
    done, known = [], (*FIRST_KEYS, *map(new_key, FIRST_KEYS))
    for number, _ in zip(numbers, range(count), strict=False):
        keys = tuple(chance.sample(known, chance.choice((1, 2, 3, 4))))
        done.append(Operation(number, chance.choice(NONBLOCKING_WRITES), keys, chance.uniform(0, 150)))
    return ProcessPlan(name, tuple(done), **_clock(chance))


def _reader(name: str, chance: random.Random, numbers: Any) -> ProcessPlan:
    done = []
    for number, _ in zip(numbers, range(chance.randint(2, 5)), strict=False):
        keys = tuple(chance.sample(FIRST_KEYS, 3))
        done.append(Operation(number, chance.choice(("read", "read", "find")), keys, chance.uniform(0, 1_500)))
    return ProcessPlan(name, tuple(done), **_clock(chance))


def _keeper(name: str, chance: random.Random, numbers: Any, kind: Kind) -> ProcessPlan:
    services = ["clean"]
    services += ["clustering"] if kind.index != "bucket" else []
    services += ["compaction"] if kind.table_type == "mor" else []
    done = []
    for number, _ in zip(numbers, range(chance.randint(2, 4)), strict=False):
        verb: Verb = chance.choice(("maintain", "maintain", "run pending", "schedule", "schedule", "savepoint"))
        keys = tuple(chance.sample(services, 1)) if verb == "schedule" else ()
        done.append(Operation(number, verb, keys, chance.uniform(0, 1_200)))
    return ProcessPlan(name, tuple(done), **_clock(chance))
