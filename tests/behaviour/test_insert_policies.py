"""What inserts do with keys that are there, and in which order a bulk insert writes, on both engines."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pudi
from support.disk import base_files, tree
from support.engines import Engine, per_engine
from support.layouts import FEW, Layout
from support.pudi_table import PudiTable
from support.rows import assert_same
from support.trips import SCHEMA, table, trip

POLICY = "hoodie.datasource.insert.dup.policy"


@pytest.fixture
def trips(engine: Engine, tmp_path: Path) -> PudiTable:
    one_task = {"hoodie.bulkinsert.shuffle.parallelism": "1"}  # so that each partition has one file group
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, Layout(), one_task)
    made.write("bulk_insert", table(trip(number, 10) for number in range(6)))
    return made


def riders(trips: PudiTable) -> list[tuple[str, str]]:
    return sorted((row["uuid"], row["rider"]) for row in trips.snapshot())


NEW = [trip(1, 20, "again"), trip(10, 20, "older"), trip(10, 30, "newer"), trip(11, 20, "one")]
OLD = [(f"k{number:04}", "ann") for number in range(6)]


@pytest.mark.parametrize("verb", ["insert", "upsert"])
def test_drop_duplicates(trips: PudiTable, verb: str) -> None:
    trips.options = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    trips.write(verb, table(NEW))
    assert riders(trips) == [*OLD, ("k0010", "newer"), ("k0011", "one")]


def test_policy_drop(trips: PudiTable) -> None:
    trips.options = {POLICY: "drop"}
    trips.write("insert", table(NEW))
    assert riders(trips) == [*OLD, ("k0010", "newer"), ("k0011", "one")]
    before = tree(trips.path)
    assert trips.table.insert(trips.engine.frame(table(NEW))) is None
    assert tree(trips.path) == before


def test_policy_fail(trips: PudiTable) -> None:
    trips.options = {POLICY: "fail"}
    before = tree(trips.path)
    with pytest.raises(pudi.InvalidArgumentError, match="key"):
        trips.table.insert(trips.engine.frame(table(NEW)))
    assert tree(trips.path) == before
    trips.write("insert", table([trip(10, 20)]))
    trips.write("upsert", table([trip(1, 20, "again")]))
    assert ("k0001", "again") in riders(trips)


def test_policies_are_not_for_bulk_inserts(trips: PudiTable) -> None:
    with pytest.raises(pudi.NotSupportedError, match="insert"):
        trips.table.bulk_insert(trips.engine.frame(table(NEW)), options={POLICY: "drop"})


def test_inserts_that_merge(trips: PudiTable) -> None:
    """Only in the file group that an insert goes to are its keys looked for: here each partition has one."""
    assert len(base_files(trips.path)) == 3
    trips.options = {"hoodie.merge.allow.duplicate.on.inserts": "false"}
    trips.write("insert", table(NEW))
    assert riders(trips) == sorted([*OLD[:1], ("k0001", "again"), *OLD[2:], ("k0010", "newer"), ("k0011", "one")])


def test_an_upsert_that_does_not_combine_first(trips: PudiTable) -> None:
    trips.options = {"hoodie.combine.before.upsert": "false"}
    trips.write("upsert", table([trip(1, 30, "newer"), trip(1, 20, "last"), trip(7, 1, "a")]))
    assert ("k0001", "last") in riders(trips)
    assert len(trips.snapshot()) == 7


MODES = ["NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("combine", ["false", "true"])
@pytest.mark.parametrize(("engine", "mode"), per_engine(MODES, MODES), indirect=["engine"])
def test_sort_modes(engine: Engine, tmp_path: Path, mode: str, combine: str) -> None:
    options = {
        "hoodie.bulkinsert.sort.mode": mode,
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.combine.before.insert": combine,
    }
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, FEW[1], options)
    rows: list[dict[str, Any]] = [trip(number * 7 % 60, number) for number in range(70)]
    trips.write("bulk_insert", table(rows))
    last = {row["uuid"]: row for row in rows}
    wanted = list(last.values()) if combine == "true" else rows
    assert_same([{name: row[name] for name in SCHEMA.names} for row in trips.snapshot()], wanted)
    files = base_files(trips.path)
    if "SORT" in mode and "PATH" not in mode:
        for file in files:
            keys = pq.read_table(file)["_hoodie_record_key"].to_pylist()
            assert keys == sorted(keys)
    if mode.startswith("PARTITION_PATH"):
        assert len({file.parent for file in files}) == len(files) == 3
    if mode == "GLOBAL_SORT":
        by_folder: dict[Path, list[tuple[str, str]]] = {}
        for file in files:
            keys = pq.read_table(file)["_hoodie_record_key"].to_pylist()
            by_folder.setdefault(file.parent, []).append((keys[0], keys[-1]))
        for spans in by_folder.values():
            spans.sort()
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
