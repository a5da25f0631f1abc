"""Random tables for Hudi and pudi to write in turns: a seed draws options, types and services."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import pudi
from support.engines import LocalEngine, SparkEngine
from support.hudi import SMALL, HudiTable, commits
from support.rows import Row, assert_same, from_spark
from support.spark import to_frame

PLACE = pa.struct([("name", pa.string()), ("spot", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))]))])

# No dates: Hudi 1.2 fails to compare one of a log file with one of a base file (ClassCastException).
_ORDERING = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "decimal": pa.decimal128(12, 3),
}
# No "=": Hudi's readers take what stands behind it for the value. No ":": Hadoop's local file system refuses it.
_PARTITIONS = ("nyc", "são paulo", "a+b", "a b", "2026-01-01", "50")

_PAYLOADS = {
    "OverwriteWithLatestAvroPayload": False,
    "DefaultHoodieRecordPayload": True,
    "EventTimeAvroPayload": True,
    "PartialUpdateAvroPayload": True,
    "OverwriteNonDefaultsWithLatestAvroPayload": False,
}
"""Payload classes, and whether they compare ordering values."""


@dataclass(frozen=True)
class RandomTable:
    """What a seed says of a table: its options and the schema of its records."""

    seed: int
    version: int
    is_mor: bool
    options: dict[str, str]
    ordering: tuple[str, ...]
    ordering_type: str
    partitions: tuple[str, ...]
    payload: str
    with_cdc: bool
    inline: dict[str, str]

    def schema(self, evolved: bool = False) -> pa.Schema:
        fields: list[tuple[str, pa.DataType]] = [
            ("id", pa.int64()),
            ("leg", pa.string()),
            ("part", pa.string()),
            ("sub", pa.int32()),
            ("ts", _ORDERING[self.ordering_type]),
            ("ts2", pa.int64()),
            ("flag", pa.bool_()),
            ("small", pa.int64() if evolved else pa.int32()),
            ("single", pa.float64() if evolved else pa.float32()),
            ("double", pa.float64()),
            ("text", pa.string()),
            ("bytes", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("price", pa.decimal128(10, 2)),
            ("big", pa.decimal128(38, 10)),
            ("place", PLACE),
            ("numbers", pa.list_(pa.int32())),
            ("places", pa.list_(PLACE)),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("_hoodie_is_deleted", pa.bool_()),
        ]
        if evolved:
            fields.append(("extra", pa.string()))
        return pa.schema(fields)

    def writer(self) -> dict[str, str]:
        """Options of pudi's writer: the index and the services that Hudi's have."""
        index = {key: value for key, value in self.options.items() if "index" in key and "metadata" not in key}
        return {**index, **self.inline, "hoodie.clean.failed.writes.policy": "EAGER"}

    def about(self) -> str:
        """The drawn options, for a failure's message."""
        return f"seed {self.seed}: " + ", ".join(f"{key}={value}" for key, value in sorted(self.options.items()))


def draw(seed: int) -> RandomTable:
    """Draw a table's options."""
    chance = random.Random(seed)
    pick = chance.choice
    version, is_mor = pick([6, 8, 9, 9]), chance.random() < 0.6
    keys = pick([["id"], ["id"], ["id", "leg"]])
    partitions = tuple(pick([[], ["part"], ["part"], ["part"], ["part", "sub"]]))
    ordering_type = pick(list(_ORDERING))
    ordering = pick([(), ("ts",), ("ts",), ("ts",), ("ts", "ts2") if version == 9 else ("ts",)])
    payload = pick([*_PAYLOADS, "", "", "", ""]) if version == 6 or chance.random() < 0.5 else ""
    if payload and _PAYLOADS[payload] and not ordering:
        ordering = ("ts",)
    generator = "NonpartitionedKeyGenerator"
    if partitions:
        generator = "SimpleKeyGenerator" if len(keys) == len(partitions) == 1 else "ComplexKeyGenerator"

    def flag(share: float) -> str:
        return str(chance.random() < share).lower()

    options = {
        "hoodie.table.name": f"random_{seed}",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if is_mor else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": ",".join(keys),
        "hoodie.datasource.write.partitionpath.field": ",".join(partitions),
        "hoodie.datasource.write.hive_style_partitioning": flag(0.4),
        "hoodie.datasource.write.partitionpath.urlencode": flag(0.3),
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.metadata.enable": flag(0.6),
        "hoodie.parquet.compression.codec": pick(["gzip", "snappy", "zstd", "uncompressed"]),
        "hoodie.write.record.positions": flag(0.7),
        "hoodie.parquet.small.file.limit": pick(["0", "104857600"]),
        "hoodie.table.timeline.timezone": pick(["LOCAL", "UTC"]),
    }
    mode = "EVENT_TIME_ORDERING" if ordering else "COMMIT_TIME_ORDERING"
    if not payload and chance.random() < 0.25:
        mode, ordering = "COMMIT_TIME_ORDERING", ()
    if ordering:
        options["hoodie.table.ordering.fields"] = ",".join(ordering)
        options["hoodie.datasource.write.precombine.field"] = ",".join(ordering)
    if payload:
        options["hoodie.datasource.write.payload.class"] = f"org.apache.hudi.common.model.{payload}"
    else:
        options["hoodie.record.merge.mode"] = mode
    if is_mor:
        options["hoodie.logfile.data.block.format"] = pick(["avro", "avro", "parquet"])
    if options["hoodie.metadata.enable"] == "true":
        options["hoodie.metadata.index.column.stats.enable"] = flag(0.6)
        options["hoodie.metadata.index.bloom.filter.enable"] = flag(0.2)
        options["hoodie.metadata.index.partition.stats.enable"] = options["hoodie.metadata.index.column.stats.enable"]
    _draw_index(chance, options, version, is_mor, partitions)
    with_cdc = version >= 8 and not payload and chance.random() < 0.25
    if with_cdc:
        options["hoodie.table.cdc.enabled"] = "true"
        options["hoodie.table.cdc.supplemental.logging.mode"] = pick(
            ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]
        )
    inline = _draw_services(
        chance, is_mor, clusters=options["hoodie.index.type"] != "BUCKET"
    )  # whose plan Hudi can't run
    return RandomTable(seed, version, is_mor, options, ordering, ordering_type, partitions, payload, with_cdc, inline)


