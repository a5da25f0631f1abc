"""What newcomers get wrong first, and what they are told."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi


@pytest.fixture
def trips(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", {"id": "long", "city": "string", "fare": "double"}, record_key="id")
    made.insert(pa.table({"id": [1], "city": ["rome"], "fare": [9.5]}))
    return made


def test_a_text_without_quotes_of_its_own(trips: pudi.Table) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"""no column 'nyc'.*the text nyc is written "'nyc'\""""):
        trips.update({"city": "nyc"})
    with pytest.raises(pudi.InvalidArgumentError, match=r"the nearest is 'fare' \["):
        trips.update({"fare": "fair"})


MISTAKES: dict[str, tuple[Callable[[pudi.Table], Any], str]] = {
    "a key that is null": (
        lambda t: t.upsert(pa.table({"id": pa.array([None], pa.int64()), "city": ["x"], "fare": [1.0]})),
        r"record key \(id\) is null or empty in 1 of 1 rows \[table .*trips\]",
    ),
    "no key at all": (
        lambda t: t.upsert(pa.table({"city": ["x"], "fare": [1.0]})),
        "columns missing from the data: id; rename or add them; each record needs its record key",
    ),
    "a delete without keys": (
        lambda t: t.delete(pa.table({"city": ["x"]})),
        r"missing from the data: id; a delete needs the record key .* write delete\(where=…\)",
    ),
    "a merge of a source without keys": (
        lambda t: t.merge(pa.table({"place": ["x"]})).when_matched_delete().execute(),
        r"source has no column id, .* it has place; say which rows match",
    ),
    "an operation that isn't there": (
        lambda t: t.write(t.head(1), "upsrt"),
        "operation='upsrt': it is one of insert, bulk_insert, upsert, delete, insert_overwrite",
    ),
    "a partition that is no path": (
        lambda t: pudi.create(f"{t.path}3", t.schema, record_key="id", partition_by="city").delete_partitions(
            [{"city": "rome"}]
        ),  # type: ignore[list-item]
        r"a partition is its path, such as 'city=rome' \(Table\.partitions\(\) lists them\), not \{'city'",
    ),
    "a value that can't be computed": (
        lambda t: t.update({"fare": "fare / 0"}),
        r"fare / 0\.0 can't be computed for every row: divide by zero; .* \[table .*trips\]",
    ),
    "a column of the key": (lambda t: t.update({"id": "2"}), "'id' is part of the record key or a partition column"),
    "a frame in place of a schema": (
        lambda t: pudi.create(f"{t.path}2", t.head(1), record_key="id"),  # type: ignore[arg-type]
        "not Table; of a pandas frame it's pa.Schema.from_pandas",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_with_what_to_do(trips: pudi.Table, name: str) -> None:
    call, message = MISTAKES[name]
    with pytest.raises(pudi.InvalidArgumentError) as caught:
        call(trips)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert trips.scan(["id", "fare"]).to_arrow().to_pylist() == [{"id": 1, "fare": 9.5}]


def test_a_write_by_the_name_of_its_operation(trips: pudi.Table) -> None:
    done = trips.write(trips.head(1), "upsert", extra_metadata={"pipeline": "feeds"})
    assert done is not None
    assert (done.operation, trips.commit_metadata(done.instant).extra_metadata["pipeline"]) == ("UPSERT", "feeds")


def test_a_scan_shows_its_predicate(trips: pudi.Table) -> None:
    assert "where=\"city = 'rome'\"" in repr(trips.scan(["id"], where="city = 'rome'"))
    assert "where" not in repr(trips.scan(["id"]))


def test_something_else_than_a_session(trips: pudi.Table) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(pudi.InvalidArgumentError, match="must be a SparkSession, not NoneType"):
        trips.scan().to_spark(None)


def test_pandas_that_is_not_installed(trips: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(pudi.SetupError, match=r"pip install 'pudi\[pandas\]'"):
        trips.scan().to_pandas()


def test_workers_without_pudi_are_told_which_python_they_run() -> None:
    from pudi.engine.spark.session import _translated

    error = _translated(RuntimeError("ModuleNotFoundError: No module named 'pudi'"), "t", "writing")
    assert "PYSPARK_PYTHON=/" in error.message
