"""Tables with a record index: after every verb it's what a full scan finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.engine.local import LocalEngine as Local
from pudi.engine.spark.engine import SparkEngine
from pudi.task.index_keys import KeyTask
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions, records_by_group
from support.model_global import GlobalModel
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

METADATA = {"hoodie.metadata.enable": "true"}
GLOBAL = {**METADATA, "hoodie.metadata.global.record.level.index.enable": "true"}
BY_PARTITION = {**METADATA, "hoodie.metadata.record.level.index.enable": "true"}
VERBS = ("insert", "upsert", "upsert", "delete", *REPLACING)

LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")] + [
    Layout("simple", "flat", "event", 9),
    Layout("complex", "hive", "commit", 9, "mor"),
]


def _verbs(layout: Layout) -> tuple[str, ...]:
    return VERBS[:4] if layout.folders == "flat" else VERBS


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.version > 6], ids=str)
def test_every_verb_keeps_one_by_partition(tmp_path: Path, layout: Layout) -> None:
    made, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, BY_PARTITION), layout.model()
    for step in steps(7, 9, _verbs(layout)):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert metadata_partitions(made.path) == ["files", "record_index"]
        assert_record_index(made.path, partitioned=True)
        assert_listing(made.path)
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"after {step.verb}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_verb_keeps_one_over_the_table(tmp_path: Path, layout: Layout) -> None:
    options = {**GLOBAL, "hoodie.index.type": "GLOBAL_SIMPLE"}
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    for step in steps(8, 10, ("upsert", "upsert", "delete", "insert_overwrite_table")):
        getattr(made.table, step.verb)(step.data)
        assert metadata_partitions(made.path) == ["files", "record_index"]
        assert_record_index(made.path)
        assert_listing(made.path)


def _model(layout: Layout, *, moves: bool) -> Any:
    return GlobalModel(
        layout.key_fields, layout.partition_fields, layout.ordering, layout.folders == "hive", moves=moves
    )


MOVES = {"hoodie.record.index.update.partition.path": "true"}
BY_INDEX = [
    ({**GLOBAL, "hoodie.index.type": "RECORD_INDEX"}, Layout("simple", "plain", "event")),
    ({**GLOBAL, "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX", **MOVES}, Layout("simple", "hive", "commit")),
    ({**GLOBAL, "hoodie.index.type": "RECORD_INDEX", **MOVES}, Layout("complex", "plain", "event", 8)),
    ({**GLOBAL, "hoodie.index.type": "RECORD_INDEX", **MOVES}, Layout("simple", "plain", "event", 6)),
    ({**BY_PARTITION, "hoodie.index.type": "RECORD_LEVEL_INDEX"}, Layout("simple", "plain", "event")),
    ({**BY_PARTITION, "hoodie.index.type": "RECORD_LEVEL_INDEX"}, Layout("complex", "flat", "event")),
]
SPREAD_OUT = {"hoodie.parquet.small.file.limit": "0"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("engine", "options", "layout"),
    per_engine(BY_INDEX[1::2], BY_INDEX[1:3], [BY_INDEX[0]], [BY_INDEX[2]]),
    indirect=["engine"],
)
def test_writes_by_it(engine: Engine, tmp_path: Path, options: dict[str, str], layout: Layout) -> None:
    over_all = "hoodie.metadata.global.record.level.index.enable" in options
    moves = "hoodie.record.index.update.partition.path" in options
    model = _model(layout, moves=moves) if over_all else layout.model()
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, {**options, **SPREAD_OUT})
    for number, step in enumerate(steps(31, 12 if engine.name == "local" else 5)):
        getattr(model, step.verb)(from_arrow(step.data), *trips.write(step.verb, step.data))
        assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
        assert_record_index(trips.path, partitioned=not over_all)


def test_a_key_that_comes_for_two_partitions_at_once(tmp_path: Path) -> None:
    """Each of its records goes to its own partition; Hudi 1.2 takes the place of one for both."""
    options = {**BY_PARTITION, "hoodie.index.type": "RECORD_LEVEL_INDEX"}
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options)
    made.write("bulk_insert", table(trip(number, 10) for number in range(9)))
    for ts in (20, 30):  # one of them is known, then both
        made.write("upsert", table([trip(0, ts, city="sao_paulo"), trip(0, ts + 1, city="nyc")]))
        found = {(row["_hoodie_partition_path"], row["ts"]) for row in made.snapshot() if row["uuid"] == "k0000"}
        assert found == {("sao_paulo", ts), ("nyc", ts + 1)}
        assert_record_index(made.path, partitioned=True)
    assert len(made.snapshot()) == 10


def test_the_other_kind_of_index_is_refused(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), BY_PARTITION)
    made.write("upsert", table([trip(1, 1)]))
    made.options = {"hoodie.index.type": "RECORD_INDEX"}
    with pytest.raises(pudi.InvalidArgumentError, match="RECORD_LEVEL_INDEX"):
        made.write("upsert", table([trip(1, 2)]))


def test_without_one_files_are_looked_into(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {"hoodie.index.type": "RECORD_INDEX"})
    made.write("upsert", table([trip(1, 1)]))
    made.write("upsert", table([trip(1, 2)]))
    assert len(made.snapshot()) == 1
    assert "has no record index" in caplog.text


def test_it_is_made_of_what_is_there(tmp_path: Path) -> None:
    for kind, version in (("cow", 9), ("mor", 9), ("mor", 6)):
        made = PudiTable.create(
            LocalEngine(), tmp_path / f"{kind}{version}", SCHEMA, Layout("simple", "plain", "event", version, kind),
            {"hoodie.index.type": "GLOBAL_SIMPLE"},
        )  # fmt: skip
        for step in steps(5, 6):
            getattr(made.table, step.verb)(step.data)
        made.options = {**GLOBAL, "hoodie.metadata.record.index.min.filegroup.count": "3"}
        made.write("upsert", table([trip(1, 5000)]))
        assert metadata_partitions(made.path) == ["files", "record_index"]
        assert_record_index(made.path)
        assert len(records_by_group(made.path, "record_index")) == 3


@pytest.mark.parametrize(("engine", "kind"), per_engine(["cow", "mor"], ["cow"]), indirect=["engine"])
def test_no_job_reads_written_base_files_for_their_keys(
    engine: Engine, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, Layout("simple", "plain", "event", 9, kind), GLOBAL)
    run: list[int] = []
    runner = SparkEngine if engine.name == "spark" else Local
    jobs = runner.run_jobs

    def watched(self: Any, storage: Any, instant: str, tasks: Any) -> Any:
        run.extend(each.number for each in tasks if isinstance(each, KeyTask))
        return jobs(self, storage, instant, tasks)

    monkeypatch.setattr(runner, "run_jobs", watched)
    made.write("upsert", table([trip(number, 10) for number in range(12)]))
    made.write("upsert", table([trip(number, 11) for number in range(6, 18)]))
    if kind == "cow":
        made.write("delete", table([trip(3, 12)]))
    assert run == []
    assert_record_index(made.path)


@pytest.mark.parametrize("options", [GLOBAL, BY_PARTITION], ids=["global", "by partition"])
def test_one_of_two_rows_with_a_key_goes(tmp_path: Path, options: dict[str, str]) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout("simple", "plain", "event", 9), options)
    made.table.bulk_insert(table([trip(3, 10), trip(3, 20), trip(6, 10)]))
    made.table.delete(where="ts = 10 and uuid = 'k0003'")
    assert [row["ts"] for row in from_arrow(made.table.scan(where="uuid = 'k0003'").to_arrow())] == [20]
    assert records_by_group(made.path, "record_index")
    found = made.table.check()
    assert found.ok, str(found)
    made.table.delete(where="uuid = 'k0003'")
    assert_record_index(made.path, partitioned=options is BY_PARTITION)