def _draw_index(
    chance: random.Random, options: dict[str, str], version: int, is_mor: bool, partitions: tuple[str, ...]
) -> None:
    kinds = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "BUCKET"]
    if options["hoodie.metadata.enable"] == "true":
        kinds += ["RECORD_INDEX", "RECORD_INDEX"]
    kind = chance.choice(kinds)
    options["hoodie.index.type"] = kind
    if kind == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = chance.choice(["1", "4"])
        if is_mor and chance.random() < 0.4:
            options["hoodie.index.bucket.engine"] = "CONSISTENT_HASHING"
            options["hoodie.bucket.index.max.num.buckets"] = "8"
            options["hoodie.bucket.index.min.num.buckets"] = "1"
    if kind == "RECORD_INDEX":
        options["hoodie.metadata.record.index.enable"] = "true"
        options["hoodie.record.index.update.partition.path"] = "true"


def _draw_services(chance: random.Random, is_mor: bool, *, clusters: bool) -> dict[str, str]:
    inline = {}
    if is_mor and chance.random() < 0.5:
        inline |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    if clusters and chance.random() < 0.25:
        inline |= {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
        inline["hoodie.clustering.plan.strategy.sort.columns"] = chance.choice(["small", "text", "id,day"])
    if chance.random() < 0.3:
        inline |= {"hoodie.clean.commits.retained": "2", "hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"}
    return inline


@dataclass
class Feed:
    """Batches of records for a random table."""

    table: RandomTable
    chance: random.Random
    clock: int = 0

    def records(self, numbers: list[int], evolved: bool = False, deleted: float = 0.0) -> pa.Table:
        self.clock += 1
        rows = [self._record(number, evolved, deleted) for number in numbers]
        return pa.Table.from_pylist(rows, schema=self.table.schema(evolved))

    def _record(self, number: int, evolved: bool, deleted: float) -> Row:
        chance, clock = self.chance, self.clock
        late = clock + chance.choice([-2, -1, 0, 0, 0, 0])
        home = _PARTITIONS[number % (3 + self.table.seed % 3)]
        away = chance.choice(_PARTITIONS[:3])
        row: Row = {
            "id": number,
            "leg": f"l{number % 3}",
            "part": away if chance.random() < 0.08 else home,
            "sub": number % 2,
            "ts": self._ordering(late),
            "ts2": chance.randint(0, 3),
            "flag": chance.random() < 0.5,
            "small": chance.randint(-5, 5),
            "single": chance.randint(-8, 8) / 4,
            "double": chance.choice([0.0, -0.0, 1 / 3, float("inf"), 1e300, -2.5]),
            "text": chance.choice(["", "väl", "a\u0000b", "💡", "x" * 40]),
            "bytes": bytes([number % 128, 7]),  # Hudi merges statistics of partitions by signed bytes
            "day": dt.date(1969, 12, 25) + dt.timedelta(days=number + clock),
            "at": dt.datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=dt.timezone.utc) + dt.timedelta(hours=number),
            "local": dt.datetime(1969, 12, 31, 23, 59, 59, 999999) + dt.timedelta(hours=number),
            "price": Decimal(number * 101 - clock) / 100,
            "big": Decimal(-number) * Decimal("123456789012345678.0123456789"),
            "place": {"name": f"p{number}", "spot": {"x": number / 8, "tags": [f"t{clock}", "z"]}},
            "numbers": [clock] * (number % 4),
            "places": [{"name": None, "spot": {"x": None, "tags": []}}],
            "counts": {"a": number, "b": clock},
            "_hoodie_is_deleted": chance.random() < deleted,
        }
        kept = {"id", "leg", "part", "sub", "ts", "ts2", "_hoodie_is_deleted"}
        row |= {name: None for name in row if name not in kept and chance.random() < 0.15}
        return row | {"extra": f"e{clock}"} if evolved else row

    def _ordering(self, value: int) -> Any:
        return {
            "long": value * 10**10,
            "int": value,
            "double": value / 4,
            "string": f"{value:04}",
            "timestamp": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=value + 10),
            "decimal": Decimal(value * 125) / 1000,
        }[self.table.ordering_type]


