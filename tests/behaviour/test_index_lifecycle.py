"""Indexes are created while writers go on, used, kept in step and dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.errors import CorruptError
from pudi.format import Action, CompactionPlan, encode_compaction_plan
from pudi.format.plans import IndexedPartition, encode_index_plan
from pudi.indexes.bloom_filters import BloomFiltersBuilder
from pudi.indexes.column_stats.build import ColumnStatsBuilder
from pudi.indexes.expression_index.build import ExpressionIndexBuilder
from pudi.indexes.record_index.build import RecordIndexBuilder
from pudi.indexes.secondary_index.build import SecondaryIndexBuilder
from pudi.metadata_write.client import open_metadata
from pudi.services.compaction_plan import operation_of
from pudi.writes import commit_write
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions, records, timeline_of
from support.record_index import assert_record_index
from support.trips import SCHEMA, table, trip

BUILDERS: dict[str, Any] = {
    "record_index": RecordIndexBuilder,
    "column_stats": ColumnStatsBuilder,
    "bloom_filters": BloomFiltersBuilder,
}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 6, 8) for kind in ("mor", "cow")]
BY_PARTITION = {"hoodie.metadata.record.level.index.enable": "true"}


def made(path: Path, layout: Layout) -> pudi.Table:
    options = {"hoodie.write.table.version": str(layout.version)}
    trips = pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=layout.kind, options=options
    )
    trips.bulk_insert(table(trip(n, 10) for n in range(20)))
    trips.upsert(table(trip(n, 11) for n in (0, 1, 5, 30)))
    return trips


def assert_kept(trips: pudi.Table, *, partitioned: bool = False) -> None:
    """All that the metadata table says is so, by pudi's check and by a judge that decodes it by other means."""
    path, found = Path(trips.path), trips.check()
    assert found.ok, str(found)
    assert_listing(path)
    if "record_index" in metadata_partitions(path):
        assert_record_index(path, partitioned=partitioned)


def pending(trips: pudi.Table) -> list[Action]:
    return [instant.action for instant in trips.timeline.pending]


def defined(trips: pudi.Table) -> set[str]:
    path = Path(trips.path) / ".hoodie" / ".index_defs" / "index.json"
    return set(json.loads(path.read_text())["indexDefinitions"]) if path.exists() else set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_created_kept_and_dropped(tmp_path: Path, layout: Layout) -> None:
    trips = made(tmp_path / "trips", layout)
    before = trips.scan().to_arrow().num_rows
    done = trips.create_index("record_index")
    assert (done.operation, done.records_inserted) == ("INDEX", before)
    trips.create_index("column_stats", ["fare", "ts"])
    trips.create_index("bloom_filters")
    assert [(each.name, each.state) for each in trips.indexes()] == [(name, "ready") for name in sorted(BUILDERS)]
    assert_kept(trips)
    trips.upsert(table(trip(n, 12) for n in (0, 2, 31)))
    trips.delete(table([trip(5, 0)]))
    assert_kept(trips)
    assert "column_stats" in str(trips.scan(where="fare > 1").explain())
    assert len([i for i in timeline_of(tmp_path / "trips").instants if i.action is Action.INDEXING]) == 3
    for name in sorted(BUILDERS):
        trips.drop_index(name)
    assert metadata_partitions(tmp_path / "trips") == ["files"]
    assert (defined(trips), trips.indexes()) == (set(), [])
    trips.upsert(table([trip(3, 13)]))
    assert_kept(trips)
    assert trips.scan().to_arrow().num_rows == before


def test_one_by_partition(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips", LAYOUTS[0])
    trips.create_index("record_index", options=BY_PARTITION)
    trips.upsert(table([trip(40, 12), trip(41, 12, city="a new one")]))
    assert_kept(trips, partitioned=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", BUILDERS)
def test_writers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, layout: Layout) -> None:
    """Commits before and after the base files were written, while nobody may use the index yet."""
    trips = made(tmp_path / "trips", layout)
    fill = BUILDERS[kind].fill
    seen = []

    def beside(builder: Any) -> object:
        other = pudi.Table(tmp_path / "trips")
        other.upsert(table(trip(n, 12) for n in (0, 2, 31)))
        other.delete(table([trip(5, 0)]))
        written = fill(builder)
        other.insert(table([trip(50, 13)]))
        seen.append(other.indexes())
        assert other.config.metadata_partitions == ("files",)
        with pytest.raises(pudi.ConflictError, match=r"building|beginning"):
            other.create_index(kind)
        with pytest.raises(pudi.ConflictError, match="building"):
            other.drop_index(kind)
        return written

    monkeypatch.setattr(BUILDERS[kind], "fill", beside)
    trips.create_index(kind)
    assert [[(each.name, each.state) for each in found] for found in seen] == [[(kind, "building")]]
    assert records(tmp_path / "trips", kind)
    assert_kept(trips)
    monkeypatch.undo()
    trips.upsert(table(trip(n, 14) for n in (1, 50, 60)))
    assert_kept(trips)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3]], ids=str)
