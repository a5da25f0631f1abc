"""Pre-commit validators: a write that one refuses has no effect, and the next write works."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.disk import tree
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

NAMES = "hoodie.precommit.validators"
EQUAL, DIFFER, SINGLE = (
    f"org.apache.hudi.client.validator.SqlQuery{kind}PreCommitValidator"
    for kind in ("Equality", "Inequality", "SingleResult")
)
EQUAL_SQL, DIFFER_SQL, SINGLE_SQL = (
    f"{NAMES}.{kind}.sql.queries" for kind in ("equality", "inequality", "single.value")
)
NO_NULLS = {NAMES: SINGLE, SINGLE_SQL: "select count(*) from <TABLE_NAME> where rider is null#0"}
LAYOUTS = [Layout(version=version, kind=kind) for version, kind in product((6, 8, 9), ("cow", "mor"))]
SIX = [trip(number, 10) for number in range(6)]


def six_trips(folder: Path, layout: Layout | None = None, **options: str) -> PudiTable:
    made = PudiTable.create(LocalEngine(), folder / "trips", SCHEMA, layout or Layout(), options)
    made.write("bulk_insert", table(SIX))
    return made


VERBS: dict[str, Callable[[pudi.Table, Any], Any]] = {
    "insert": lambda trips, data: trips.insert(data),
    "bulk_insert": lambda trips, data: trips.bulk_insert(data),
    "upsert": lambda trips, data: trips.upsert(data),
    "delete": lambda trips, data: trips.delete(data),
    "delete_where": lambda trips, data: trips.delete(where="uuid = 'k0001'"),
    "update": lambda trips, data: trips.update({"rider": "NULL"}, where="uuid = 'k0001'"),
    "merge": lambda trips, data: trips.merge(data).when_matched_update().when_not_matched_insert().execute(),
    "insert_overwrite": lambda trips, data: trips.insert_overwrite(data),
    "insert_overwrite_table": lambda trips, data: trips.insert_overwrite_table(data),
    "delete_partitions": lambda trips, data: trips.delete_partitions(["sao_paulo"]),
}
"""Each verb; k0001 is in sao_paulo, with k0004."""


def outcome(verb: str) -> list[str]:
    """The keys of sao_paulo after a verb with a new version of k0001, or to insert with k0007."""
    both = ["k0001", "k0004"]
    others = {
        "delete": ["k0004"],
        "delete_where": ["k0004"],
        "insert": [*both, "k0007"],
        "bulk_insert": [*both, "k0007"],
        "insert_overwrite": ["k0001"],
        "insert_overwrite_table": ["k0001"],
        "delete_partitions": [],
    }
    return others.get(verb, both)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("engine", "layout", "verb"),
    per_engine(
        [
            *product([Layout(kind="mor"), Layout(version=6)], VERBS),
            *product([Layout(), Layout(version=6, kind="mor"), Layout(version=8)], ("upsert", "insert_overwrite")),
        ],
        product([Layout(kind="mor")], ("bulk_insert", "upsert", "insert_overwrite")),
    ),
    indirect=["engine"],
)
def test_validators_see_each_verb_before_it_is_visible(
    engine: Engine, layout: Layout, verb: str, tmp_path: Path
) -> None:
    seen: list[list[str]] = []

    def look(before: Any, after: Any) -> None:
        for rows in (before, after):
            spark = hasattr(rows, "collect")
            found = [row.uuid for row in rows.collect()] if spark else rows.to_arrow()["uuid"].to_pylist()
            seen.append(sorted(found))
        if refuse:
            raise ValueError("not today")

    pudi.register_validator("look", look)
    trips = PudiTable(engine, six_trips(tmp_path, layout).path, {NAMES: "look"})
    data, refuse = engine.frame(table([trip(7 if verb in {"insert", "bulk_insert"} else 1, 20)])), True
    before, rows = tree(trips.path), trips.snapshot()
    with pytest.raises(pudi.ValidationError, match=r"validator look refused the write.*ValueError: not today"):
        VERBS[verb](trips.table, data)
    assert_same(trips.snapshot(), rows)
    left = {name: digest for name, digest in tree(trips.path).items() if not is_rollback(name)}
    if layout.version == 6 and layout.kind == "mor":  # a rollback keeps log files and adds a rollback block, as Hudi's
        left = {name: digest for name, digest in left.items() if ".log." not in name}
    assert left == {name: digest for name, digest in before.items() if not is_rollback(name)}
    refuse = False
    assert VERBS[verb](trips.table, data) is not None
    assert seen == [["k0001", "k0004"], outcome(verb)] * 2 if verb != "insert_overwrite_table" else len(seen) == 4
    assert sorted(r["uuid"] for r in trips.snapshot() if r["city"] == "sao_paulo") == outcome(verb)
    assert trips.table.check().differences == ()


def is_rollback(name: str) -> bool:
    """Whether a file tells of a rollback, or of the metadata table's."""
    return ".rollback" in name or "/.hoodie_partition_metadata" in name or name.startswith(".hoodie/metadata/")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("engine", "layout"), per_engine(LAYOUTS, [Layout(), Layout(version=6, kind="mor")]), indirect=["engine"]
)
def test_sql_refuses_a_bad_batch(engine: Engine, layout: Layout, tmp_path: Path) -> None:
    trips = PudiTable(engine, six_trips(tmp_path, layout).path, NO_NULLS)
    rows = trips.snapshot()
    with pytest.raises(pudi.ValidationError) as caught:
        trips.table.upsert(engine.frame(table([trip(1, 20, None), trip(7, 20)])))
    assert "SqlQuerySingleResultPreCommitValidator" in str(caught.value)
    assert "must give 0, and gives 1" in str(caught.value)
    assert_same(trips.snapshot(), rows)
    trips.write("upsert", table([trip(1, 20), trip(7, 20)]))
    assert len(trips.snapshot()) == 7
    assert trips.table.check().differences == ()


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_results_before_and_after_are_compared(engine: Engine, tmp_path: Path) -> None:
    counts = "select count(*), sum(leg) from <TABLE_NAME>"
    newest = "select max(ts) from <TABLE_NAME>; select rider, ts from <TABLE_NAME>"
    options = {NAMES: f"{EQUAL},{DIFFER}", EQUAL_SQL: counts, DIFFER_SQL: newest}
    trips = PudiTable(engine, six_trips(tmp_path).path, options)
    trips.write("upsert", table([trip(1, 20, "bob")]))
    with pytest.raises(pudi.ValidationError, match=r"must be equal: before the write \(2, 2\), after it \(3, 3\)"):
        trips.write("upsert", table([trip(7, 30, city="sao_paulo")]))
    with pytest.raises(
        pudi.ValidationError, match=r"max\(ts\).* must differ: before the write \(20\), after it \(20\)"
    ):
        trips.write("upsert", table([trip(4, 15)]))
    assert {(row["uuid"], row["rider"]) for row in trips.snapshot() if row["ts"] == 20} == {("k0001", "bob")}


