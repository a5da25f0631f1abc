"""Tables with a secondary index: after every verb it has just the pairs of value and key that the rows have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions, records
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.trips import SCHEMA, steps

METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.record.index.max.filegroup.count": "3",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}
BY_RIDER = {**METADATA, "hoodie.metadata.index.secondary.column": "rider"}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 8) for kind in ("mor", "cow")]


def pairs(path: Path) -> list[tuple[str | None, str]]:
    """The pairs that the table's rows have."""
    rows = pudi.Table(str(path)).scan().to_arrow()
    return list(zip(rows["rider"].to_pylist(), rows["_hoodie_record_key"].to_pylist(), strict=True))


def _escaped(text: str | None) -> str:
    if text is None:
        return "\0"
    return text.replace("\\", "\\\\").replace("$", "\\$").replace("\0", "\\\0")


def assert_secondary(path: Path) -> None:
    assert set(metadata_partitions(path)) == {"files", "record_index", "secondary_index_rider"}
    assert sorted(records(path, "secondary_index_rider")) == sorted(
        f"{_escaped(rider)}${_escaped(key)}" for rider, key in pairs(path)
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("engine", "layout"), per_engine([(each,) for each in LAYOUTS], [(LAYOUTS[0],)], []), indirect=["engine"]
)
def test_every_verb_keeps_it(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, BY_RIDER)
    verbs = ("upsert", "upsert", "delete", "insert_overwrite_table")
    for number, step in enumerate(steps(19, 8 if engine.name == "local" else 3, verbs)):
        made.write(step.verb, step.data)
        assert_secondary(made.path)
        if layout.kind == "mor" and number == 5:
            made.table.compact()
            assert_secondary(made.path)
    made.table.delete_partitions(made.table.partitions()[:1])
    assert_secondary(made.path)
    assert_record_index(made.path)
    assert_listing(made.path)
    rows = made.table.scan().to_arrow().to_pylist()
    rider = rows[0]["rider"]
    scan = made.table.scan(where=f"rider = '{rider}'")
    expected = [row["_hoodie_record_key"] for row in rows if row["rider"] == rider]
    assert sorted(scan.to_arrow()["_hoodie_record_key"].to_pylist()) == sorted(expected)
    assert "index       secondary_index_rider kept" in scan.explain()


def test_values_that_need_signs_before_them(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, LAYOUTS[0], BY_RIDER)
    data = next(iter(steps(3, 1, ("upsert",)))).data
    odd = ["$", "\\", "\0", "a$b\\", "", None, "ä€😀"]
    riders = pa.array([odd[n % len(odd)] for n in range(data.num_rows)], pa.string())
    made.write("upsert", data.set_column(data.schema.get_field_index("rider"), "rider", riders))
    assert_secondary(made.path)
    for rider in odd[:2]:
        quoted = rider.replace("\\", "\\\\") if rider else ""
        found = made.table.scan(where=f"rider = '{quoted}'").to_arrow().num_rows
        assert found == sum(each == rider for each, _ in pairs(made.path))


def test_a_column_that_no_index_is_made_over_is_refused(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, LAYOUTS[0], METADATA)
    data = next(iter(steps(3, 1, ("upsert",)))).data
    made.write("upsert", data)
    made.options = {**METADATA, "hoodie.metadata.index.secondary.column": "nothing"}
    with pytest.raises(pudi.InvalidArgumentError, match="no column 'nothing'"):
        made.write("upsert", data)
    made.options = {"hoodie.metadata.index.secondary.column": "fare", "hoodie.metadata.index.drop": "record_index"}
    with pytest.raises(pudi.InvalidArgumentError, match="record index"):
        made.write("upsert", data)
    assert metadata_partitions(made.path) == ["files"]
