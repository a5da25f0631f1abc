"""Arguments that no read can take are errors that say so, before anything is read or written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

WEST = dt.timezone(dt.timedelta(hours=-5))
CASES: dict[str, Callable[[pudi.Table], Any]] = {
    "half": lambda table: table.scan(where="s = '\ud800'"),
    "delete": lambda table: table.delete(where="s = '\ud800'"),
    "update": lambda table: table.update({"s": "'\ud800'"}),
    "large limit": lambda table: table.scan(limit=1 << 70),
    "limit of a fraction": lambda table: table.scan(limit=1.5),  # type: ignore[arg-type]
    "head": lambda table: table.head(1 << 70),
    "history": lambda table: table.history(limit=1.5),  # type: ignore[arg-type]
    "columns": lambda table: table.scan([1]),  # type: ignore[list-item]
    "columns that are no list": lambda table: table.scan(1),  # type: ignore[arg-type]
    "columns of changes": lambda table: table.changes(columns=[1], format="cdc"),  # type: ignore[list-item]
    "late": lambda table: table.scan(as_of=dt.datetime.max.replace(tzinfo=WEST)),
    "changes": lambda table: table.changes(dt.datetime.max.replace(tzinfo=WEST)),
    "options that are no mapping": lambda table: table.upsert(table.head(1), options=["a"]),  # type: ignore[arg-type]
    "many": lambda table: table.scan(where=" AND ".join(f"id <> {number}" for number in range(3_000))),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused(case: str, tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", {"id": "long", "s": "string"}, record_key="id")
    table.insert(pa.table({"id": [1], "s": ["a"]}))
    with pytest.raises(pudi.InvalidArgumentError):
        CASES[case](table)
    assert table.scan(["id"]).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (" OR ".join(f"id = {number}" for number in range(2, 12_000)), [5]),
        ("id = 1 OR id = NULL OR id = 7", [1]),
        ("NOT (id = 7 OR id = NULL OR id = 8)", []),
        ("NOT (id = 7 OR id = 5 OR s = 'c')", [1]),
        ("id = 1 OR s = 'b' OR id = 9 OR s = 'd'", [1, 5]),
    ],
)
def test_equalities_are_one_set(where: str, ids: list[int], tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", {"id": "long", "s": "string"}, record_key="id")
    table.insert(pa.table({"id": [1, 5], "s": ["a", "b"]}))
    assert sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist()) == ids
