"""Merge-on-read tables of Hudi's own: every query on every table, on both engines, as Hudi answered it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.engines import Engine
from support.golden import Golden, tables
from support.rows import Row, assert_same

NOT_YET = "cdc_after"
"""The kind of query that has no counterpart yet."""

REFUSED = {
    "mor_v8_partial_update": "log blocks with some columns only",
    "mor_v9_partial_update": "log blocks with some columns only",
    "mor_v9_payload_nondefaults": "IGNORE_DEFAULTS",
    "mor_v9_payload_partial": "IGNORE_DEFAULTS",
    "mor_v9_payload_postgres": "FILL_UNAVAILABLE",
}
"""Tables of which this release reads base files alone, and what it doesn't know yet."""

WITHOUT_ANY = {
    ("mor_v8_partial_update", "as_of:20261121081814427"),
    ("mor_v8_partial_update", "incremental_after:20261121081826424"),
    ("mor_v8_partial_update", "incremental_after:20261121081830936"),
    ("mor_v9_partial_update", "as_of:20261121081843728"),
    ("mor_v9_partial_update", "incremental_after:20261121081857418"),
    ("mor_v9_partial_update", "incremental_after:20261121081903323"),
}
"""Queries of those tables that see no such log file."""

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

CASES = [
    pytest.param(table, query, id=f"{table.name}-{query}")
    for table in tables("mor_")
    for query in table.queries()
    if not query.startswith(NOT_YET)
]


def test_the_corpus_is_whole() -> None:
    assert len(tables("mor_")) == 44
    assert len(CASES) == 458
    known = {(table.name, query) for table in tables("mor_") for query in table.queries()}
    assert {*WITHOUT_ANY, *OTHERWISE, *ANSWERED} <= known
    assert REFUSED.keys() <= {name for name, _ in known}


@pytest.mark.parametrize(("table", "query"), CASES)
def test_query(engine: Engine, golden_folder: Path, table: Golden, query: str) -> None:
    path = table.unpack(golden_folder)
    asked = (table.name, query)
    expected = table.expected()[OTHERWISE.get(asked, query)]
    if table.name in REFUSED and query != "read_optimized" and asked not in WITHOUT_ANY:
        # a Python worker's error is Spark's own where the frame is collected outside pudi
        with pytest.raises(Exception, match=r"NotSupportedError|partial updates|merged by"):
            _rows(engine, path, query)
    elif "Cleaner cleaned up" in str(expected.get("error")):
        with pytest.raises(pudi.NotFoundError, match="cleaner has removed"):
            _rows(engine, path, query)
    elif asked in ANSWERED:
        assert {row["_hoodie_commit_time"] for row in _rows(engine, path, query)} == ANSWERED[asked]
    else:
        assert_same(_rows(engine, path, query), expected["rows"], about=f"{table.name} {query}")


def _rows(engine: Engine, path: Path, query: str) -> list[Row]:
    kind, _, instant = query.partition(":")
    table = pudi.Table(str(path))
    if kind == "incremental_after":
        return engine.read(table.changes(since=None if instant == "000" else instant))
    return engine.read(table.scan(as_of=instant or None, read_optimized=kind == "read_optimized"))
