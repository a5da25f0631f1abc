"""Plans of compactions that fail in the same way again and again: the service goes on with other file groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.task.compact import CompactTask
from pudi.task.compact_logs import CompactLogsTask
from pudi.upgrade.maintenance import Outcome

FIRST = pa.table({"id": [1, 2], "p": ["x", "y"], "v": ["a", "b"]})
SECOND = FIRST.set_column(2, "v", pa.array(["c", "d"]))
EACH_COMMIT = {"hoodie.compact.inline.max.delta.commits": "1"}
MANY_LOGS = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "2"}


class Broken:
    """Runs on partition x that fail, with the same words but for numbers, until they're mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs, self.names_file, self.mended = 0, True, False
        for kind in (CompactTask, CompactLogsTask):
            monkeypatch.setattr(kind, "run", self._failing(kind.run))

    def _failing(self, real: Any) -> Any:
        def run(task: Any, *args: Any) -> Any:
            if task.operation.partition_path == "x" and not self.mended:
                self.runs += 1
                path = f"x/{task.operation.log_files[0]}" if self.names_file else None
                raise pudi.CorruptError(f"row {self.runs} can't be read", path=path)
            return real(task, *args)

        return run


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


def made(path: Path, version: int) -> pudi.Table:
    """A table of two file groups with log files."""
    options = {"hoodie.write.table.version": str(version), "hoodie.compact.inline": "false"}
    table = pudi.create(path, FIRST.schema, record_key="id", partition_by="p", table_type="mor", options=options)
    table.insert(FIRST)
    table.upsert(SECOND)
    return table


def with_logs(table: pudi.Table) -> set[str]:
    return {each.partition for each in table.file_slices() if each.logs}


def values(table: pudi.Table) -> dict[int, str]:
    rows = table.scan(["id", "v"]).to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def told(table: pudi.Table) -> list[str]:
    """What doctor, check and a maintenance say of plans that are set aside, each the same."""
    said = [each.text for each in table.doctor().advice if "set aside" in each.text]
    assert [each.what for each in table.check().differences if "set aside" in each.what] == said
    steps = table.maintain(dry_run=True).steps
    assert [each.reason for each in steps if "set aside" in each.reason] == said
    assert all(each.outcome is Outcome.FAILED for each in steps if "set aside" in each.reason)
    return said


def fail(table: pudi.Table, times: int) -> None:
    for attempt in range(times):
        with pytest.raises(pudi.CorruptError, match="failed 3 times" if attempt == 2 else "can't be read"):
            table.run_pending() if table.timeline.pending else table.compact()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_third_failure_in_the_same_way(tmp_path: Path, broken: Broken, version: int) -> None:
    table = made(tmp_path / "t", version)
    fail(table, 2)
    assert not told(table)
    with pytest.raises(pudi.CorruptError, match="failed 3 times in this way"):
        table.run_pending()
    stays = version == 6
    assert bool(table.timeline.pending) is stays, "below version 8 log files may be named by the plan"
    (text,) = told(table)
    assert ("is passed over" if stays else "its file group out, beginning with") in text
    assert "Table.compact()" in text and "row 3 can't be read" in text

    table.upsert(pa.table({"id": [1, 3], "p": ["x", "z"], "v": ["e", "f"]}))
    table.upsert(pa.table({"id": [3], "p": ["z"], "v": ["g"]}))
    runs = broken.runs
    found = pudi.Table(table.path, options=EACH_COMMIT).maintain()
    assert not found.ok
    assert broken.runs == runs, "a maintenance leaves the file group out"
    assert with_logs(table) == ({"x", "y"} if stays else {"x"})
    assert values(table) == {1: "e", 2: "d", 3: "g"}

    broken.mended = True
    assert table.compact()
    assert not told(table)
    assert not table.timeline.pending and table.check().ok
    assert values(table) == {1: "e", 2: "d", 3: "g"}
    assert not with_logs(table) or (stays and table.compact() and not with_logs(table))


def test_inline_compactions(tmp_path: Path, broken: Broken) -> None:
    broken.names_file = False
    table = made(tmp_path / "t", 9)
    fail(table, 3)
    inline = pudi.Table(table.path, options=EACH_COMMIT | {"hoodie.compact.inline": "true"})
    runs = broken.runs
    done = inline.upsert(pa.table({"id": [1, 4], "p": ["x", "z"], "v": ["e", "f"]}))
    assert done is not None and not done.failed_services
    assert inline.upsert(pa.table({"id": [4], "p": ["z"], "v": ["g"]}))
    assert broken.runs == runs
    assert with_logs(table) == {"x", "y"}, "an error without a file leaves all of the plan out"
    assert values(table) == {1: "e", 2: "d", 4: "g"}


def test_log_compactions_are_planned_anew_and_counted_together(tmp_path: Path, broken: Broken) -> None:
    table = made(tmp_path / "t", 9)
    table.upsert(SECOND)
    for attempt in range(3):
        with pytest.raises(pudi.CorruptError, match="failed 3 times" if attempt == 2 else "can't be read"):
            table.compact(log_compaction=True, options=MANY_LOGS)
    (text,) = told(table)
    assert "log_compaction" in text and "its file group" in text
    runs = broken.runs
    pudi.Table(table.path, options=MANY_LOGS | {"hoodie.compact.inline.max.delta.commits": "100"}).maintain()
    assert broken.runs == runs
    logs = {each.partition: len(each.logs) for each in table.file_slices()}
    assert logs == {"x": 2, "y": 3}, "only y has a merged log file beside those that it merges"
    broken.mended = True
    table.compact(log_compaction=True, options=MANY_LOGS)
    assert not told(table)
    assert values(table) == {1: "c", 2: "d"}
    assert table.check().ok


def test_an_upgrade_takes_all_file_groups(tmp_path: Path, broken: Broken) -> None:
    table = made(tmp_path / "t", 8)
    fail(table, 3)
    with pytest.raises(pudi.CorruptError, match="can't be read"):
        table.upgrade(9)
    broken.mended = True
    table.upgrade(9)
    assert values(pudi.Table(table.path)) == {1: "c", 2: "d"}
