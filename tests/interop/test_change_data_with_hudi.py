"""Change data beside real Hudi: its CDC query of pudi's tables, and pudi's of Hudi's, in every mode and type."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.changes import LOGGED, MODE, State, changes_between, state_of, typed
from support.hudi import HudiTable, table_options
from support.rows import Row, assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NO_METADATA = {"hoodie.metadata.enable": "false"}
MODES = ("op_key_only", "data_before", "data_before_after")
KINDS = [*product(("cow", "mor"), MODES, (9, 8)), *product(("cow",), MODES, (6,))]
"""Hudi 1.2 can't read the changes of merge-on-read tables of version 6."""
WRITES: list[tuple[str, pa.Table]] = [
    ("bulk_insert", table(trip(number, 10) for number in range(9))),
    ("upsert", table([trip(0, 20, "two"), trip(3, 5, "late"), trip(12, 20)])),
    ("delete", table([trip(1, 0), trip(4, 0)])),
    ("upsert", table([trip(0, 30, "three"), trip(1, 30, "again"), trip(15, 30)])),
    ("insert_overwrite", table([trip(2, 40, "over"), trip(17, 40)])),
    ("upsert", table([trip(2, 50, "five")])),
]


def _hudi_query(spark: Any, path: Path, since: str = "000") -> list[Row]:
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": since,
    }
    return from_spark(HudiTable(spark, path).frame(**options))


def _of_pudi(path: Path, since: str | None = None) -> list[Row]:
    return from_arrow(pudi.Table(path).changes(since, format="cdc").to_arrow())


def _services(on: pudi.Table, number: int) -> None:
    if number == 2 and on.config.table_type == "MERGE_ON_READ":
        assert on.compact() is not None
    if number == 3:
        on.cluster(options=NO_METADATA)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "mode", "version"), KINDS)
def test_hudi_reads_what_pudi_logs(spark: Any, tmp_path: Path, kind: str, mode: str, version: int) -> None:
    options = {**LOGGED, MODE: mode, "hoodie.write.table.version": str(version)}
    made = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", "table_type": kind}
    on = pudi.create(tmp_path / "trips", SCHEMA, options=options, **made)  # type: ignore[arg-type]
    few = {**NO_METADATA, "hoodie.parquet.small.file.limit": "0"}  # updates go to log files, inserts to new ones
    expected, state = [], State()
    for number, (verb, rows) in enumerate(WRITES):
        done = getattr(on, verb)(rows, options=few)
        after = state_of(on)
        expected += changes_between(state, after, done.instant, verb)
        state = after
        _services(on, number)
    mine = _of_pudi(tmp_path / "trips")
    assert_same(typed(on.changes(format="cdc")), expected, about="model")
    assert_same(_hudi_query(spark, tmp_path / "trips"), mine, about="Hudi's query")
    since = [on.timeline.order(i) for i in on.timeline.commits][1]
    assert_same(_hudi_query(spark, tmp_path / "trips", since), _of_pudi(tmp_path / "trips", since), about=since)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "mode", "version"), KINDS)
def test_pudi_reads_what_hudi_logs(spark: Any, tmp_path: Path, kind: str, mode: str, version: int) -> None:
    hudi = HudiTable(spark, tmp_path / "trips", _job(kind, mode, version))
    expected, state = [], State()
    for verb, rows in WRITES:
        instant, _ = hudi.write(verb, rows)
        after = state_of(pudi.Table(hudi.path))
        expected += changes_between(state, after, instant, verb)
        state = after
    assert_same(typed(pudi.Table(hudi.path).changes(format="cdc")), expected, about="model")
    assert_same(_of_pudi(hudi.path), _hudi_query(spark, hudi.path), about="Hudi's query")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.slow), "mor"])
def test_in_turns(spark: Any, tmp_path: Path, kind: str) -> None:
    hudi = HudiTable(spark, tmp_path / "trips", _job(kind, "data_before_after", 9))
    expected, state = [], State()
    for number, (verb, rows) in enumerate(WRITES):
        if number % 2:
            on = pudi.Table(hudi.path)
            instant = getattr(on, verb)(rows, options=NO_METADATA).instant
            _services(on, 2 if number == 3 else 0)
        else:
            instant, _ = hudi.write(verb, rows)
        after = state_of(pudi.Table(hudi.path))
        expected += changes_between(state, after, instant, verb)
        state = after
    assert_same(typed(pudi.Table(hudi.path).changes(format="cdc")), expected, about="model")
    assert_same(_of_pudi(hudi.path), _hudi_query(spark, hudi.path), about="Hudi's query")
    pudi.Table(hudi.path).clean(options={"hoodie.clean.commits.retained": "1", **NO_METADATA})
    since = list(_completions(pudi.Table(hudi.path)))[-2]
    assert_same(_hudi_query(spark, hudi.path, since), _of_pudi(hudi.path, since), about="after a clean")


def _completions(on: pudi.Table) -> Iterable[str]:
    return (i.completion or "" for i in on.timeline.commits)


def _job(kind: str, mode: str, version: int) -> dict[str, str]:
    kinds = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
    return {
        **table_options("trips", "uuid", "city", "ts", version=version),
        "hoodie.datasource.write.table.type": kinds[kind],
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.compact.inline": "false",
        **LOGGED,
        MODE: mode,
    }
