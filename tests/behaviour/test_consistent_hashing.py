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
from support.trips import SCHEMA, steps, table, trip

CONSISTENT = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
}
LAYOUT = Layout("simple", "plain", "event", 9, "mor")
FLAT = Layout("simple", "flat", "commit", 8, "mor")
RINGS = Path(".hoodie", ".bucket_index", "consistent_hashing_metadata")


def rings(path: Path) -> dict[str, list[str]]:
    """By partition path what the file ids of its buckets begin with."""
    found = {}
    for file in (path / RINGS).rglob("00000000000000.hashing_meta"):
        content = json.loads(file.read_text())
        found[content["partitionPath"]] = [node["fileIdPrefix"] for node in content["nodes"]]
    return found


@pytest.mark.parametrize(("engine", "layout"), per_engine([LAYOUT, FLAT], [LAYOUT]), indirect=["engine"])
def test_random_writes(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, CONSISTENT)
    model = layout.model(logs_first=True)
    for number, step in enumerate(
        steps(4, 7 if engine.name == "local" else 3, ("upsert", "upsert", "delete", "insert"))
    ):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    found = rings(made.path)
    assert set(found) == set(made.table.partitions())
    for file_slice in made.table.file_slices():
        assert file_slice.file_id.removesuffix("-0") in found[file_slice.partition]
    made.table.compact()
    pudi.Table(made.path).upsert(table([trip(1, 100)]))  # what's there says the index
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
    plain = pudi.Table(made.path)
    for options in (
        {"hoodie.index.type": "SIMPLE"},
        {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE"},
    ):
        with pytest.raises(pudi.InvalidArgumentError, match="consistent hashing"):
            pudi.Table(made.path, options=options)
    for replace in (plain.insert_overwrite, plain.insert_overwrite_table):
        with pytest.raises(pudi.NotSupportedError, match="keep their ids"):
            replace(table([trip(1, 2)]))
    with pytest.raises(pudi.NotSupportedError, match="keep their ids"):
        plain.delete_partitions(["nyc"])
    with pytest.raises(pudi.NotSupportedError, match="several columns"):
        pudi.create(tmp_path / "two", SCHEMA, record_key=["uuid", "leg"], table_type="mor", options=CONSISTENT)
    with pytest.raises(pudi.InvalidArgumentError, match="how many buckets"):
        bare = {key: value for key, value in CONSISTENT.items() if "num" not in key}
        PudiTable.create(LocalEngine(), tmp_path / "n", SCHEMA, LAYOUT, bare).write("upsert", table([trip(1, 1)]))


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
