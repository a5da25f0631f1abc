"""MERGE INTO computes any expression of its engine over both sides, in values, conditions and ON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.statement import local

Run = Callable[[str], list[tuple[Any, ...]]]

SOURCE = (
    "(SELECT 1 AS id, 'Ann' AS nm, 11.0D AS price, 110L AS ts, 'x' AS dt "
    "UNION ALL SELECT 2, 'bOb', 22.0, 110, 'y' UNION ALL SELECT 9, 'zed', 90.0, 110, 'z')"
)
ANN, BOB, CY = (1, "ann", 10.0, 100, "x"), (2, "bob", 20.0, 100, "y"), (3, "cy", 30.0, 100, "x")
MERGES = {
    "ON lower(t.name) = lower(s.nm) WHEN MATCHED THEN UPDATE SET name = concat(t.name, s.nm), ts = s.ts": [
        (1, "annAnn", 10.0, 110, "x"), (2, "bobbOb", 20.0, 110, "y"), CY
    ],
    "ON t.id = s.id AND concat(t.name, s.nm) LIKE 'a%' WHEN MATCHED THEN UPDATE SET price = s.price, ts = s.ts "
    "WHEN NOT MATCHED AND s.id > 5 THEN INSERT (id, name, price, ts, dt) VALUES (s.id, s.nm, s.price, s.ts, s.dt)": [
        (1, "ann", 11.0, 110, "x"), BOB, CY, (9, "zed", 90.0, 110, "z")
    ],
    "ON upper(t.name) = upper(s.nm) WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = concat(upper(t.name), '!')": [(3, "CY!", 30.0, 100, "x")],
    "ON t.id = s.id WHEN MATCHED AND nm = 'Ann' THEN UPDATE SET name = nm || t.name, ts = s.ts "
    "WHEN NOT MATCHED BY SOURCE AND length(name) = 2 THEN DELETE": [(1, "Annann", 10.0, 110, "x"), BOB],
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = (SELECT max(price) FROM {n}) + s.price, ts = s.ts": [
        (1, "ann", 41.0, 110, "x"), (2, "bob", 52.0, 110, "y"), CY
    ],
    "ON t.id = s.id WHEN MATCHED AND t.price IN (SELECT price FROM {n} WHERE id = 1) THEN UPDATE SET name = 'in', "
    "ts = s.ts": [(1, "in", 10.0, 110, "x"), BOB, CY],
    "ON t.id = s.id WHEN MATCHED AND EXISTS (SELECT 1 FROM {n} o WHERE o.id = t.id + 1 AND o.price > s.price) "
    "AND t.id = 2 THEN UPDATE SET name = 'ex', ts = s.ts": [ANN, (2, "ex", 20.0, 110, "y"), CY],
    "ON t.id = s.id WHEN MATCHED AND t.price > 15 THEN UPDATE SET name = CAST(CAST(100 / (t.price - 10) AS INT) AS "
    "STRING), ts = s.ts": [ANN, (2, "10", 20.0, 110, "y"), CY],
    "ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name, ts, dt) VALUES "
    "(s.id, (SELECT min(name) FROM {n}), greatest(s.ts, 500L), s.dt)": [CY, (9, "ann", None, 500, "z")],
    "ON t.id = s.id AND t.price = (SELECT max(price) FROM {n} o WHERE o.dt = s.dt) WHEN MATCHED THEN DELETE": [ANN, CY],
    "ON T.ID = S.ID WHEN MATCHED AND S.NM = 'Ann' THEN UPDATE SET NAME = Concat(T.Name, S.Nm), TS = S.TS": [
        (1, "annAnn", 10.0, 110, "x"), BOB, CY
    ],
    "ON t.id = s.id WHEN MATCHED AND t.price + s.price > 1000 THEN DELETE WHEN MATCHED AND s.nm = 'Ann' THEN UPDATE "
    "SET price = least(t.price, s.price) * 2, ts = s.ts + t.ts WHEN MATCHED THEN UPDATE SET name = repeat(s.nm, t.id), "
    "ts = s.ts": [(1, "ann", 20.0, 210, "x"), (2, "bObbOb", 20.0, 110, "y"), CY],
    "ON t.id = s.id WHEN MATCHED AND t.price < 15 THEN UPDATE SET price = sqrt(t.price + 6), ts = s.ts WHEN MATCHED "
    "THEN UPDATE SET name = lower(s.nm), price = sqrt(t.price + 5), ts = s.ts": [
        (1, "ann", 4.0, 110, "x"), (2, "bob", 5.0, 110, "y"), CY
    ],
}  # fmt: skip
TABLES = [("cow", 6, True), ("cow", 9, False), ("mor", 6, False), ("mor", 8, True), ("mor", 9, True)]


def _on_this_machine(text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pudi.sql(text).to_pylist()]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    return _on_this_machine


def _create(run: Run, path: Path, kind: str, version: int, *, ordered: bool, name: str = "goods") -> str:
    ordering = ", preCombineField = 'ts'" if ordered else ""
    run(
        f"CREATE TABLE {name} (id INT, name STRING, price DOUBLE, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id', 'hoodie.write.table.version' = '{version}'{ordering}) "
        f"LOCATION '{path}'"
    )
    run(f"INSERT INTO {name} VALUES {ANN}, {BOB}, {CY}")
    return name


def _rows(run: Run, name: str) -> list[tuple[Any, ...]]:
    return run(f"SELECT id, name, price, ts, dt FROM {name} ORDER BY id")


@pytest.mark.parametrize("number", range(len(MERGES)))
def test_on_one_machine(number: int, run: Run, tmp_path: Path) -> None:
    merge = list(MERGES)[number]
    for kind, version, ordered in (TABLES[number % 5], TABLES[(number + 2) % 5]):
        name = _create(run, tmp_path / f"{kind}{version}", kind, version, ordered=ordered, name=f"{kind}{version}")
        run(f"MERGE INTO {name} t USING {SOURCE} s " + merge.replace("{n}", name))
        assert _rows(run, name) == MERGES[merge], (kind, version)


@pytest.mark.spark
@pytest.mark.parametrize("number", [1, 2, 6, 8, 9, 11])
def test_on_spark(number: int, tmp_path: Path, spark: Any) -> None:
    def run(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    merge, (kind, version, ordered) = list(MERGES)[number], TABLES[number % 5]
    name = _create(run, tmp_path / "t", kind, version, ordered=ordered, name=f"computed_{number}")
    run(f"MERGE INTO {name} t USING {SOURCE} s " + merge.replace("{n}", name))
    assert _rows(run, name) == MERGES[merge]


WRONG = {
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = t.nope || s.nm": "near 't.nope .*no column t.nope; the table",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = upper(s.nope)": "near 'upper.*no column s.nope; the source",
    "ON t.id = s.id WHEN MATCHED AND price > 1 THEN DELETE": "near 'price > 1.*column of both sides",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = concat(price, s.nm)": "near 'concat.*price",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts, name = nothing(t.name, s.nm)": "near 'nothing.*nothing",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = concat(t.name, s.nm)": "near 'concat.*column ts",
    "ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name, dt) VALUES (s.id, upper(t.name), s.dt)": "upper.*t.name",
    "ON nothing(t.id) = s.id WHEN MATCHED THEN DELETE": "near 'nothing.*nothing",
    "ON t.id = s.id WHEN MATCHED AND rand() > t.id THEN DELETE": "near 'rand.*another value each time",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = length(concat(t.name, s.nm))": "another record key",
    "ON length(t.name) = length(s.nm) WHEN MATCHED THEN UPDATE SET name = s.nm || t.name": "several source rows",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.nm, ts = s.ts, t.NAME = 'x'": "column name is set twice",
    "ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, dt, id) VALUES (s.id, s.dt, 5)": "column id is set twice",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": r"UPDATE SET \*: the source has no column name",
    "ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED AND s.id = 1 THEN UPDATE SET ts = 1": "takes no row",
    "ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN DELETE": "clauses come in the order",
    "ON t.id = s.id WHEN MATCHED AND t.ts > 5 THEN DELETE WHEN MATCHED THEN DELETE": "join the conditions by OR",
}  # fmt: skip


@pytest.mark.parametrize("merge", WRONG)
def test_what_is_wrong_is_said_and_nothing_is_written(merge: str, run: Run, tmp_path: Path) -> None:
    name = _create(run, tmp_path / "t", "mor", 9, ordered=False)
    wrong = (pudi.InvalidArgumentError, pudi.NotSupportedError)
    with pytest.raises(wrong, match=f"SQL, line 1, column .*{WRONG[merge]}"):
        run(f"MERGE INTO {name} t USING {SOURCE} s {merge}")
    assert len(pudi.Table(tmp_path / "t").history()) == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_newest_of_several_source_rows_is_computed(kind: str, run: Run, tmp_path: Path) -> None:
    name = _create(run, tmp_path / "t", kind, 9, ordered=True)
    rows = [(1, "b", 120), (1, "c", 130), (1, "a", 110), (3, "late", 50)]
    source = "(SELECT 1 AS id, 'a0' AS name, 90L AS ts" + "".join(
        f" UNION ALL SELECT {k}, '{n}', {t}" for k, n, t in rows
    )
    run(f"MERGE INTO {name} t USING {source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "
        "name = concat(t.name, s.name), ts = s.ts")  # fmt: skip
    assert _rows(run, name) == [(1, "annc", 10.0, 130, "x"), BOB, CY]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_keys_that_are_there_twice_and_nulls(kind: str, run: Run, tmp_path: Path) -> None:
    """All rows of a key are changed; a NULL matches nothing."""
    name = _create(run, tmp_path / "t", kind, 9, ordered=False)
    run(f"INSERT INTO {name} VALUES (1, 'other', 50.0, 100, 'y'), (4, NULL, 40.0, 100, 'y')")
    source = "(SELECT 1 AS id, 'new' AS nm UNION ALL SELECT CAST(NULL AS INT), 'none' UNION ALL SELECT 4, NULL)"
    on = "ON t.id = s.id AND (t.name <> s.nm OR coalesce(t.name, s.nm) = 'none')"
    run(f"MERGE INTO {name} t USING {source} s {on} WHEN MATCHED THEN UPDATE SET name = concat(t.name, '+', s.nm)")
    assert sorted(_rows(run, name)[:2]) == [(1, "ann+new", 10.0, 100, "x"), (1, "other+new", 50.0, 100, "y")]
    assert _rows(run, name)[2:] == [BOB, CY, (4, None, 40.0, 100, "y")]


def test_names_of_columns_like_those_of_the_sides(run: Run, tmp_path: Path) -> None:
    run(f"CREATE TABLE goods (id INT, s STRING, t STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{tmp_path}/t'")  # fmt: skip
    run("INSERT INTO goods VALUES (1, 'a', 'b')")
    source = "(SELECT 1 AS id, 'c' AS source, 'd' AS target)"
    run(f"MERGE INTO goods t USING {source} s ON t.id = s.id WHEN MATCHED AND upper(t.s) = 'A' THEN UPDATE SET "
        "s = concat(t.t, s.target, source), t = concat(target, t.s)")  # fmt: skip
    assert run("SELECT id, s, t FROM goods") == [(1, "bdc", "da")]


def test_fields_of_structs_are_matched(run: Run, tmp_path: Path) -> None:
    run(f"CREATE TABLE goods (id INT, d STRUCT<w: INT, h: INT>) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{tmp_path}/t'")  # fmt: skip
    run("INSERT INTO goods SELECT 1, named_struct('w', 1, 'h', 2) UNION ALL SELECT 2, named_struct('w', 3, 'h', 4)")
    source = "(SELECT 7 AS id, named_struct('w', 4, 'h', 1) AS d)"
    run(f"MERGE INTO goods t USING {source} s ON t.d.w = s.d.h WHEN MATCHED THEN UPDATE SET "
        "d = named_struct('w', t.d.w + s.d.w, 'h', s.d.h)")  # fmt: skip
    assert run("SELECT id, d.w, d.h FROM goods ORDER BY id") == [(1, 5, 1), (2, 3, 4)]


PAIRS = {
    ("INT", "7"): (["7L", "CAST(7 AS SMALLINT)", "7.0D", "'7'", "CAST(7 AS DECIMAL(5,2))"], ["5000000007L", "7.5D"]),
    ("BIGINT", "7"): (["7", "'7'"], ["8"]),
    ("FLOAT", "0.1"): (["CAST(CAST(0.1 AS FLOAT) AS DOUBLE)"], ["0.1D"]),
    ("DECIMAL(10,2)", "7"): (["7", "CAST(7 AS DECIMAL(12,4))"], ["CAST(7.001 AS DECIMAL(12,4))"]),
    ("DATE", "DATE'2024-01-07'"): (["TIMESTAMP'2024-01-07 00:00:00'"], ["TIMESTAMP'2024-01-07 01:00:00'"]),
}  # fmt: skip


def _check_pairs(run: Run, path: Path, column: tuple[str, str], name: str) -> None:
    """A match of columns of different types is what the engine's SELECT shows."""
    same, others = PAIRS[column]
    run(f"CREATE TABLE {name} (id INT, k {column[0]}, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{path}'")  # fmt: skip
    run(f"INSERT INTO {name} SELECT 1, CAST({column[1]} AS {column[0]}), 'old' UNION ALL SELECT 2, NULL, 'null'")
    for number, value in enumerate(same + others):
        source = f"(SELECT 5 AS id, {value} AS c UNION ALL SELECT 6, NULL)"
        run(f"MERGE INTO {name} t USING {source} s ON t.k = s.c WHEN MATCHED THEN UPDATE SET v = '{number}'")
        assert run(f"SELECT v FROM {name} ORDER BY id")[0] == (str(min(number, len(same) - 1)),), value


