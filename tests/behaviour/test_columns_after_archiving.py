"""A table keeps its columns when all writes are archived and only commits of table services are on its timeline."""

from __future__ import annotations

import threading
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.services.clustering_run import ClusteringRun
from pudi.services.compaction import CompactionRun
from support.beside import watched
from support.engines import Engine, per_engine

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int32()), ("b", pa.string()), ("part", pa.string())])
ROWS = [{"id": "x", "v": 1, "b": "B1", "part": "p"}, {"id": "y", "v": 2, "b": "B2", "part": "q"}]
FEW = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000",
    "hoodie.clustering.async.max.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
}
SERVICES = {"CLUSTER", "COMPACT"}


def _made(path: Path, kind: str, version: str, metadata: str) -> pudi.Table:
    options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": metadata}
    made = pudi.create(path, SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options)
    made.insert(pa.Table.from_pylist(ROWS, SCHEMA))
    if kind == "mor":
        made.upsert(pa.Table.from_pylist(ROWS[:1], SCHEMA))
    return made


def _serve(path: Path, **options: str) -> pudi.Table:
    """Run table services until nothing is left to archive."""
    table = pudi.Table(path, options=FEW | options)
    if table.describe().table_type == "MERGE_ON_READ":
        table.compact()
    for _ in range(8):
        assert table.cluster(order_by="id", partitions="p") is not None
        table.maintain()
    return pudi.Table(path)


def _changed(table: pudi.Table, change: str) -> list[dict[str, Any]]:
    """Change the columns, and return the rows as they are then; the file of partition q stays as it was."""
    if change == "added":
        row = ROWS[0] | {"n": "N"}
        table.upsert(pa.Table.from_pylist([row], SCHEMA.append(pa.field("n", pa.string()))))
        return [row, ROWS[1] | {"n": None}]
    if change == "renamed":
        table.rename_column("b", "c")
        return [{"id": r["id"], "v": r["v"], "c": r["b"], "part": r["part"]} for r in ROWS]
    if change == "dropped":
        table.drop_column("b")
        return [{"id": r["id"], "v": r["v"], "part": r["part"]} for r in ROWS]
    table.change_type("v", pa.string())
    return [r | {"v": str(r["v"])} for r in ROWS]


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))


def _only_services(table: pudi.Table) -> bool:
    return all(table.commit_metadata(each.requested).operation_type in SERVICES for each in table.timeline.commits)


