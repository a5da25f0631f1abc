"""SQL as Hudi's users write it: each statement gives the rows or the error that Apache Hudi gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.statement import local
from support.sql_scripts import SCRIPTS, Script, answers, read, run_script

PAIRS = [pytest.param(script, kind, id=f"{script.name}, {kind}") for script in SCRIPTS for kind in script.kinds]
ON_SPARK = (
    "insert meets names",
    "insert into one of two partition columns",
    "structs meet by names",
    "overwrite with operation insert_overwrite",
    "overwrite of the first partition column",
)


def _compare(script: Script, kind: str, found: list[Any]) -> None:
    told = answers(read()[f"{script.name}, {kind}"])
    for text, expected, given, shown in zip(script.statements, told, answers(found), found, strict=True):
        assert given == expected, f"{text}\n{shown}"


@pytest.mark.sampled(25)
@pytest.mark.parametrize(("script", "kind"), PAIRS)
def test_on_this_machine(script: Script, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())

    def rows(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pudi.sql(text).to_pylist()]

    _compare(script, kind, run_script(script.statements, kind, "scripted", tmp_path / "t", rows))


@pytest.mark.spark
@pytest.mark.parametrize("script", [each for each in SCRIPTS if each.name in ON_SPARK], ids=lambda each: each.name)
def test_on_spark(script: Script, tmp_path: Path, spark: Any) -> None:
    before = {row[0]: row[1] for row in spark.sql("SET").collect()}

    def rows(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    name = "scripted_" + script.name.replace(" ", "_")
    try:
        found = run_script(script.statements, script.kinds[0], name, tmp_path / "t", rows)
    finally:
        for row in spark.sql("SET").collect():
            if row[0] not in before:
                spark.conf.unset(row[0])
    _compare(script, script.kinds[0], found)


def test_buckets_without_their_number_are_those_of_hudi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(
        "CREATE TABLE t (id STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', hoodie.index.type = 'BUCKET') "
        f"LOCATION '{tmp_path}/t'"
    )
    pudi.sql("INSERT INTO t VALUES ('1'), ('2')")
    pudi.sql("INSERT INTO t VALUES ('abc')")
    # Hudi's buckets of '1' and '2', and Java's hash of ['abc'] by Hudi's 256
    assert sorted(path.name[:8] for path in (tmp_path / "t").glob("*.parquet")) == ["00000080", "00000081", "00000129"]


@pytest.fixture
def two_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table `t` with a record on each of two days, by two commits."""
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(f"CREATE TABLE t (id INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{tmp_path}/t'")
    pudi.sql("INSERT INTO t VALUES (1, 'x')")
    pudi.sql("INSERT INTO t VALUES (2, 'y')")
    yield tmp_path / "t"


@pytest.mark.usefixtures("two_days")
def test_truncating_partitions_of_a_pattern() -> None:
    pudi.sql("CALL truncate_table(table => 't', partitions => 'dt=2026-*')")
    assert pudi.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]
    pudi.sql("CALL truncate_table(table => 't', partitions => 'dt=*x')")
    assert pudi.sql("SELECT id FROM t").to_pylist() == [{"id": 2}]


@pytest.mark.usefixtures("two_days")
@pytest.mark.parametrize("values", ["dt = 'x', dt = 'y'", "dt = 'x', DT = '*y'", "dt = '*', dt = 'x'", "dt = 'x"])
def test_dropping_a_partition_by_a_wrong_list(values: str) -> None:
    with pytest.raises(pudi.InvalidArgumentError):
        pudi.sql(f"ALTER TABLE t DROP PARTITION ({values})")
    assert pudi.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]


@pytest.mark.usefixtures("two_days")
@pytest.mark.parametrize("procedure", ["show_fsview_all", "show_fsview_latest"])
@pytest.mark.parametrize(
    ("pattern", "partitions"), [("dt=y", ["dt=y"]), ("*", ["dt=x", "dt=y"]), ("dt=z*", []), ("*/*", [])]
)
def test_files_of_the_partitions_of_a_pattern(procedure: str, pattern: str, partitions: list[str]) -> None:
    found = pudi.sql(f"CALL {procedure}(table => 't', path_regex => '{pattern}')")
    assert sorted(found["partition"].to_pylist()) == partitions


@pytest.mark.parametrize(
    ("pattern", "files"),
    [("", 4), ("*", 4), ("/*", 4), ("a", 1), ("a/", 1), ("a*", 3), ("a/*", 1), ("b/x", 1), ("b", 1), ("x", 0)],
)
def test_sizes_of_the_files_of_the_partitions_of_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, files: int
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(
        "CREATE TABLE t (id INT, one STRING, two STRING) USING hudi PARTITIONED BY (one, two) TBLPROPERTIES "
        f"('hoodie.datasource.write.hive_style_partitioning' = 'false') LOCATION '{tmp_path}/t'"
    )
    pudi.sql("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'ab', 'x'), (3, 'ab', 'y'), (4, 'b', 'x')")
    found = pudi.sql(f"CALL stats_file_sizes(table => 't', partition_path => '{pattern}')").to_pylist()
    assert sum(row["num_files"] for row in found if row["commit_time"] == "ALL") == files


@pytest.mark.usefixtures("two_days")
def test_a_pattern_given_twice_is_refused() -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="leave one of them out"):
        pudi.sql("CALL show_fsview_latest(table => 't', path_regex => 'dt=x', partition_path => 'dt=y')")


def test_deleting_several_savepoints(two_days: Path) -> None:
    table = pudi.Table(two_days)
    made = [table.savepoint(entry.instant).instant for entry in table.history() if entry.action == "commit"]
    with pytest.raises(pudi.NotFoundError):
        pudi.sql(f"CALL delete_savepoint(table => 't', instant_time => '{made[0]},20200101000000000')")
    assert len(table.savepoints()) == 2
    pudi.sql(f"CALL delete_savepoint(table => 't', instant_time => '{made[0]},{made[1]}')")
    assert table.savepoints() == []


def test_comments_of_savepoints(two_days: Path) -> None:
    pudi.sql("CALL create_savepoint(table => 't', comment => 'why')")
    assert [each.comment for each in pudi.Table(two_days).savepoints()] == ["why"]


@pytest.mark.usefixtures("two_days")
def test_help_without_parentheses() -> None:
    assert pudi.sql("CALL help") == pudi.sql("CALL help()")


def test_compactions_and_clusterings_are_run_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(
        "CREATE TABLE t (id INT, dt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id') "
        f"PARTITIONED BY (dt) LOCATION '{tmp_path}/t'"
    )
    pudi.sql("SET hoodie.compact.inline.max.delta.commits = 1")
    pudi.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    pudi.sql("SET hoodie.spark.sql.insert.into.operation = upsert")
    pudi.sql("INSERT INTO t VALUES (1, 'x')")
    pudi.sql("CALL run_clustering(table => 't', op => 'schedule', selected_partitions => 'dt=y')")
    planned = pudi.sql("SCHEDULE COMPACTION ON t")["timestamp"].to_pylist()
    assert pudi.sql("RUN COMPACTION ON t")["timestamp"].to_pylist() == planned
    assert pudi.sql("CALL show_clustering(table => 't')")["state"].to_pylist() == ["REQUESTED"]
    assert pudi.sql(f"RUN COMPACTION ON '{tmp_path}/t'").num_rows == 0