def test_a_query_sees_log_files_and_meta_fields(tmp_path: Path) -> None:
    trips = six_trips(tmp_path, Layout(kind="mor"))
    done = trips.table.upsert(table([trip(1, 20, "bob")]))
    assert done is not None
    own = f"select count(*) from <TABLE_NAME> where _hoodie_commit_time = '{done.instant}'"
    trips.options = {
        NAMES: f"{SINGLE},{EQUAL}",
        SINGLE_SQL: "select rider from <TABLE_NAME> where ts = 30#eve",
        EQUAL_SQL: own,
    }
    trips.write("upsert", table([trip(4, 30, "eve")]))
    with pytest.raises(pudi.ValidationError, match=r"before the write \(1\), after it \(0\)"):
        trips.write("delete", table([trip(1, 40)]))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("select avg(ts) from <TABLE_NAME>", "15.0"),
        ("select sum(ts) from <TABLE_NAME>", "30"),
        ("select 1 = 1", "true"),
        ("select cast(null as int)", "null"),
        (
            "select min(city) from <TABLE_NAME> a where exists (select * from <TABLE_NAME> b where a.ts < b.ts)",
            "sao_paulo",
        ),
    ],
)
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_a_single_value_is_compared_as_text(engine: Engine, query: str, value: str, tmp_path: Path) -> None:
    trips = PudiTable(engine, six_trips(tmp_path).path, {NAMES: SINGLE, SINGLE_SQL: f"{query}#{value}"})
    trips.write("upsert", table([trip(1, 20)]))
    with pytest.raises(pudi.ValidationError):
        trips.table.upsert(engine.frame(table([trip(1, 20)])), options={SINGLE_SQL: f"{query}#other"})