# With a metadata table the last write stays: archiving waits for the compaction that the next write runs.
LOCAL = list(product(("added", "renamed", "dropped", "retyped"), ("cow", "mor"), "689"))


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("engine", "change", "kind", "version"), per_engine(LOCAL, LOCAL[::9]), indirect=["engine"])
def test_columns_stay_when_the_last_write_is_archived(
    engine: Engine, change: str, kind: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi's archiver keeps no write for those who look for columns: so may a table be found."""
    monkeypatch.setattr("pudi.services.archive._states_columns", lambda snapshot: ())
    table = _made(tmp_path / "t", kind, version, "false")
    rows = _changed(table, change)
    table = _serve(tmp_path / "t")
    assert _only_services(table)
    assert _sorted(engine.read(table.scan(meta_fields=False))) == rows
    newest = table.timeline.commits[-1].requested
    assert _sorted(table.scan(meta_fields=False, as_of=newest).to_arrow().to_pylist()) == rows
    assert table.check().ok
    row = rows[1] | {"v": "7" if change == "retyped" else 7}
    table.upsert(engine.frame(pa.Table.from_pylist([row], table.schema)))
    assert _sorted(engine.read(pudi.Table(tmp_path / "t").scan(meta_fields=False))) == [rows[0], row]


@pytest.mark.parametrize("change", ["added", "renamed"])
def test_a_savepoint_does_not_bring_older_columns_back(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pudi.services.archive._states_columns", lambda snapshot: ())
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part")
    table.insert(pa.Table.from_pylist(ROWS[1:], SCHEMA))
    table.savepoint()
    table.insert(pa.Table.from_pylist(ROWS[:1], SCHEMA))  # no file of it is in the savepoint
    rows = _changed(table, change)
    table = _serve(tmp_path / "t", **{"hoodie.archive.beyond.savepoint": "true"})
    operations = [table.commit_metadata(each.requested).operation_type for each in table.timeline.commits]
    assert operations[0] == "INSERT"
    assert set(operations[1:]) == {"CLUSTER"}
    assert _sorted(table.scan(meta_fields=False).to_arrow().to_pylist()) == rows


@pytest.mark.parametrize(("change", "kept"), [("added", False), ("renamed", True)])
def test_archiving_keeps_the_write_that_hudi_takes_ids_of_columns_from(change: str, kept: bool, tmp_path: Path) -> None:
    table = _made(tmp_path / "t", "cow", "9", "false")
    rows = _changed(table, change)
    table = _serve(tmp_path / "t")
    assert _only_services(table) is not kept
    table.upsert(pa.Table.from_pylist([rows[0]], table.schema))
    table = _serve(tmp_path / "t")
    first = table.commit_metadata(table.timeline.commits[0].requested).operation_type
    assert first == ("UPSERT" if kept else "CLUSTER")
    assert _sorted(table.scan(meta_fields=False).to_arrow().to_pylist()) == rows


PLANNED = list(product(("renamed", "dropped", "retyped"), ("compaction", "clustering"), "689"))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("engine", "change", "service", "version"), per_engine(PLANNED, PLANNED[::7]), indirect=["engine"]
)
def test_a_plan_that_is_older_than_the_columns_keeps_them(
    engine: Engine, change: str, service: str, version: str, tmp_path: Path
) -> None:
    """Readers take a file to have the columns of its instant, which a plan was given before they changed."""
    table = _made(tmp_path / "t", "mor" if service == "compaction" else "cow", version, "true")
    if service == "compaction":
        table.upsert(pa.Table.from_pylist(ROWS, SCHEMA))
    options = FEW | {"hoodie.compact.inline.max.delta.commits": "1"}
    options["hoodie.clustering.plan.strategy.sort.columns"] = "id"
    assert pudi.Table(tmp_path / "t").schedule(service, options=options) is not None
    rows = _changed(table, change)
    on = {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]
    assert len(pudi.Table(tmp_path / "t").run_pending(**on)) == 1
    table = pudi.Table(tmp_path / "t")
    assert _sorted(engine.read(table.scan(meta_fields=False))) == rows
    assert table.check().ok


@pytest.mark.parametrize("service", ["clustering", "compaction"])
def test_a_plan_never_states_older_columns_than_a_write_before_it(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi reads a table by the schema of the commit that was requested last, also of a table service."""
    table = _made(tmp_path / "t", "mor" if service == "compaction" else "cow", "9", "true")
    options = FEW | {"hoodie.clustering.plan.strategy.sort.columns": "id",
                     "hoodie.clustering.plan.strategy.partition.selected": "p",
                     "hoodie.compact.inline.max.delta.commits": "1"}  # fmt: skip
    begun, go = threading.Event(), threading.Event()
    writer, storage, _ = watched(tmp_path / "t")
    storage.then.append(lambda: (begun.set(), go.wait(60)))
    wider = pa.Table.from_pylist([ROWS[1] | {"n": "N"}], SCHEMA.append(pa.field("n", pa.string())))
    thread = threading.Thread(target=lambda: writer.upsert(wider))
    thread.start()
    assert begun.wait(60)
    run = ClusteringRun if service == "clustering" else CompactionRun
    jobs = run.jobs

    def late(self: Any) -> Any:
        go.set()
        thread.join(60)
        return jobs(self)

    assert pudi.Table(tmp_path / "t").schedule(service, options=options) is not None
    monkeypatch.setattr(run, "jobs", late)
    with pytest.raises(pudi.ConflictError, match="changed the table's columns while the"):
        pudi.Table(tmp_path / "t").run_pending()
    assert len(pudi.Table(tmp_path / "t").run_pending()) == 1
    newest = max(each.requested for each in table.timeline.commits)
    assert '"n"' in table.commit_metadata(newest).extra_metadata["schema"]
    rows = [ROWS[0] | {"n": None}, ROWS[1] | {"n": "N"}]
    assert _sorted(table.scan(meta_fields=False).to_arrow().to_pylist()) == rows
