"""Hudi and pudi take turns on tables without meta fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pudi
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import from_arrow
from support.trips import steps, table, trip
from support.virtual import VIRTUAL, assert_same_data, made_virtual

pytestmark = [pytest.mark.interop, pytest.mark.spark]

KEPT = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
LAYOUTS = [
    Layout("complex", "hive", "event", 9, "mor"),
    Layout("simple", "plain", "event", 6, "mor"),
    Layout("simple", "flat", "commit", 8, "mor"),
    Layout("simple", "plain", "commit", 9),
    Layout("complex", "flat", "event", 6),
    Layout("simple", "hive", "event", 8),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("first", ["hudi", "pudi"])
def test_turns(spark: Any, tmp_path: Path, rounds: Callable[[int], int], layout: Layout, first: str) -> None:
    options = layout.hudi_options("trips") | VIRTUAL | KEPT | {"hoodie.compact.inline": "false"}
    hudi, model = HudiTable(spark, tmp_path / "trips", options), layout.model()
    if first == "pudi":
        made_virtual(LocalEngine(), hudi.path, layout, KEPT)
    mine = PudiTable(LocalEngine(), hudi.path, KEPT)
    for number, step in enumerate(steps(17, rounds(6), ("upsert", "delete", "upsert", "insert"))):
        by_hudi = (number % 2 == 0) == (first == "hudi")
        model.by_hudi = by_hudi
        if by_hudi:
            done = hudi.write(step.verb, step.data, "append" if number or first == "pudi" else "overwrite")
        else:
            done = mine.write(step.verb, step.data)
        getattr(model, step.verb)(from_arrow(step.data), *done)
        about = f"round {number}: after {step.verb} by {'Hudi' if by_hudi else 'pudi'}, as read by"
        assert_same_data(mine.snapshot(), model.snapshot(), f"{about} pudi")
        assert_same_data(hudi.snapshot(), model.snapshot(), f"{about} Hudi")
    if layout.kind == "mor":
        assert mine.table.compact() is not None
        assert_same_data(hudi.snapshot(), model.snapshot(), "after a compaction by pudi, as read by Hudi")
    mine.table.update({"rider": "'set'"}, "leg = 1")
    assert mine.table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "rider"}) is not None
    rows = [row | ({"rider": "set"} if row["leg"] == 1 else {}) for row in model.snapshot()]
    assert_same_data(hudi.snapshot(), rows, "after an update and a clustering by pudi, as read by Hudi")
    assert not mine.table.check().differences


LOST_BY_HUDI = (6, "false")
"""With names Hudi 1.2 doesn't apply its own deletes in version 6: its readers leave the name out. Later versions delete
by position."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("version", "without_name"), [(8, "true"), (6, "true"), (8, "false"), LOST_BY_HUDI, (9, "false")]
)
def test_complex_keys_of_one_column(spark: Any, tmp_path: Path, version: int, without_name: str) -> None:
    """Below version 9 deletes in log files spell keys with the column's name or without it, as an option says."""
    options = (
        Layout("simple", "plain", "event", version, "mor").hudi_options("trips")
        | VIRTUAL
        | {
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
            "hoodie.write.complex.keygen.new.encoding": without_name,
            "hoodie.write.complex.keygen.validation.enable": "false",
            "hoodie.compact.inline": "false",
        }
    )
    hudi = HudiTable(spark, tmp_path / "trips", options)
    hudi.write("upsert", table(trip(n, 10, city="nyc") for n in range(5)), "overwrite")
    hudi.write("delete", table([trip(1, 30, city="nyc")]))
    mine = PudiTable(LocalEngine(), hudi.path)
    expected = {"k0000", "k0002", "k0003", "k0004"}
    assert {row["uuid"] for row in mine.snapshot()} == expected
    seen = {row["uuid"] for row in hudi.snapshot()}
    assert seen == expected | ({"k0001"} if (version, without_name) == LOST_BY_HUDI else set())
    mine.write("delete", table([trip(2, 40, city="nyc")]))
    mine.write("upsert", table([trip(3, 40, "bob", city="nyc")]))
    riders = {row["uuid"]: row["rider"] for row in hudi.snapshot() if row["uuid"] != "k0001"}
    assert riders == {"k0000": "ann", "k0003": "bob", "k0004": "ann"}
    assert {row["uuid"]: row["rider"] for row in mine.snapshot()} == riders


@pytest.mark.slow
def test_hudi_refuses_the_same(spark: Any, tmp_path: Path) -> None:
    layout = Layout()
    hudi = HudiTable(spark, tmp_path / "trips", layout.hudi_options("trips") | VIRTUAL)
    hudi.write("upsert", table([trip(0, 1)]), "overwrite")
    with pytest.raises(Exception, match="Incremental queries are not supported when meta fields are disabled"):
        hudi.changes()
    by_time = "org.apache.hudi.keygen.CustomKeyGenerator"
    other = dict(hudi.options) | {
        "hoodie.datasource.write.keygenerator.class": by_time,
        "hoodie.datasource.write.partitionpath.field": "city:SIMPLE",
    }
    refused = HudiTable(spark, tmp_path / "custom", other)
    with pytest.raises(Exception, match="Only simple, non-partitioned or complex key generator"):
        refused.write("upsert", table([trip(0, 1)]), "overwrite")
    with pytest.raises(pudi.NotSupportedError, match="Apache Hudi answers no incremental queries"):
        pudi.Table(hudi.path).changes()
    indexed = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
    hudi.options = dict(hudi.options) | indexed
    hudi.write("upsert", table(trip(n, 2) for n in range(4)))
    assert {row["uuid"] for row in PudiTable(LocalEngine(), hudi.path).snapshot()} == {f"k{n:04}" for n in range(4)}
    asked = pudi.Table(hudi.path).scan(where="uuid = 'k0003'").to_arrow()
    assert asked["ts"].to_pylist() == [2]  # Hudi's index knows no key that came after it was built
    with pytest.raises(pudi.NotSupportedError, match="=record_index to take it away"):
        pudi.Table(hudi.path).upsert(table([trip(1, 3)]))