@pytest.mark.parametrize("column", PAIRS)
def test_columns_of_different_types_match_as_in_a_query(column: tuple[str, str], run: Run, tmp_path: Path) -> None:
    _check_pairs(run, tmp_path / "t", column, "pairs")


@pytest.mark.spark
def test_columns_of_different_types_match_as_on_spark(tmp_path: Path, spark: Any) -> None:
    def run(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    _check_pairs(run, tmp_path / "t", ("INT", "7"), "pairs_of_types")


TWICE = (
    "(SELECT 1 AS id, 'one' AS name, 1.0D AS price, 120L AS ts, 'x' AS dt UNION ALL SELECT 1, 'two', 2.0D, 130L, 'x' "
    "UNION ALL SELECT 1, 'three', 3.0D, 115L, 'x' UNION ALL SELECT 9, 'p', 1.0D, 130L, 'y' UNION ALL SELECT 9, 'q', "
    "2.0D, 120L, 'y')"
)


def _check_last(run: Run, path: Path, kind: str, version: int, name: str) -> None:
    """Hudi takes the last of the rows: see the golden merges."""
    _create(run, path, kind, version, ordered=False, name=name)
    star = f"MERGE INTO {name} t USING {TWICE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(pudi.InvalidArgumentError, match=r"several source rows.*pudi\.merge\.several\.matches=last"):
        run(star)
    run("SET pudi.merge.several.matches = last")
    run(f"MERGE INTO {name} t USING {TWICE} s ON t.id = s.id AND t.price > s.price WHEN MATCHED AND s.price > 2.5 THEN "
        "UPDATE SET name = concat(t.name, '-', s.name)")  # fmt: skip
    assert _rows(run, name) == [(1, "ann-three", 10.0, 100, "x"), BOB, CY]
    run(f"{star} WHEN NOT MATCHED THEN INSERT *")
    assert _rows(run, name) == [(1, "three", 3.0, 115, "x"), BOB, CY, (9, "q", 2.0, 120, "y")]


@pytest.mark.parametrize(("kind", "version"), [("cow", 9), ("mor", 6), ("mor", 9)])
def test_the_last_of_several_source_rows(kind: str, version: int, run: Run, tmp_path: Path) -> None:
    _check_last(run, tmp_path / "t", kind, version, "goods")
    copies = TWICE.replace("SELECT 9,", "SELECT 8,")
    run(f"MERGE INTO goods t USING {copies} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert sorted(_rows(run, "goods")[3:5]) == [(8, "p", 1.0, 130, "y"), (8, "q", 2.0, 120, "y")]


@pytest.mark.spark
def test_the_last_of_several_source_rows_on_spark(tmp_path: Path, spark: Any) -> None:
    def run(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    try:
        _check_last(run, tmp_path / "t", "mor", 9, "last_of_several")
    finally:
        spark.conf.unset("pudi.merge.several.matches")
