"""Copy-on-write tables of versions 6 and 8 of Hudi's own: every query on every table, as Hudi answered it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.engines import Engine
from support.golden import Golden, queries, tables
from support.rows import assert_same

TABLES = [*tables("cow_v6_"), *tables("cow_v8_")]

CASES = queries(TABLES)


def test_the_corpus_is_whole() -> None:
    assert [table.name for table in TABLES] == [
        "cow_v6_archived",
        "cow_v6_basic",
        "cow_v6_clustered",
        "cow_v6_nonpart",
        "cow_v6_replace",
        "cow_v8_cdc_data_before_after",
    ]
    assert len(CASES) == 2 * 66


@pytest.mark.parametrize(("engine", "table", "query"), CASES, indirect=["engine"])
def test_query(engine: Engine, golden_folder: Path, table: Golden, query: str) -> None:
    kind, _, instant = query.partition(":")
    opened = pudi.Table(str(table.unpack(golden_folder)))
    expected = table.expected()[query]

    def ask() -> list[dict[str, object]]:
        if kind == "incremental_after":
            return engine.read(opened.changes(since=None if instant == "000" else instant))
        return engine.read(opened.scan(as_of=instant or None))

    if "Cleaner cleaned up" in str(expected.get("error")):
        with pytest.raises(pudi.NotFoundError, match="cleaner has removed"):
            ask()
    else:
        assert_same(ask(), expected["rows"], about=f"{table.name} {query}")


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_columns_are_hudis_in_order(engine: Engine, golden_folder: Path, table: Golden) -> None:
    scan = pudi.Table(str(table.unpack(golden_folder))).scan()
    assert engine.columns(scan) == [field["name"] for field in table.expected()["snapshot"]["schema"]["fields"]]