@dataclass
class Played:
    """How it went: what both read alike, where Hudi failed, and where the two differ."""

    same: int
    failed: list[str]
    different: list[str]


def play(spark: Any, path: Path, table: RandomTable, *, on_spark: bool = False) -> Played:
    """Let Hudi write a random table and both read it; then pudi writes, Hudi writes once more, and both read again."""
    chance = random.Random(table.seed * 7 + 1)
    feed, played = Feed(table, chance), Played(0, [], [])
    engine = SparkEngine(spark) if on_spark else LocalEngine()
    hudi = HudiTable(spark, path, {**SMALL, **table.options})
    hudi_writes(hudi, table, feed, chance, played)
    if not commits(path):
        return played
    compare_all(hudi, engine, table, played, "Hudi wrote")
    _check(path, "Hudi wrote", played.failed)
    for verb, numbers in (
        ("upsert", _some(chance, 8)),
        ("delete", _some(chance, 4)),
        ("insert", list(range(200, 204))),
    ):
        data = feed.records(numbers, evolved=evolved_of(path))
        try:
            getattr(pudi.Table(str(path), options=table.writer()), verb)(engine.frame(data))
        except pudi.NotSupportedError as error:
            played.failed.append(f"pudi refuses {verb}: {error}")
            return played
        except Exception as error:  # noqa: BLE001 - any error is a finding
            played.different.append(f"pudi's {verb}: {type(error).__name__}: {error}")
            return played
    compare_snapshots(hudi, engine, played, "pudi wrote")
    _check(path, "pudi wrote", played.different)
    try:
        hudi.write(
            "upsert", feed.records(_some(chance, 8), evolved=evolved_of(path)), inline=table.inline or {"a": "b"}
        )
    except Exception as error:  # noqa: BLE001
        played.different.append(f"Hudi's upsert after pudi's: {_first_line(error)}")
        return played
    compare_snapshots(hudi, engine, played, "Hudi continued")
    _check(path, "Hudi continued", played.different)
    return played


def _check(path: Path, about: str, problems: list[str]) -> None:
    found = pudi.Table(str(path)).check()
    if not found.ok:
        problems.append(f"{about}: check: {found}")


def evolved_of(path: Path) -> bool:
    """Whether the table's schema has the later columns."""
    return "extra" in pudi.Table(str(path)).schema.names


def _some(chance: random.Random, count: int) -> list[int]:
    return chance.sample(range(45), count)


def hudi_writes(hudi: HudiTable, table: RandomTable, feed: Feed, chance: random.Random, played: Played) -> None:
    """Let Hudi write four to seven commits, services among them."""
    evolved = False
    first = chance.choice(["bulk_insert", "upsert", "insert"])
    later = ["upsert", "upsert", "upsert", "delete", "insert", "is_deleted", "insert_overwrite", "delete_partition"]
    for step in range(chance.randint(4, 7)):
        verb = first if step == 0 else chance.choice(later)
        numbers = list(range(30)) if step == 0 else _some(chance, 10)
        if verb == "insert" and step:
            numbers = [100 + step * 5 + i for i in range(5)]
        evolved = evolved or (step > 1 and chance.random() < 0.15)
        data = feed.records(numbers, evolved, 0.5 if verb == "is_deleted" else 0.0)
        name = {"is_deleted": "upsert"}.get(verb, verb)
        if verb == "delete_partition" and (not table.partitions or chance.random() < 0.5):
            continue
        try:
            hudi_write(hudi, table, name, data)
        except Exception as error:  # noqa: BLE001 - real Hudi fails on some combinations
            played.failed.append(f"Hudi's {verb} (step {step}): {_first_line(error)}")
            return