@pytest.mark.parametrize("kind", BUILDERS)
def test_a_write_that_began_before_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, layout: Layout
) -> None:
    """It knew nothing of the index when it wrote its files, and puts its changes there all the same."""
    trips = made(tmp_path / "trips", layout)
    trips.upsert(table([trip(7, 11)]), options={"hoodie.metadata.enable": "true"})
    write = commit_write._run_tasks

    def slow(*arguments: Any) -> object:
        written = write(*arguments)
        monkeypatch.setattr(commit_write, "_run_tasks", write)
        pudi.Table(tmp_path / "trips").create_index(kind)
        return written

    monkeypatch.setattr(commit_write, "_run_tasks", slow)
    trips.upsert(table(trip(n, 12) for n in (0, 2, 31)))
    assert metadata_partitions(tmp_path / "trips") == sorted({"files", kind, *companions(kind, layout)})
    assert_kept(trips)


def companions(kind: str, layout: Layout) -> set[str]:
    return {"partition_stats"} if kind == "column_stats" and layout.version >= 8 else set()


def test_of_one_that_fails_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = made(tmp_path / "trips", LAYOUTS[1])

    def fail(_: Any) -> None:
        raise CorruptError("a file can't be read")

    monkeypatch.setattr(RecordIndexBuilder, "fill", fail)
    with pytest.raises(CorruptError):
        trips.create_index("record_index")
    assert (metadata_partitions(tmp_path / "trips"), pending(trips), defined(trips)) == (["files"], [], set())
    monkeypatch.undo()
    assert not (tmp_path / "trips" / ".hoodie" / "metadata" / "record_index").exists()
    trips.upsert(table([trip(3, 13)]))
    assert trips.create_index("record_index").records_inserted == trips.scan().to_arrow().num_rows
    assert_kept(trips)


