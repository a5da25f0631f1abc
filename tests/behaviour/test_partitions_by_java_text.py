"""Partition columns whose text has more than one form: floats, doubles, timestamps, and texts that are empty."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine, per_engine

LOGICAL = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
EMPTY = "__HIVE_DEFAULT_PARTITION__"


def _at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.timezone.utc)  # type: ignore[arg-type, misc]


NUMBERS = [1.0, 0.5, 1e10, 1.5e-5, 123456789.0, -2.25, 0.0, -0.0, math.inf, None]
TIMES = [_at(2026, 1, 2, 3, 4, 5), _at(2026, 1, 2, 3, 4, 5, 120000), _at(1969, 12, 31, 23, 59, 59, 999999), None]
CASES: dict[str, tuple[pa.DataType, list[Any], dict[str, str], list[str]]] = {
    "double": (
        pa.float64(), NUMBERS, {},
        ["1.0", "0.5", "1.0E10", "1.5E-5", "1.23456789E8", "-2.25", "0.0", "-0.0", "Infinity", EMPTY],
    ),
    "float": (
        pa.float32(), NUMBERS, {},
        ["1.0", "0.5", "1.0E10", "1.5E-5", "1.23456792E8", "-2.25", "0.0", "-0.0", "Infinity", EMPTY],
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"), TIMES, HIVE,
        ["p=2026-01-02 03%3A04%3A05", "p=2026-01-02 03%3A04%3A05", "p=1970-01-01 00%3A00%3A00", f"p={EMPTY}"],
    ),
    "timestamp with fractions": (
        pa.timestamp("us", "UTC"), TIMES, ENCODED | {LOGICAL: "true"},
        ["2026-01-02 03%3A04%3A05.0", "2026-01-02 03%3A04%3A05.12", "1970-01-01 00%3A00%3A00.0", EMPTY],
    ),
}  # fmt: skip
CONDITIONS = {
    "double": ("p = 1e10", "p < 0.5", "p = 0", "p IN (0.5, 1.5e-5)", "p > 1", "p IS NULL", "p <> 0.5"),
    "float": ("p = 1e10", "p < 0.5", "p = 0", "p > 1", "p IS NULL", "p = 123456792"),
    "timestamp": (
        "p = TIMESTAMP '2026-01-02 03:04:05.12'", "p < TIMESTAMP '1970-01-01 00:00:00'",
        "p >= TIMESTAMP '2026-01-02 03:04:05'", "p IS NULL", "p > TIMESTAMP '2026-01-04 00:00:00'",
    ),
}  # fmt: skip
CONDITIONS["timestamp with fractions"] = CONDITIONS["timestamp"]
SETS = [
    ("double", "cow", 9), ("double", "mor", 6), ("float", "mor", 8), ("float", "cow", 6), ("timestamp", "mor", 9),
    ("timestamp", "cow", 8), ("timestamp with fractions", "cow", 6), ("timestamp with fractions", "mor", 9),
]  # fmt: skip


def _ids(table: pudi.Table, where: str | None = None) -> set[int]:
    return set(table.scan(where=where, columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("engine", "case", "kind", "version"), per_engine(SETS, [SETS[2], SETS[4]], [SETS[0]]), indirect=["engine"]
)
def test_folders_and_conditions(engine: Engine, case: str, kind: str, version: int, tmp_path: Path) -> None:
    column, values, options, folders = CASES[case]
    ids = list(range(len(values)))
    rows = pa.table({"id": pa.array(ids, pa.int32()), "p": pa.array(values, column), "v": pa.array(ids, pa.int32())})
    names = {"double": "double", "float": "float"}.get(case, "timestamp")
    table = pudi.create(
        str(tmp_path / "t"), {"id": "int", "p": names, "v": "int"}, record_key=["id"], partition_by=["p"],
        table_type=kind, options={**options, "hoodie.write.table.version": str(version)},
    )  # fmt: skip
    table.insert(engine.frame(rows))
    table.upsert(engine.frame(rows))
    read = table.scan(meta_fields=True)
    assert {row["id"]: row["_hoodie_partition_path"] for row in engine.read(read)} == dict(
        zip(ids, folders, strict=True)
    )
    stored = table.scan().to_arrow().sort_by("id")
    assert stored["p"].combine_chunks().equals(rows["p"].combine_chunks())
    plain = pudi.create(str(tmp_path / "plain"), {"id": "int", "p": names}, record_key=["id"])
    plain.insert(rows.select(["id", "p"]))
    for where in CONDITIONS[case]:
        chosen = {row["id"] for row in engine.read(table.scan(where=where, columns=["id"]))}
        assert chosen == _ids(plain, where), where
    table.delete(where=CONDITIONS[case][0])
    assert _ids(table) == set(ids) - _ids(plain, CONDITIONS[case][0])
    assert not table.check().differences


def _of_times(path: Path, options: dict[str, str]) -> pudi.Table:
    return pudi.create(
        str(path), {"id": "int", "p": "timestamp"}, record_key=["id"], partition_by=["p"], options=options
    )


TIMED = pa.table({"id": pa.array([1], pa.int32()), "p": pa.array(TIMES[:1], pa.timestamp("us", "UTC"))})


def test_an_option_that_the_table_lacks_is_taken_while_folders_agree(tmp_path: Path) -> None:
    """Hudi's DataFrame writers have the option with each write, and don't store it."""
    made = _of_times(tmp_path / "t", ENCODED | {LOGICAL: "true"})
    made.insert(TIMED)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text("".join(line for line in properties.read_text().splitlines(True) if LOGICAL not in line))
    table = pudi.Table(str(tmp_path / "t"))
    with pytest.raises(pudi.NotSupportedError, match="give this option"):
        table.upsert(TIMED)
    table.upsert(TIMED, options={LOGICAL: "true"})
    assert _ids(table) == {1}
    with pytest.raises(pudi.InvalidArgumentError, match="contradicts the table"):
        _of_times(tmp_path / "other", ENCODED | {LOGICAL: "true"}).upsert(TIMED, options={LOGICAL: "false"})


def test_folders_that_another_writer_named_otherwise_are_refused(tmp_path: Path) -> None:
    def in_folder(kind: str, folder: str) -> pudi.Table:
        path = tmp_path / folder
        return pudi.create(str(path), {"id": "int", "p": kind}, record_key=["id"], partition_by=["p"])

    cases = (("timestamp", "1767323045000000", "can't read back"), ("double", "2.0E23", "Java 19"))
    for kind, folder, why in cases:
        table = in_folder(kind, folder)
        value = pa.array([TIMES[0]], pa.timestamp("us", "UTC")) if kind == "timestamp" else pa.array([1.0])
        rows = pa.table({"id": pa.array([1], pa.int32()), "p": value})
        table.insert(rows)
        own = next(each for each in table.partitions())
        (tmp_path / folder / own).rename(tmp_path / folder / folder)
        with pytest.raises(pudi.NotSupportedError, match=why):
            table.upsert(rows)


def test_colons_need_encoded_paths(tmp_path: Path) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="urlencode=true"):
        _of_times(tmp_path / "t", {LOGICAL: "true"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("when", [_at(1, 1, 1), _at(9999, 12, 31, 23, 59, 59, 999999)])
def test_the_first_and_the_last_timestamp(tmp_path: Path, when: dt.datetime) -> None:
    rows = TIMED.set_column(1, "p", pa.array([when], pa.timestamp("us", "UTC")))
    table = _of_times(tmp_path / "t", {})
    table.insert(rows)
    assert _ids(table, f"p = TIMESTAMP '{when:%H:%M:%S.%f}'".replace("'", f"'{when.date().isoformat()} ", 1)) == {1}
    before_1582 = when.year < 1582
    other = _of_times(tmp_path / "other", ENCODED | {LOGICAL: "true"})
    if before_1582:
        with pytest.raises(pudi.InvalidArgumentError, match="1582"):
            other.insert(rows)
    else:
        other.insert(rows)


@pytest.mark.parametrize(("engine", "kind"), per_engine(["cow", "mor"], ["mor"], ["cow"]), indirect=["engine"])
def test_empty_text_is_null(engine: Engine, kind: str, tmp_path: Path) -> None:
    """Hudi reads null of all records in the folder of null."""
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "p": ["", None, EMPTY, "x"]})
    table = pudi.create(
        str(tmp_path / "t"), {"id": "int", "p": "string"}, record_key=["id"], partition_by=["p"], table_type=kind
    )
    table.bulk_insert(engine.frame(rows))
    table.upsert(engine.frame(rows))
    assert {row["id"]: row["p"] for row in engine.read(table.scan())} == {1: None, 2: None, 3: None, 4: "x"}
    assert _ids(table, "p IS NULL") == {1, 2, 3}
    assert sorted(table.partitions()) == [EMPTY, "x"]


def test_empty_text_stays_in_keys_and_required_columns(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("p", pa.string(), nullable=False)])
    table = pudi.create(str(tmp_path / "t"), schema, record_key=["id"], partition_by=["p"])
    table.insert(pa.table({"id": ["a"], "p": [""]}, schema=schema))
    assert table.scan().to_arrow()["p"].to_pylist() == [""]
    keyed = pudi.create(str(tmp_path / "k"), {"id": "int", "p": "string"}, record_key=["id", "p"], partition_by=["p"])
    keyed.insert(pa.table({"id": pa.array([1], pa.int32()), "p": [""]}))
    assert keyed.scan().to_arrow()["p"].to_pylist() == [""]