def hudi_write(hudi: HudiTable, table: RandomTable, verb: str, data: pa.Table) -> None:
    """Write one batch by Hudi."""
    options = {**SMALL, **table.options, **table.inline, "hoodie.datasource.write.operation": verb}
    if verb == "delete_partition":
        paths = pudi.Table(str(hudi.path)).partitions()[:1]
        options["hoodie.datasource.write.partitions.to.delete"] = ",".join(paths)
    frame = to_frame(hudi.spark, data).coalesce(1)
    frame.write.format("hudi").options(**options).mode("append").save(str(hudi.path))


def _first_line(error: BaseException) -> str:
    text, cause = f"{type(error).__name__}: {error}".splitlines()[0], getattr(error, "java_exception", None)
    while cause is not None:
        text, cause = str(cause), cause.getCause()
    return " | ".join(text.splitlines()[:4])[:500]


def difference(actual: list[Row], expected: list[Row], about: str) -> str:
    """Say how rows differ, by record key and field; empty if they don't."""
    try:
        assert_same(actual, expected)
    except AssertionError:
        pass
    else:
        return ""
    ours, theirs = (
        {(r["_hoodie_partition_path"], r["_hoodie_record_key"]): r for r in rows} for rows in (actual, expected)
    )
    lines = [f"{about}: {len(actual)} rows ({len(ours)} keys), Hudi {len(expected)} ({len(theirs)} keys)"]
    lines += [f"  Hudi alone has {key}: {theirs[key]}" for key in sorted(theirs.keys() - ours.keys())[:2]]
    lines += [f"  pudi alone has {key}: {ours[key]}" for key in sorted(ours.keys() - theirs.keys())[:2]]
    fields: dict[str, list[str]] = {}
    for key in sorted(ours.keys() & theirs.keys()):
        for name in sorted({*ours[key], *theirs[key]}):
            if ours[key].get(name, "absent") != theirs[key].get(name, "absent"):
                both = f"{key}: {ours[key].get(name, 'absent')!r}, Hudi {theirs[key].get(name, 'absent')!r}"
                fields.setdefault(name, []).append(both)
    lines += [f"  {name} differs in {len(values)}: {values[0]}" for name, values in fields.items()]
    return "\n".join(lines)


def compare_snapshots(hudi: HudiTable, engine: Any, played: Played, about: str) -> None:
    """Compare the newest state as both read it."""
    _compare(hudi.snapshot, lambda: engine.read(_table(hudi).scan()), played, f"{about}: snapshot")


def compare_all(hudi: HudiTable, engine: Any, table: RandomTable, played: Played, about: str) -> None:
    """Compare every kind of query."""
    compare_snapshots(hudi, engine, played, about)
    if table.is_mor:
        _compare(
            lambda: from_spark(hudi.frame(**{"hoodie.datasource.query.type": "read_optimized"})),
            lambda: engine.read(_table(hudi).scan(read_optimized=True)),
            played,
            f"{about}: read optimized",
        )
    states = commits(hudi.path)
    for requested, completed in states[:-1]:
        _compare(
            lambda r=requested: hudi.as_of(r),
            lambda r=requested: engine.read(_table(hudi).scan(as_of=r)),
            played,
            f"{about}: as of {requested}",
        )
        _compare(
            lambda c=completed: hudi.changes(c),
            lambda c=completed: engine.read(_table(hudi).changes(since=c)),
            played,
            f"{about}: changes since {completed}",
        )
    _compare(
        lambda: hudi.changes(None),
        lambda: engine.read(_table(hudi).changes(since=None)),
        played,
        f"{about}: changes since the start",
    )


def _table(hudi: HudiTable) -> pudi.Table:
    return pudi.Table(str(hudi.path))


def _compare(theirs: Callable[[], list[Row]], ours: Callable[[], list[Row]], played: Played, about: str) -> None:
    try:
        expected: list[Row] | None = theirs()
    except Exception as error:  # noqa: BLE001 - real Hudi fails on some combinations
        expected = None
        failed = _first_line(error)
    try:
        actual = ours()
    except pudi.PudiError as error:
        if expected is not None:
            played.different.append(f"{about}: pudi: {type(error).__name__}: {error}")
        else:
            played.failed.append(f"{about}: both: {failed} / {type(error).__name__}: {error}")
        return
    except Exception as error:  # noqa: BLE001 - any error is a finding
        played.different.append(f"{about}: pudi: {type(error).__name__}: {error}")
        return
    if expected is None:
        played.failed.append(f"{about}: Hudi: {failed}")
        return
    found = difference(actual, expected, about)
    if found:
        played.different.append(found)
    else:
        played.same += 1
