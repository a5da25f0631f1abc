"""A clustering that fails in the same way again and again is set aside: writers go on, and doctor names it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.task.cluster import ClusterTask

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
EACH_COMMIT = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


class Broken:
    """Runs of clusterings that fail, with the same words but for numbers, until they're mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        self.error: type[pudi.PudiError] | None = pudi.CorruptError
        real = ClusterTask.run

        def run(task: ClusterTask, *args: Any) -> Any:
            self.runs += 1
            if self.error is not None:
                raise self.error(f"row {self.runs} can't be read")
            return real(task, *args)

        monkeypatch.setattr(ClusterTask, "run", run)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


def made(path: Path, version: int = 9, kind: str = "cow") -> pudi.Table:
    """A table of two small files."""
    options = {"hoodie.write.table.version": str(version), "hoodie.parquet.small.file.limit": "0"}
    table = pudi.create(path, ROWS.schema, record_key="id", table_type=kind, options=options)
    for row in range(2):
        table.bulk_insert(ROWS.slice(row, 1))
    return table


def warnings(table: pudi.Table) -> list[str]:
    return [each.text for each in table.doctor().advice if "set aside" in each.text]


@pytest.mark.parametrize(("version", "kind"), list(product([6, 8, 9], ["cow", "mor"])))
def test_the_third_failure_in_the_same_way(tmp_path: Path, broken: Broken, version: int, kind: str) -> None:
    table = made(tmp_path / "t", version, kind)
    for attempt in range(1, 4):
        with pytest.raises(pudi.BlockedError) if attempt > 1 else pytest.raises(pudi.CorruptError):
            table.upsert(ROWS) if attempt > 1 else table.cluster()
        assert not warnings(table)
        if attempt > 1:
            with pytest.raises(pudi.CorruptError, match="rolled back" if attempt == 3 else "can't be read"):
                table.run_pending()
    assert table.upsert(ROWS.set_column(1, "v", pa.array(["c", "d"])))
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == ["c", "d"]
    assert not table.timeline.pending
    (text,) = warnings(table)
    assert "failed 3 times" in text and "2 file groups" in text and "Table.cluster()" in text
    before = broken.runs
    result = pudi.Table(table.path, options=EACH_COMMIT).upsert(ROWS)
    assert result is not None
    assert not result.failed_services and broken.runs == before, "automatic clusterings leave its file groups out"
    broken.error = None
    assert table.cluster()
    assert not warnings(table)
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == ["a", "b"]


def test_planned_clusterings(tmp_path: Path, broken: Broken) -> None:
    table = made(tmp_path / "t")
    table.schedule("clustering")
    for _ in range(3):
        with pytest.raises(pudi.CorruptError):
            table.run_pending()
    assert table.upsert(ROWS)
    assert warnings(table)


@pytest.mark.parametrize("others", [pudi.UnavailableError, pudi.NotFoundError])
def test_other_failures_begin_anew(tmp_path: Path, broken: Broken, others: type[pudi.PudiError]) -> None:
    table = made(tmp_path / "t")
    for error in (pudi.CorruptError, pudi.CorruptError, others, pudi.UnavailableError, pudi.UnavailableError):
        broken.error = error
        with pytest.raises(error):
            table.run_pending() if table.timeline.pending else table.cluster()
    assert len(table.timeline.pending) == 1
    assert not warnings(table)
