"""Version 9 copy-on-write tables of Hudi's own: every query on every table, on both engines, as Hudi answered it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import pudi
from support.engines import Engine
from support.golden import FOLDER, Golden, tables
from support.rows import Row, assert_same

REFUSED = {
    ("cow_v9_orc", "snapshot"): "base files are ORC",
    ("cow_v9_orc", "as_of"): "base files are ORC",
    ("cow_v9_orc", "incremental_after"): "base files are ORC",
    ("cow_v9_schema_on_read", "snapshot"): "schema on read maps columns by id",
    ("cow_v9_nometa", "incremental_after"): "rows without meta fields don't say which commit wrote them",
}
"""What this release doesn't read, and why: table and kind of query."""

REFUSED_OR_RIGHT = {
    ("cow_v9_schema_on_read", "as_of"): "before the first change of schema it's a table as any other",
    ("cow_v9_schema_on_read", "incremental_after"): "changes without rows need no schema",
}
"""Queries of refused tables that may be answered, then as Hudi did."""

SHOWN_OTHERWISE: dict[tuple[str, str], Callable[[str], Any]] = {
    ("cow_v9_tskeygen", "ts"): int,  # text in Hudi, since it feeds a timestamp key generator; pudi shows what is stored
    ("cow_v9_urlencode", "city"): unquote,  # in incremental queries Hudi shows the folder's encoded name
}
"""Columns that Hudi's Spark reader shows in another form than they are stored in: from its form to the value."""

NOT_YET = "cdc_after"
"""The kind of query that has no counterpart yet."""

CASES = [
    pytest.param(table, query, id=f"{table.name}-{query}")
    for table in tables("cow_v9_")
    for query in table.queries()
    if not query.startswith(NOT_YET)
]


def test_the_corpus_is_whole() -> None:
    assert len(tables("cow_v9_")) == 23
    assert len(CASES) == 204
    catalogue = (FOLDER / "catalogue.md").read_text("utf-8")
    for archive in FOLDER.glob("*.zip"):
        assert f"`{archive.stem}`" in catalogue, f"{archive.name} is not in the catalogue"
        assert (FOLDER / "expected" / f"{archive.stem}.json").exists()
    names = {table.name for table in tables("cow_v9_")}
    assert {name for name, _ in (*REFUSED, *REFUSED_OR_RIGHT, *SHOWN_OTHERWISE)} <= names


@pytest.mark.parametrize(("table", "query"), CASES)
def test_query(engine: Engine, golden_folder: Path, table: Golden, query: str) -> None:
    kind, _, instant = query.partition(":")
    path = table.unpack(golden_folder)
    expected = table.expected()[query]
    if (table.name, kind) in REFUSED:
        with pytest.raises(pudi.NotSupportedError):
            _rows(engine, path, kind, instant)
    elif "Cleaner cleaned up" in str(expected.get("error")):
        with pytest.raises((pudi.NotFoundError, pudi.NotSupportedError)):
            _rows(engine, path, kind, instant)
    elif (table.name, kind) in REFUSED_OR_RIGHT:
        try:
            rows = _rows(engine, path, kind, instant)
        except pudi.NotSupportedError:
            return
        assert_same(rows, expected["rows"], about=f"{table.name} {query}")
    else:
        stored = [_as_stored(table.name, row) for row in expected["rows"]]
        assert_same(_rows(engine, path, kind, instant), stored, about=f"{table.name} {query}")


@pytest.mark.parametrize(
    "table", [t for t in tables("cow_v9_") if (t.name, "snapshot") not in REFUSED], ids=lambda t: t.name
)
def test_columns_are_hudis_in_order(engine: Engine, golden_folder: Path, table: Golden) -> None:
    scan = pudi.Table(str(table.unpack(golden_folder))).scan()
    assert engine.columns(scan) == [field["name"] for field in table.expected()["snapshot"]["schema"]["fields"]]
    assert scan.schema.names == engine.columns(scan)


def _rows(engine: Engine, path: Path, kind: str, instant: str) -> list[Row]:
    table = pudi.Table(str(path))
    if kind == "snapshot":
        return engine.read(table.scan())
    if kind == "as_of":
        return engine.read(table.scan(as_of=instant))
    assert kind == "incremental_after", f"unknown query {kind}"
    return engine.read(table.changes(since=None if instant == "000" else instant))


def _as_stored(table: str, row: Row) -> Row:
    def stored(name: str, value: Any) -> Any:
        convert = SHOWN_OTHERWISE.get((table, name))
        return value if convert is None or value is None else convert(value)

    return {name: stored(name, value) for name, value in row.items()}
