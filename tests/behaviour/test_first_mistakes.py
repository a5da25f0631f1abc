"""What newcomers get wrong first, and what they are told."""

from __future__ import annotations

import sys
from pathlib import Path

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
