"""After a column is renamed, or dropped and added again, all verbs read older files by the columns of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from support.disk import tree
from support.engines import Engine, per_engine
from support.metadata import records as metadata_records

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int32()), ("b", pa.string()), ("part", pa.string())])
Rows = dict[str, dict[str, Any]]
RECORD_INDEX = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}


@dataclass(frozen=True)
class Case:
    """A verb on a table whose column changed.

    Attributes:
        verb: the verb, a key of `VERBS`.
        change: `renamed`: `b` is called `c`; `added`: `b` was dropped and added again, so that all are null.
        kind: `cow` or `mor`; `logs` is a merge-on-read table whose records have versions in log files.
        version: version of the table.
        indexes: `none`: no metadata table; `files`: one that lists files; `all`: indexes on records and the column.
    """

    verb: str
    change: str
    kind: str
    version: str
    indexes: str

    def __str__(self) -> str:
        return "-".join((self.verb, self.change, self.kind, self.version, self.indexes))

    @property
    def column(self) -> str:
        return "c" if self.change == "renamed" else "b"

    @property
    def rows(self) -> Rows:
        return {
            key: {"id": key, "v": n, self.column: f"B{n}" if self.change == "renamed" else None, "part": part}
            for key, n, part in (("x", 1, "p"), ("y", 2, "p"), ("z", 3, "q"))
        }

    def make(self, path: Path) -> pudi.Table:
        options = {"hoodie.write.table.version": self.version, "hoodie.metadata.enable": str(self.indexes != "none")}
        if self.indexes == "all":
            options |= {
                "hoodie.metadata.index.column.stats.enable": "true",
                "hoodie.metadata.record.index.enable": "true",
                "hoodie.index.type": "RECORD_INDEX",
            }
        kind = "cow" if self.kind == "cow" else "mor"
        made = pudi.create(path, SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options)
        rows = [{"id": key, "v": n, "b": f"B{n}", "part": part} for key, n, part in
                (("x", 1, "p"), ("y", 2, "p"), ("z", 3, "q"))]  # fmt: skip
        made.insert(pa.Table.from_pylist([row | {"b": "old"} for row in rows] if self.kind == "logs" else rows, SCHEMA))
        if self.kind == "logs":
            made.upsert(pa.Table.from_pylist(rows, SCHEMA))
        if self.change == "renamed":
            made.rename_column("b", "c")
        else:
            made.drop_column("b")
            made.add_column("b", pa.string())
        if self.indexes == "all" and self.version != "6":
            made.create_index("secondary_index", self.column, "by_c")
        return pudi.Table(path)


def _set(rows: Rows, wanted: Callable[[dict[str, Any]], bool], **values: Callable[[dict[str, Any]], Any]) -> Rows:
    return {
        key: row | {name: value(row) for name, value in values.items()} if wanted(row) else row
        for key, row in rows.items()
    }


def _without(rows: Rows, wanted: Callable[[dict[str, Any]], bool]) -> Rows:
    return {key: row for key, row in rows.items() if not wanted(row)}


def _delete(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    table.delete(where=f"{case.column} = 'B1'", **on)
    return _without(case.rows, lambda row: row[case.column] == "B1")


def _delete_keys(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    table.delete(engine.frame(pa.table({"id": ["x"], "part": ["p"]})))
    return _without(case.rows, lambda row: row["id"] == "x")


def _update(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    table.update({"v": "v + 10"}, where=f"{case.column} = 'B1'", **on)
    return _set(case.rows, lambda row: row[case.column] == "B1", v=lambda row: row["v"] + 10)


def _update_column(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    column = case.column
    table.update({column: f"lower({column})", "v": "v + 1"}, where="id = 'x'", **on)
    changed = {column: lambda row: row[column] and row[column].lower(), "v": lambda row: row["v"] + 1}
    return _set(case.rows, lambda row: row["id"] == "x", **changed)


def _upsert(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    rows = {"x": case.rows["x"] | {"v": 9, case.column: "new"}, "n": case.rows["x"] | {"id": "n"}}
    table.upsert(engine.frame(pa.Table.from_pylist(list(rows.values()), table.schema)))
    return case.rows | rows


def _merge(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    source = engine.frame(pa.table({"id": ["x"], "part": ["p"]}))
    table.merge(source).when_matched_update({"v": "target.v + 10"}).execute()
    return _set(case.rows, lambda row: row["id"] == "x", v=lambda row: row["v"] + 10)


def _merge_by_column(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    source = engine.frame(pa.table({"s": ["B1", "B3"]}))
    merge = table.merge(source, on=f"target.{case.column} = source.s")
    merge.when_matched_update({"v": "target.v + 10"}).execute()
    return _set(case.rows, lambda row: row[case.column] in {"B1", "B3"}, v=lambda row: row["v"] + 10)


def _merge_by_source(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    source = engine.frame(pa.table({"id": ["x"], "part": ["p"]}))
    merge = table.merge(source).when_not_matched_by_source_update({"v": "target.v + 10"})
    merge.execute()
    return _set(case.rows, lambda row: row["id"] != "x", v=lambda row: row["v"] + 10)


def _forget(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    assert table.forget(f"{case.column} = 'B1'", **on).ok
    return _without(case.rows, lambda row: row[case.column] == "B1")


def _cluster(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    assert table.cluster(order_by=case.column, **on) is not None
    return case.rows


def _compact(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    row = case.rows["x"] | {case.column: "new"}
    table.upsert(engine.frame(pa.Table.from_pylist([row], table.schema)))
    if case.kind != "cow":
        assert table.compact(**on) is not None
    return case.rows | {"x": row}


def _overwrite(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    row = case.rows["x"] | {case.column: "new"}
    table.insert_overwrite(engine.frame(pa.Table.from_pylist([row], table.schema)))
    return {"x": row, "z": case.rows["z"]}


def _export(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    out = Path(table.path).parent / "out"
    table.scan(meta_fields=False).to_files(out)
    assert {row["id"]: row for row in pq.read_table(out).to_pylist()} == case.rows
    return case.rows


def _changes(case: Case, table: pudi.Table, engine: Engine, on: dict[str, Any]) -> Rows:
    row = case.rows["x"] | {case.column: "new"}
    table.upsert(engine.frame(pa.Table.from_pylist([row], table.schema)))
    rows = case.rows | {"x": row}
    found = engine.read(table.changes(columns=list(row)))
    assert {each["id"]: each for each in found} == rows
    feed = table.changes(format="cdc", images="struct", meta_fields=False).to_arrow().to_pylist()
    inserts = {each["after"]["id"]: each["after"] for each in feed if each["op"] == "i"}
    assert {key: each[case.column] for key, each in inserts.items()} == {
        key: "old" if case.kind == "logs" and case.change == "renamed" else each[case.column]
        for key, each in case.rows.items()
    }
    assert [(feed[-1]["before"], feed[-1]["after"])] == [(case.rows["x"], row)]
    return rows


VERBS: dict[str, Callable[[Case, pudi.Table, Engine, dict[str, Any]], Rows]] = {
    "delete": _delete,
    "delete keys": _delete_keys,
    "update": _update,
    "update column": _update_column,
    "upsert": _upsert,
    "merge": _merge,
    "merge by column": _merge_by_column,
    "merge by source": _merge_by_source,
    "forget": _forget,
    "cluster": _cluster,
    "compact": _compact,
    "overwrite": _overwrite,
    "export": _export,
    "changes": _changes,
}
LOCAL = [
    Case(*values)
    for values in product(VERBS, ("renamed", "added"), ("cow", "mor", "logs"), "689", ("none", "files", "all"))
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("engine", "case"), per_engine(LOCAL, LOCAL[::31]), indirect=["engine"], ids=str)
def test_verbs_read_older_files_by_the_columns_of_the_table(engine: Engine, case: Case, tmp_path: Path) -> None:
    table = case.make(tmp_path / "t")
    on = {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]
    expected = VERBS[case.verb](case, table, engine, on)
    after = pudi.Table(tmp_path / "t")
    assert {row["id"]: row for row in engine.read(after.scan(meta_fields=False))} == expected
    for value in ("B1", "old", "new"):
        found = {row["id"] for row in engine.read(after.scan(where=f"{case.column} = '{value}'"))}
        assert found == {key for key, row in expected.items() if row[case.column] == value}, value
    assert after.check().ok, after.check()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_no_statistics_state_values_of_a_column_that_is_gone(kind: str, tmp_path: Path) -> None:
    """Hudi skips files by them, and `forget` is to leave no value behind."""
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options)
    made.insert(pa.Table.from_pylist([{"id": "x", "v": 1, "b": "secret", "part": "p"}], SCHEMA))
    assert _stated(tmp_path / "t", "partition_stats") >= {"secret"}
    made.rename_column("b", "c")
    assert "secret" not in _stated(tmp_path / "t", "partition_stats")
    made.upsert(pa.Table.from_pylist([{"id": "x", "v": 1, "c": "open", "part": "p"}], made.schema))
    made.add_column("b", pa.string())
    for partition in ("partition_stats", "column_stats"):
        assert "secret" not in _stated(tmp_path / "t", partition)
    made.upsert(pa.Table.from_pylist([{"id": "x", "v": 1, "c": "C", "part": "p", "b": "B"}], made.schema))
    assert made.check().ok
    assert made.scan(where="b = 'B'", meta_fields=False).to_arrow().num_rows == 1


def _stated(path: Path, partition: str) -> set[Any]:
    """Values that the metadata table states as minima."""
    found = (each["ColumnStatsMetadata"] for each in metadata_records(path, partition).values())
    least = [each["minValue"] for each in found if each is not None and not each["isDeleted"]]
    return {value for each in least if isinstance(each, dict) for value in each.values()}


CHANGES: dict[str, Callable[[pudi.Table], object]] = {
    "renamed": lambda table: table.rename_column("b", "c"),
    "dropped": lambda table: table.drop_column("b"),
    "retyped": lambda table: table.change_type("b", pa.date32()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_columns_of_secondary_indexes_stay_until_the_index_is_dropped(change: str, tmp_path: Path) -> None:
    """Else the next write would miss the column, and all later ones."""
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", options=RECORD_INDEX)
    made.insert(pa.table({"id": ["x"], "v": pa.array([1], pa.int32()), "b": ["2020-01-01"], "part": ["p"]}))
    made.create_index("secondary_index", "b", "by_b")
    before = tree(tmp_path / "t")
    with pytest.raises(pudi.SchemaError, match=r"secondary_index_by_b is of column 'b'.*drop the index"):
        CHANGES[change](made)
    assert tree(tmp_path / "t") == before
    made.rename_column("v", "w")
    made.drop_index("secondary_index_by_b")
    CHANGES[change](made)
    made.upsert(made.scan(meta_fields=False).to_arrow())
    assert made.check().ok


def test_writes_name_an_index_whose_column_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi renames columns that have one."""
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", options=RECORD_INDEX)
    row = {"id": "x", "v": 1, "b": "B1", "part": "p"}
    made.insert(pa.Table.from_pylist([row], SCHEMA))
    made.create_index("secondary_index", "b", "by_b")
    monkeypatch.setattr("pudi.writes.alter._check_indexed", lambda *arguments: None)
    made.rename_column("b", "c")
    changed = pa.Table.from_pylist([{"id": "x", "v": 2, "c": "B1", "part": "p"}], made.schema)
    with pytest.raises(pudi.SchemaError, match=r"secondary_index_by_b is of column 'b', which the table no longer has"):
        made.upsert(changed)
    made.drop_index("secondary_index_by_b")
    made.upsert(changed)
    assert made.scan(meta_fields=False).to_arrow().to_pylist() == changed.to_pylist()