def test_a_result_of_several_values_is_refused(tmp_path: Path) -> None:
    trips = six_trips(tmp_path)
    trips.options = {NAMES: SINGLE, SINGLE_SQL: "select uuid from <TABLE_NAME>#k0001"}
    with pytest.raises(pudi.ValidationError, match=r"must give k0001, and gives \(k000"):
        trips.write("upsert", table([trip(1, 20)]))


def test_the_first_write_and_new_columns_are_validated(tmp_path: Path) -> None:
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), NO_NULLS)
    with pytest.raises(pudi.ValidationError):
        trips.write("insert", table([trip(1, 10, None)]))
    assert trips.table.timeline.commits == ()
    trips.write("insert", table([trip(1, 10)]))
    more = table([trip(1, 20)]).append_column("tip", pa.array([1.5]))
    tips = "select tip from <TABLE_NAME>"
    trips.options = {NAMES: f"{DIFFER},{SINGLE}", DIFFER_SQL: tips, SINGLE_SQL: f"{tips}#1.5"}
    trips.write("upsert", more)
    assert from_arrow(trips.table.scan(columns=["tip"]).to_arrow()) == [{"tip": 1.5}]
    trips.table.add_column("tax", pa.float64())
    trips.options = {NAMES: SINGLE, SINGLE_SQL: "select count(tax) from <TABLE_NAME>#1"}
    with pytest.raises(pudi.ValidationError):
        trips.write("upsert", more.append_column("tax", pa.array([None], pa.float64())))
    trips.write("upsert", more.append_column("tax", pa.array([0.5])))


def test_a_refused_write_leaves_the_metadata_table_as_it_was(tmp_path: Path) -> None:
    options = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    trips = six_trips(tmp_path, Layout(kind="mor"), **options)
    trips.options = {**options, **NO_NULLS}

    def entries() -> dict[str, str]:
        found = tree(trips.path)
        return {n: d for n, d in found.items() if n.startswith(".hoodie/metadata/") and ".rollback" not in n}

    before = entries()
    with pytest.raises(pudi.ValidationError):
        trips.write("upsert", table([trip(1, 20, None), trip(9, 20)]))
    after = entries()
    new = {name for name in set(after) - set(before) if "/.hoodie/" not in name}
    assert {name: after.get(name) for name in before} == before
    assert trips.table.check().differences == (), new
    trips.write("upsert", table([trip(1, 20), trip(9, 20)]))
    assert trips.table.check().differences == ()


def test_a_clustering_is_validated_and_a_compaction_not(tmp_path: Path) -> None:
    calls = []
    pudi.register_validator("calls", lambda before, after: calls.append(before.to_arrow().num_rows))
    trips = six_trips(tmp_path, Layout(kind="mor"))
    trips.write("upsert", table([trip(1, 20)]))
    trips.options = {NAMES: "calls"}
    assert trips.table.compact() is not None
    assert calls == []
    assert trips.table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "ts"}) is not None
    assert calls == [6]
    trips.table.clean(options={"hoodie.clean.commits.retained": "1"})
    trips.table.add_column("tip", pa.float64())
    assert calls == [6]


