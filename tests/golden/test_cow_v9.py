"""Version 9 copy-on-write tables of Hudi's own: every query on every table, on both engines, as Hudi answered it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import pudi
from support.engines import Engine
from support.golden import FOLDER, Golden, queries, tables
from support.rows import Row, assert_same

REFUSED = {
    ("cow_v9_nometa", "incremental_after"): "rows without meta fields don't say which commit wrote them",
}
"""What this release doesn't read, and why: table and kind of query."""

SAME_ROWS = {"cow_v9_orc": "cow_v9_basic"}
"""Tables whose snapshots Hudi's Spark reader fails on, and the ones made by the same writes, whose rows it tells."""

SHOWN_OTHERWISE: dict[tuple[str, str], Callable[[str], Any]] = {
    ("cow_v9_tskeygen", "ts"): int,  # text in Hudi, since it feeds a timestamp key generator; pudi shows what is stored
    ("cow_v9_urlencode", "city"): unquote,  # in incremental queries Hudi shows the folder's encoded name
}
"""Columns that Hudi's Spark reader shows in another form than they are stored in: from its form to the value."""

CASES = queries(tables("cow_v9_"))


def test_the_corpus_is_whole() -> None:
    assert len(tables("cow_v9_")) == 23
    assert len(CASES) == 2 * 204
    catalogue = (FOLDER / "catalogue.md").read_text("utf-8")
    for archive in FOLDER.glob("*.zip"):
        assert f"`{archive.stem}`" in catalogue, f"{archive.name} is not in the catalogue"
        assert (FOLDER / "expected" / f"{archive.stem}.json").exists()
    names = {table.name for table in tables("cow_v9_")}
    assert {name for name, _ in (*REFUSED, *SHOWN_OTHERWISE)} <= names


@pytest.mark.parametrize(("engine", "table", "query"), CASES, indirect=["engine"])
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
    elif table.name in SAME_ROWS and "rows" not in expected:
        rows = [_data(row) for row in _rows(engine, path, kind, instant)]
        assert_same(rows, [_data(row) for row in _twin(table, kind, instant)], about=f"{table.name} {query}")
    else:
        stored = [_as_stored(table.name, row) for row in expected["rows"]]
        assert_same(_rows(engine, path, kind, instant), stored, about=f"{table.name} {query}")


@pytest.mark.parametrize(
    "table", [t for t in tables("cow_v9_") if (t.name, "snapshot") not in REFUSED], ids=lambda t: t.name
)
def test_columns_are_hudis_in_order(engine: Engine, golden_folder: Path, table: Golden) -> None:
    scan = pudi.Table(str(table.unpack(golden_folder))).scan()
    query = "incremental_after:000" if table.name in SAME_ROWS else "snapshot"
    assert engine.columns(scan) == [field["name"] for field in table.expected()[query]["schema"]["fields"]]
    assert scan.schema.names == engine.columns(scan)


def _rows(engine: Engine, path: Path, kind: str, instant: str) -> list[Row]:
    table = pudi.Table(str(path))
    if kind == "snapshot":
        return engine.read(table.scan())
    if kind == "as_of":
        return engine.read(table.scan(as_of=instant))
    assert kind == "incremental_after", f"unknown query {kind}"
    return engine.read(table.changes(since=None if instant == "000" else instant))


def _twin(table: Golden, kind: str, instant: str) -> list[Row]:
    """What Hudi answered for the table that the same writes made, at the write of the same number."""
    twin = Golden(SAME_ROWS[table.name])
    requested = [times[0] for times in twin.expected()["instants"]]
    query = kind
    if kind == "as_of":
        query = f"as_of:{requested[[times[0] for times in table.expected()['instants']].index(instant)]}"
    rows: list[Row] = twin.expected()[query]["rows"]
    return rows


def _data(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("_hoodie_")}


def _as_stored(table: str, row: Row) -> Row:
    def stored(name: str, value: Any) -> Any:
        convert = SHOWN_OTHERWISE.get((table, name))
        return value if convert is None or value is None else convert(value)

    return {name: stored(name, value) for name, value in row.items()}