def test_planned_and_built_by_whoever_comes(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips", LAYOUTS[1])
    plans = [trips.schedule(kind) for kind in ("column_stats", "record_index")]
    trips.upsert(table([trip(3, 13)]))
    assert [(each.name, each.state, each.instant) for each in trips.indexes()] == [
        ("column_stats", "planned", plans[0]),
        ("record_index", "planned", plans[1]),
    ]
    assert [each.instant for each in trips.run_pending()] == plans
    assert_kept(trips)
    assert {each.state for each in trips.indexes()} == {"ready"}
    assert trips.run_pending() == []


def test_a_plan_of_several_is_built_one_by_one(tmp_path: Path) -> None:
    """Hudi's indexer puts all indexes that it's to build into one plan."""
    trips = made(tmp_path / "trips", LAYOUTS[0])
    trips.create_index("bloom_filters")
    names = ("column_stats", "partition_stats", "record_index", "bloom_filters")
    plan = encode_index_plan([IndexedPartition(name, "") for name in names])
    trips._meta.store.request(Action.INDEXING, plan)
    before = {each.name: each.state for each in trips.indexes()}
    assert before == {"bloom_filters": "ready", "column_stats": "planned", "record_index": "planned"}
    trips.upsert(table([trip(3, 12)]))  # writers go on beside it
    assert len(trips.run_pending()) == 2
    assert {each.name: each.state for each in trips.indexes()} == dict.fromkeys(before, "ready")
    assert pending(trips) == []
    assert_kept(trips)


def test_a_planned_compaction_goes_with_the_files_that_it_names(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips", LAYOUTS[0])
    trips.create_index("column_stats")
    meta = MetaClient.open(trips.path, None, {})
    mdt = open_metadata(meta)
    slices = [each for each in TableSnapshot.load(mdt).view().all_slices() if each.logs]
    plan = CompactionPlan(tuple(operation_of(each, 1 << 20) for each in slices))
    assert "column_stats" in {each.partition_path for each in plan.operations}
    mdt.store.request(Action.COMPACTION, encode_compaction_plan(plan))
    trips.drop_index("column_stats")
    trips.create_index("column_stats")
    often = pudi.Table(trips.path, options={"hoodie.metadata.compact.max.delta.commits": "1"})
    often.upsert(table([trip(3, 12)]))
    own = mdt.store.load()
    assert own.pending == ()
    assert own.of(Action.COMMIT), "it's compacted"
    assert_kept(trips)


def test_one_of_several_planned_is_dropped(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips", LAYOUTS[1])
    trips.create_index("bloom_filters")
    plan = encode_index_plan([IndexedPartition(name, "") for name in ("column_stats", "record_index")])
    trips._meta.store.request(Action.INDEXING, plan)
    trips.drop_index("column_stats")
    assert [(each.name, each.state) for each in trips.indexes()] == [
        ("bloom_filters", "ready"),
        ("record_index", "planned"),
    ]
    assert len(trips.run_pending()) == 1
    assert_kept(trips)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"kind": "b-tree"}, "no kind of index"),
        ({"kind": "column_stats", "columns": ["fare", "fair"]}, "'fair'"),
        ({"kind": "record_index", "columns": "uuid"}, "takes no columns"),
        ({"kind": "record_index", "name": "mine"}, "has that name"),
        ({"kind": "column_stats", "options": {"speed": "high"}}, "no setting 'speed'"),
        ({"kind": "secondary_index"}, "over one column"),
        ({"kind": "secondary_index", "columns": "rider", "name": "../up"}, "can't be an index's name"),
        ({"kind": "column_stats", "columns": "ts", "expr": "from_unixtime(ts)"}, "give the function's name"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path: Path, asked: dict[str, Any], match: str
) -> None:
    trips = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid")
    with pytest.raises(pudi.InvalidArgumentError, match=match):
        trips.create_index(**asked)
    assert (pending(trips), trips.indexes()) == ([], [])


def test_what_is_there_or_isnt(tmp_path: Path) -> None:
    trips = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid")
    trips.create_index("column_stats")
    for refused, match in (
        (lambda: trips.create_index("column_stats"), "already"),
        (lambda: trips.drop_index("record_index"), "no index record_index"),
        (lambda: trips.drop_index("files"), "hoodie.metadata.enable=false"),
    ):
        with pytest.raises(pudi.InvalidArgumentError, match=match):
            refused()
    trips.insert(table(trip(n, 10) for n in range(3)))
    assert_kept(trips)


def test_the_command(tmp_path: Path) -> None:
    from pudi.cli.app import app

    def say(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["index", *(str(word) for word in words)])
        return result.exit_code, result.output

    path = tmp_path / "trips"
    made(path, LAYOUTS[1])
    checks: list[tuple[tuple[object, ...], int, str]] = [
        ((path,), 0, "no indexes"),
        ((path, "create", "column_stats", "-c", "fare"), 0, "built by"),
        ((path, "create", "record_index", "--plan-only"), 0, "planned 2"),
        ((path,), 0, "planned"),
        ((path, "run"), 0, "done 2"),
        ((path, "show"), 0, "record_index"),
        ((path, "drop", "record_index"), 0, "dropped"),
        ((path, "drop", "record_index"), 1, "InvalidArgumentError"),
        ((path, "drop"), 2, "drop what"),
        ((path, "show", "record_index"), 2, "takes no kind"),
        ((path, "run", "record_index"), 2, "takes no kind"),
        ((path, "drop", "column_stats", "-c", "fare"), 2, "for the index that create builds"),
        ((path, "create", "column_stats", "--plan-only", "-c", "fare"), 2, "for the index that create builds"),
        ((path, "drop", "column_stats", "--plan-only"), 2, "is for create"),
    ]
    for words, code, said in checks:
        found = say(*words)
        assert found[0] == code, found
        assert said in found[1], found
    assert metadata_partitions(path) == ["column_stats", "files", "partition_stats"]


NAMED: dict[str, tuple[Any, dict[str, Any]]] = {
    "secondary_index_rider": (SecondaryIndexBuilder, {"kind": "secondary_index", "columns": "rider"}),
    "expr_index_by_day": (
        ExpressionIndexBuilder,
        {
            "kind": "column_stats",
            "columns": "ts",
            "name": "by_day",
            "expr": "from_unixtime",
            "options": {"format": "yyyy-MM-dd"},
        },
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[1], LAYOUTS[4]], ids=str)
@pytest.mark.parametrize("name", NAMED)
def test_those_with_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, layout: Layout) -> None:
    builder, asked = NAMED[name]
    trips = made(tmp_path / "trips", layout)
    trips.create_index("record_index")
    fill = builder.fill

    def beside(building: Any) -> object:
        other = pudi.Table(tmp_path / "trips")
        other.upsert(table([trip(0, 12, "bob"), trip(2, 12, "eve"), trip(31, 12, "bob")]))
        written = fill(building)
        other.delete(table([trip(5, 0)]))
        return written

    monkeypatch.setattr(builder, "fill", beside)
    trips.create_index(**asked)
    monkeypatch.undo()
    assert name in metadata_partitions(tmp_path / "trips")
    assert_kept(trips)
    trips.upsert(table([trip(3, 13, "bob"), trip(40, 13, "zoe")]))
    assert_kept(trips)
    for rider in ("bob", "ann", "zoe"):
        found = trips.scan(columns=["uuid"], where=f"rider = '{rider}'").to_arrow().num_rows
        assert found == sum(each == rider for each in trips.scan(columns=["rider"]).to_arrow()["rider"].to_pylist())
    if name.startswith("secondary"):
        with pytest.raises(pudi.InvalidArgumentError, match="needs record_index"):
            trips.drop_index("record_index")
    trips.drop_index(name.removeprefix("secondary_index_").removeprefix("expr_index_"))
    assert metadata_partitions(tmp_path / "trips") == ["files", "record_index"]
