"""Tables whose buckets are found by consistent hashing: Hudi's rings are kept to, new partitions get theirs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine, LocalEngine, per_engine
from support.golden import Golden
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

CONSISTENT = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
}
LAYOUT = Layout("simple", "plain", "event", 9, "mor")
FLAT = Layout("complex", "flat", "commit", 8, "mor")
VERBS = ("upsert", "upsert", "delete", "insert", *REPLACING[:2])
RINGS = Path(".hoodie", ".bucket_index", "consistent_hashing_metadata")


def rings(path: Path) -> dict[str, list[str]]:
    """By partition path what the file ids of its buckets begin with, by the newest hashing metadata."""
    found = {}
    for file in sorted((path / RINGS).rglob("*.hashing_meta"), key=lambda file: file.name):
        content = json.loads(file.read_text())
        assert file.name == f"{content['instant']}.hashing_meta"
        found[content["partitionPath"]] = [node["fileIdPrefix"] for node in content["nodes"]]
    return found


@pytest.mark.parametrize(("engine", "layout"), per_engine([LAYOUT, FLAT], [LAYOUT]), indirect=["engine"])
def test_random_writes(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, CONSISTENT)
    model = layout.model(logs_first=True)
    verbs = VERBS if layout is FLAT else (*VERBS, "delete_partitions")
    for number, step in enumerate(steps(4, 9 if engine.name == "local" else 4, verbs)):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    found = rings(made.path)
    assert set(found) >= set(made.table.partitions())
    for file_slice in made.table.file_slices():
        assert file_slice.file_id.removesuffix("-0") in found[file_slice.partition]
    made.table.compact()
    pudi.Table(made.path).upsert(table([trip(1, 100)]))  # the files tell which index it has
    assert len({file_slice.file_id for file_slice in made.table.file_slices()}) <= 4 * len(found)


def test_a_table_of_hudi(tmp_path: Path) -> None:
    path = Golden("mor_v9_consistent_bucket").unpack(tmp_path)
    before = pudi.Table(path).scan(meta_fields=False).to_arrow()
    groups = {file_slice.file_id for file_slice in pudi.Table(path).file_slices()}
    changed = before.set_column(before.schema.get_field_index("rider"), "rider", pa.array(["pudi"] * before.num_rows))
    done = pudi.Table(path).upsert(changed)
    assert done is not None and done.records_inserted in {0, before.num_rows}  # logs don't tell inserts from updates
    after = pudi.Table(path)
    assert {file_slice.file_id for file_slice in after.file_slices()} == groups
    assert after.scan().to_arrow().num_rows == before.num_rows
    assert set(after.scan(columns=["rider"]).to_arrow()["rider"].to_pylist()) == {"pudi"}


def test_what_contradicts_or_cannot_be_is_refused(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, LAYOUT, CONSISTENT)
    made.write("upsert", table([trip(number, 1) for number in range(9)]))
    for options in (
        {"hoodie.index.type": "SIMPLE"},
        {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE"},
    ):
        with pytest.raises(pudi.InvalidArgumentError, match="consistent hashing"):
            pudi.Table(made.path, options=options)
    with pytest.raises(pudi.NotSupportedError, match="merge-on-read"):
        pudi.create(tmp_path / "two", SCHEMA, record_key=["uuid", "leg"], options=CONSISTENT)


def test_resized_buckets_are_found_where_hudi_says(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, FLAT, CONSISTENT)
    made.write("upsert", table([trip(number, 1) for number in range(9)]))
    folder, before = made.path / RINGS, made.snapshot()
    content = json.loads((folder / "00000000000000.hashing_meta").read_text())
    (instant,) = {file_slice.instant for file_slice in made.table.file_slices()}
    content["instant"] = instant
    (folder / f"{instant}.hashing_meta").write_text(json.dumps(content))  # of a completed instant: it counts
    made.write("upsert", table([trip(number, 2) for number in range(9)]))
    assert len(made.snapshot()) == len(before)
    content["nodes"] = content["nodes"][2:]
    (folder / f"{instant}.hashing_meta").write_text(json.dumps(content))
    with pytest.raises(pudi.CorruptError, match="none of the buckets"):
        made.write("upsert", table([trip(1, 3)]))
    shutil.rmtree(folder)
    with pytest.raises(pudi.InvalidArgumentError, match="another index"):
        made.write("upsert", table([trip(1, 3)]))


def test_replaced_buckets_get_new_file_groups(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, LAYOUT, CONSISTENT)
    made.write("upsert", table([trip(number, 1) for number in range(9)]))
    first = {s.file_id for s in made.table.file_slices()}
    made.write("delete_partitions", table([trip(0, 0)]))
    made.write("insert_overwrite_table", table([trip(number, 2) for number in range(9)]))
    made.write("upsert", table([trip(number, 3, "last") for number in range(9)]))
    assert [row["rider"] for row in made.snapshot()] == ["last"] * 9
    assert first.isdisjoint(s.file_id for s in made.table.file_slices())
    markers = {file.stem for file in (made.path / RINGS).rglob("*.commit")}
    changed = {file.stem for file in (made.path / RINGS).rglob("*.hashing_meta")}
    assert changed == markers | {"00000000000000"}
    (lost,) = (file for file in (made.path / RINGS / "sao_paulo").glob("*.commit"))
    lost.unlink()  # its instant is on the timeline, which says the same
    made.write("upsert", table([trip(number, 4, "again") for number in range(9)]))
    assert [row["rider"] for row in made.snapshot()] == ["again"] * 9
