"""Table properties of CREATE TABLE that say what the table is, or how a name of it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.statement import local

Sql = Callable[[str], Any]


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def sql(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sql:
    """Statements on each engine: rows as tuples."""
    if request.param == "local":
        pytest.importorskip("duckdb")
        monkeypatch.setattr(local, "_SETTINGS", local._Settings())
        return lambda text: [tuple(row.values()) for row in pudi.sql(text).to_pylist()]
    spark = request.getfixturevalue("spark")
    return lambda text: [tuple(row) for row in pudi.spark.sql(spark, text).collect()]


def test_a_second_name_shows_the_read_optimized_view(sql: Sql, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sql(
        "CREATE TABLE viewed (id INT, v STRING, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', "
        f"orderingFields = 'ts') LOCATION '{path}'"
    )
    sql("INSERT INTO viewed VALUES (1, 'a', 1), (2, 'b', 1)")
    sql("UPDATE viewed SET v = 'c', ts = 2 WHERE id = 1")
    sql(f"CREATE TABLE viewed_ro USING hudi OPTIONS (hoodie.query.as.ro.table = 'true') LOCATION '{path}'")
    try:
        assert sql("SELECT id, v FROM viewed_ro ORDER BY id") == [(1, "a"), (2, "b")]
        assert sql("SELECT r.v AS old, s.v FROM viewed_ro r JOIN viewed s ON r.id = s.id AND s.id = 1") == [("a", "c")]
        merge = (
            "MERGE INTO viewed_ro t USING (SELECT 1 AS id, 'x' AS v, 9 AS ts) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *"
        )
        for text in ("UPDATE viewed_ro SET v = 'd' WHERE v = 'a'", "DELETE FROM viewed_ro WHERE v = 'a'", merge):
            with pytest.raises(pudi.NotSupportedError, match="viewed_ro shows the read-optimized view"):
                sql(text)
        sql("INSERT INTO viewed_ro VALUES (3, 'n', 1)")
        assert sql("SELECT id, v FROM viewed ORDER BY id") == [(1, "c"), (2, "b"), (3, "n")]
    finally:
        sql("DROP TABLE viewed_ro")
        sql("DROP TABLE viewed")


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ("type = 'cow', hoodie.table.type = 'MERGE_ON_READ'", "type and hoodie.table.type=MERGE_ON_READ contradict"),
        ("hoodie.query.as.ro.table = 'true'", "there is no table"),
        ("hoodie.datasource.write.partitionpath.field = 'v:simple'", "contradict"),
        ("hoodie.table.type = 'BOTH'", "is not one of COPY_ON_WRITE, MERGE_ON_READ"),
    ],
)
def test_what_contradicts_is_refused(
    properties: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    with pytest.raises(pudi.InvalidArgumentError, match=why):
        pudi.sql(
            f"CREATE TABLE t (id INT, v STRING, p STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', {properties}) "
            f"PARTITIONED BY (p) LOCATION '{tmp_path}/t'"
        )
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_marker_of_unavailable_values(tmp_path: Path, kind: str) -> None:
    options = {
        "hoodie.write.partial.update.unavailable.value": "none",
        "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
    }
    table = pudi.create(
        str(tmp_path / "t"), {"id": "int", "v": "string", "w": "string"}, record_key=["id"], table_type=kind,
        options=options,
    )  # fmt: skip
    table.insert(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"], "w": ["b"]}))
    table.upsert(pa.table({"id": pa.array([1], pa.int32()), "v": ["none"], "w": ["c"]}))
    assert table.scan(columns=["v", "w"]).to_arrow().to_pylist() == [{"v": "a", "w": "c"}]
    with pytest.raises(pudi.InvalidArgumentError, match="contradicts the table, which has none"):
        pudi.Table(str(tmp_path / "t")).upsert(
            pa.table({"id": pa.array([1], pa.int32()), "v": ["a"], "w": ["b"]}),
            options={"hoodie.write.partial.update.unavailable.value": "null"},
        )
