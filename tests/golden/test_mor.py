"""Merge-on-read tables of Hudi's own: every query on every table, on both engines, as Hudi answered it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.engines import Engine
from support.golden import Golden, queries, tables
from support.rows import Row, assert_same

OTHERWISE = {
    ("mor_v6_savepoint_restore", "as_of:20261121092112127"): "incremental_after:000",
    ("mor_v6_savepoint_restore", "snapshot"): "incremental_after:000",
}
"""Where Hudi contradicts itself, and the query whose answer is the right one.

The restore of this table upgraded it from version 6, left the log files of the commits that it took back, and its
metadata table lists a base file that it deleted. So Hudi's snapshot shows the rows of a commit that was taken back
(20261121092106227), and misses those of the last one (20261121092112127), whose log file it takes for one over the
deleted base file. Its incremental query from the start reads the files of completed commits, and has them right.
"""

ANSWERED = {("mor_v6_types_avrolog", "read_optimized"): {"20261121092452015"}}
"""Queries that Hudi failed on; the commits that its base files hold."""

FROM_SNAPSHOT = {
    ("mor_v8_partial_update", "incremental_after:20261121081822708"): {"20261121081823223", "20261121081828930"},
    ("mor_v9_partial_update", "incremental_after:20261121081852894"): {"20261121081853402", "20261121081901067"},
}
"""Incremental queries up to the newest commit that Hudi failed on: its snapshot's rows of these commits answer them."""


CASES = queries(tables("mor_"))


def test_the_corpus_is_whole() -> None:
    assert len(tables("mor_")) == 44
    assert len(CASES) == 2 * 458
    known = {(table.name, query) for table in tables("mor_") for query in table.queries()}
    assert {*OTHERWISE, *ANSWERED, *FROM_SNAPSHOT} <= known


@pytest.mark.parametrize(("engine", "table", "query"), CASES, indirect=["engine"])
def test_query(engine: Engine, golden_folder: Path, table: Golden, query: str) -> None:
    path = table.unpack(golden_folder)
    asked = (table.name, query)
    expected = table.expected()[OTHERWISE.get(asked, query)]
    if "Cleaner cleaned up" in str(expected.get("error")):
        with pytest.raises(pudi.NotFoundError, match="cleaner has removed"):
            _rows(engine, path, query)
    elif asked in ANSWERED:
        assert {row["_hoodie_commit_time"] for row in _rows(engine, path, query)} == ANSWERED[asked]
    elif asked in FROM_SNAPSHOT:
        right = [row for row in table.expected()["snapshot"]["rows"] if _commit(row) in FROM_SNAPSHOT[asked]]
        assert_same(_rows(engine, path, query), right, about=f"{table.name} {query}")
    else:
        assert_same(_rows(engine, path, query), expected["rows"], about=f"{table.name} {query}")


def _commit(row: Row) -> str:
    return str(row["_hoodie_commit_time"])


def _rows(engine: Engine, path: Path, query: str) -> list[Row]:
    kind, _, instant = query.partition(":")
    table = pudi.Table(str(path))
    if kind == "incremental_after":
        return engine.read(table.changes(since=None if instant == "000" else instant))
    return engine.read(table.scan(as_of=instant or None, read_optimized=kind == "read_optimized"))