def test_a_commit_between_validation_and_commit_is_validated_too(tmp_path: Path) -> None:
    trips = six_trips(tmp_path)
    others = iter([table([trip(10, 10, city="sao_paulo")]), table([trip(2, 20)])])
    seen = []

    def look(before: Any, after: Any) -> None:
        seen.append((before.to_arrow().num_rows, after.to_arrow().num_rows))
        other = next(others, None)
        if other is not None:
            pudi.Table(trips.path).bulk_insert(other)

    pudi.register_validator("look", look)
    trips.options = {NAMES: "look", "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    trips.write("upsert", table([trip(1, 20)]))
    assert seen == [(2, 2), (3, 3)], "a commit in the same partition is seen; one in another partition isn't looked at"
    assert len(from_arrow(trips.table.scan().to_arrow())) == 8


class Died(BaseException):
    """Stands for the end of the process: nothing is cleaned up."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", [Layout(), Layout(kind="mor"), Layout(version=6, kind="mor")], ids=str)
@pytest.mark.parametrize("error", [KeyboardInterrupt, Died])
def test_the_next_write_goes_on_after_an_interrupted_validation(
    layout: Layout, error: type[BaseException], tmp_path: Path
) -> None:
    def end(before: Any, after: Any) -> None:
        raise error

    pudi.register_validator("end", end)
    trips = six_trips(tmp_path, layout)
    rows = trips.snapshot()
    with pytest.raises(error):
        trips.table.upsert(table([trip(1, 20), trip(9, 20)]), options={NAMES: "end"})
    assert_same(trips.snapshot(), rows)
    trips.write("upsert", table([trip(2, 20)]))
    assert {(row["uuid"], row["ts"]) for row in trips.snapshot()} == {
        (f"k000{number}", 20 if number == 2 else 10) for number in range(6)
    }
    assert trips.table.timeline.pending == ()
    assert trips.table.check().ok


def test_validators_run_without_the_tables_lock(tmp_path: Path) -> None:
    def other(before: Any, after: Any) -> None:
        with pudi.Table(trips.path)._meta.lock:
            pass

    pudi.register_validator("other", other)
    trips = six_trips(tmp_path)
    trips.options = {NAMES: "other"}
    trips.write("upsert", table([trip(1, 20)]))


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({NAMES: SINGLE}, pudi.InvalidArgumentError, SINGLE_SQL),
        ({NAMES: EQUAL, EQUAL_SQL: " ; "}, pudi.InvalidArgumentError, EQUAL_SQL),
        ({NAMES: SINGLE, SINGLE_SQL: "select 1"}, pudi.InvalidArgumentError, "query#value"),
        ({NAMES: SINGLE, SINGLE_SQL: "select '#'#1"}, pudi.InvalidArgumentError, "query#value"),
        ({NAMES: "os.system"}, pudi.NotSupportedError, "os.system.*register_validator"),
        ({NAMES: "org.apache.hudi.client.validator.StreamingOffsetValidator"}, pudi.NotSupportedError, "Streaming"),
        ({f"{NAMES}.failure.policy": "WARN_LOG"}, pudi.NotSupportedError, "WARN_LOG"),
    ],
)
def test_what_cant_run_is_refused_before_anything_is_written(
    options: dict[str, str], error: type[Exception], names: str, tmp_path: Path
) -> None:
    trips = six_trips(tmp_path)
    before = tree(trips.path)
    with pytest.raises(error, match=names):
        trips.table.upsert(table([trip(1, 20)]), options=options)
    assert tree(trips.path) == before


def test_sql_needs_duckdb_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = six_trips(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(pudi.SetupError, match=r"pudi\[duckdb\]"):
        trips.table.upsert(table([trip(1, 20)]), options=NO_NULLS)
    assert len(trips.table.timeline.instants) == 1


def test_a_query_that_cant_run_names_itself(tmp_path: Path) -> None:
    trips = six_trips(tmp_path)
    with pytest.raises(pudi.ValidationError, match="'select nothing from <TABLE_NAME>' can't be run"):
        trips.table.upsert(table([trip(1, 20)]), options={NAMES: EQUAL, EQUAL_SQL: "select nothing from <TABLE_NAME>"})
    trips.write("upsert", table([trip(1, 20)]))


@pytest.mark.parametrize(("name", "validator"), [(" ", print), ("a,b", print), (EQUAL, print), ("mine", 3)])
def test_a_wrong_registration_is_refused(name: str, validator: object) -> None:
    with pytest.raises(pudi.InvalidArgumentError):
        pudi.register_validator(name, validator)  # type: ignore[arg-type]
