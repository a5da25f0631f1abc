"""Statistics of columns that pudi makes and keeps: they equal what the files hold, and queries lose no row."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client.snapshot import TableSnapshot
from pudi.context import FileInfo
from pudi.filegroup import BaseFile, LogFile
from pudi.metadata import StatsSpec, column_stats_records, stats_of_files
from pudi.task.file_stats import stats_of_file
from support.metadata import metadata_partitions, there

OPTIONS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
OFF = {"hoodie.enable.data.skipping": "false"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("t", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
KINDS = [(kind, version) for kind in ("cow", "mor") for version in (6, 8, 9)]
TEXTS = ["", "a", "Zz", "äöü", "\U0001f600", "\uffee", "\ufeffx", "long" * 2000]
NUMBERS = [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_they_are_kept_and_lose_no_row(tmp_path: Path, kind: str, version: int) -> None:
    chance = random.Random(f"{kind}{version}")
    table = _new(tmp_path / "t", kind, version)
    for number in range(5):
        table.upsert(_rows(chance, 40, number))
        table.delete(pa.table({"id": pa.array([chance.randrange(100)]), "part": ["p1"]}))
    _assert_kept(tmp_path / "t")
    for where in _predicates(chance, 40):
        found = pudi.Table(table.path).scan(where=where)
        whole = pudi.Table(table.path, options=OFF).scan(where=where)
        assert _sorted(found) == _sorted(whole), where
    assert metadata_partitions(tmp_path / "t") == [
        "column_stats", "files", *(["partition_stats"] if version >= 8 else [])
    ]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_they_are_made_of_a_table_that_has_none(tmp_path: Path, kind: str, version: int) -> None:
    chance = random.Random(f"{kind}{version}")
    plain = pudi.create(
        str(tmp_path / "t"), SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        options={"hoodie.write.table.version": str(version)},
    )  # fmt: skip
    for number in range(3):
        plain.upsert(_rows(chance, 30, number))
    table = pudi.Table(plain.path, options=OPTIONS)
    table.upsert(_rows(chance, 30, 3))
    _assert_kept(tmp_path / "t")
    table.upsert(_rows(chance, 30, 4))
    _assert_kept(tmp_path / "t")
    assert sum(c for _, c, _ in pudi.Table(plain.path).scan(where="n > 1000").plan.skipped) > 0


def test_the_columns_are_those_that_are_named(tmp_path: Path) -> None:
    options = {**OPTIONS, "hoodie.metadata.index.column.stats.column.list": "n, t"}
    table = _new(tmp_path / "t", "cow", 9, options)
    table.upsert(_rows(random.Random(1), 10, 0))
    assert _spec(tmp_path / "t").columns[3:] == ("n", "t")
    pudi.Table(table.path).upsert(_rows(random.Random(2), 10, 1))  # the definition says it from now on
    _assert_kept(tmp_path / "t")


@pytest.mark.parametrize("named", [None, "n,t", "id,part"])
def test_new_columns_are_taken_in_unless_columns_were_named(tmp_path: Path, named: str | None) -> None:
    options = OPTIONS if named is None else {**OPTIONS, "hoodie.metadata.index.column.stats.column.list": named}
    table = _new(tmp_path / "t", "mor" if named is None else "cow", 9, options)
    table.upsert(_rows(random.Random(1), 10, 0))
    before = _spec(tmp_path / "t").columns
    rows = _rows(random.Random(2), 10, 1)
    wider = rows.append_column("tip", pa.array(range(rows.num_rows), pa.int64()))
    pudi.Table(table.path).upsert(wider)
    assert _spec(tmp_path / "t").columns == (before if named else (*before, "tip"))
    _assert_kept(tmp_path / "t")
    for where in ("tip > 3", "tip IS NULL", "n > 0"):
        whole = pudi.Table(table.path, options=OFF).scan(where=where)
        assert _sorted(pudi.Table(table.path).scan(where=where)) == _sorted(whole), where


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_other_actions_keep_them(tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)
    table = _new(tmp_path / "t", kind, 9)
    table.bulk_insert(_rows(chance, 50, 0))
    table.upsert(_rows(chance, 50, 1))
    table.update({"n": "n + 1"}, where="n < 0")
    if kind == "mor":
        table.compact()
    table.insert_overwrite(_rows(chance, 5, 2).filter(pa.compute.equal(_rows(chance, 5, 2)["part"], "p1")))
    _assert_kept(tmp_path / "t")
    for where in _predicates(chance, 20):
        whole = pudi.Table(table.path, options=OFF).scan(where=where)
        assert _sorted(pudi.Table(table.path).scan(where=where)) == _sorted(whole), where


def _new(path: Path, kind: str, version: int, options: dict[str, str] | None = None) -> pudi.Table:
    pudi.create(
        str(path), SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        options={"hoodie.write.table.version": str(version)},
    )  # fmt: skip
    return pudi.Table(str(path), options=options or OPTIONS)


def _rows(chance: random.Random, count: int, number: int) -> pa.Table:
    ids = chance.sample(range(100), min(count, 100))

    def some(values: list[Any]) -> list[Any]:
        return [chance.choice([None, *values]) for _ in ids]

    return pa.table(
        {
            "id": ids,
            "part": [f"p{i % 3}" for i in ids],
            "n": [None if i % 7 == 0 else chance.randrange(-50, 50) + 10 * number for i in ids],
            "x": some(NUMBERS),
            "t": some(TEXTS),
            "ts": [10**15 + number * 10**9 + i for i in ids],
        },
        SCHEMA,
    )


def _predicates(chance: random.Random, count: int) -> Iterator[str]:
    def one() -> str:
        sign = chance.choice(["=", "<", ">", "<=", ">=", "<>"])
        kind = chance.randrange(5)
        if kind == 0:
            return f"n {sign} {chance.randrange(-60, 100)}"
        if kind == 1:
            return f"x {sign} {chance.choice(['0.0', '-3.5', '7.5', '1.5'])}"
        if kind == 2:
            return f"t {sign} '{chance.choice(TEXTS)[:20]}'"
        if kind == 3:
            return f"{chance.choice(['n', 'x', 't', 'ts'])} IS {chance.choice(['', 'NOT '])}NULL"
        return f"id {sign} {chance.randrange(100)}"

    for _ in range(count):
        yield chance.choice([one(), f"({one()}) AND ({one()})", f"({one()}) OR ({one()})", f"NOT ({one()})"])


def _sorted(scan: Any) -> list[str]:
    return sorted(map(str, scan.to_arrow().to_pylist()))


def _spec(path: Path) -> StatsSpec:
    definitions = json.loads((path / ".hoodie" / ".index_defs" / "index.json").read_text("utf-8"))
    definition = definitions["indexDefinitions"]["column_stats"]
    return StatsSpec(tuple(definition["sourceFields"]), int(definition["version"][1:]))


def _assert_kept(path: Path) -> None:
    """What is stored of the files that are there equals what they hold; none of them is missing."""
    meta = pudi.Table(str(path))._meta
    spec = _spec(path)
    found = []
    for partition, files in there(path).items():
        for name, size in files.items():
            info = FileInfo(f"{partition}/{name}" if partition else name, size, 0)
            file = LogFile.of(partition, info) or BaseFile.of(partition, info)
            assert file is not None
            stats = stats_of_file(meta.storage, file, spec)
            assert stats is not None
            found.append((partition, name, stats))
    made = {
        r["key"]: str(r["ColumnStatsMetadata"])
        for r in column_stats_records(stats_of_files(found), spec.version).to_pylist()
    }
    stored = TableSnapshot.load(meta).metadata_table().read("column_stats")
    known = {r["key"]: str(r["ColumnStatsMetadata"]) for r in stored.to_pylist()}
    assert {key: known.get(key) for key in made} == made
