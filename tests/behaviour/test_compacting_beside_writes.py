"""Writers go on while compactions are pending or running, and nothing that they write is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.config import resolve
from pudi.context import Context, Storage
from pudi.engine.local import LocalEngine
from pudi.format import Action, State
from pudi.services.compaction import Compaction
from pudi.services.runner import run_instant
from pudi.services.target import ServiceTarget
from pudi.task import FileJob, FileResult
from support.trips import SCHEMA, table, trip

VERSIONS = pytest.mark.parametrize("version", ["6", "8", "9"])


def _made(path: Path, version: str, **more: str) -> pudi.Table:
    options = {"hoodie.write.table.version": version}
    made = pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type="mor", options=options
    )
    made.insert(table(trip(number, 10) for number in range(12)))
    made.upsert(table(trip(number, 20, "two") for number in range(0, 12, 2)))
    return pudi.Table(path, more)


def _rows(mine: pudi.Table) -> dict[str, tuple[int, str]]:
    found = mine.scan(columns=["uuid", "ts", "rider"]).to_arrow().to_pylist()
    rows = {row["uuid"]: (row["ts"], row["rider"]) for row in found}
    assert len(rows) == len(found)
    return rows


@dataclass(frozen=True)
class Amid:
    """An engine that lets something happen after the files are written."""

    then: Callable[[], object]

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        results = LocalEngine().run_jobs(storage, instant, jobs)
        self.then()
        return results


@VERSIONS
def test_writes_beside_a_pending_plan(tmp_path: Path, version: str) -> None:
    mine = _made(tmp_path / "trips", version)
    expected = _rows(mine)
    assert mine.schedule("compaction") is not None
    mine.upsert(table(trip(number, 30, "beside") for number in (0, 1, 20)))
    mine.delete(table([trip(2, 0)]))
    mine.upsert(table([trip(4, 5, "late")]))
    expected |= {"k0000": (30, "beside"), "k0001": (30, "beside"), "k0020": (30, "beside")}
    del expected["k0002"]
    assert _rows(mine) == expected
    assert len(mine.run_pending()) == 1
    assert _rows(mine) == expected
    mine.upsert(table([trip(5, 40, "then")]))
    expected["k0005"] = (40, "then")
    assert _rows(mine) == expected
    assert mine.compact() is not None
    assert _rows(mine) == expected
    assert all(not file_slice.logs for file_slice in mine.file_slices())


@VERSIONS
def test_writes_amid_a_run(tmp_path: Path, version: str) -> None:
    mine = _made(tmp_path / "trips", version)
    expected = _rows(mine) | {"k0000": (30, "amid"), "k0007": (30, "amid"), "k0030": (30, "amid")}
    mine.schedule("compaction")
    meta = MetaClient.open(mine.path, None, {}, Context())
    [instant] = meta.store.load().of(Action.COMPACTION, State.REQUESTED)
    amid = Amid(lambda: pudi.Table(mine.path).upsert(table(trip(n, 30, "amid") for n in (0, 7, 30))))
    target = ServiceTarget.of_table(meta, amid, resolve({}))  # type: ignore[arg-type]
    assert run_instant(Compaction(), target, instant) is not None
    assert _rows(mine) == expected
    mine.compact()
    assert _rows(mine) == expected


@VERSIONS
@pytest.mark.parametrize("planned", ["before", "amid"])
def test_a_compaction_that_completes_amid_a_write(
    tmp_path: Path, version: str, planned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = _made(tmp_path / "trips", version)
    expected = _rows(mine) | {"k0000": (30, "amid"), "k0007": (30, "amid")}
    del expected["k0004"]
    if planned == "before":
        mine.schedule("compaction")
    compacted = []

    class Compacting(LocalEngine):
        def write(self, *args: Any) -> Sequence[FileResult]:
            results = super().write(*args)
            monkeypatch.undo()
            other = pudi.Table(mine.path)
            compacted.extend(other.run_pending() if planned == "before" else filter(None, [other.compact()]))
            return results

    monkeypatch.setattr("pudi.table.base.LocalEngine", Compacting)
    mine.upsert(table(trip(n, 30, "amid") for n in (0, 7)))
    mine.delete(table([trip(4, 0)]))
    monkeypatch.undo()
    assert len(compacted) == (planned == "before" or version != "6"), "below version 8 no plan is made beside a write"
    assert _rows(mine) == expected
    mine.compact()
    assert _rows(mine) == expected
    assert mine.check().ok


@VERSIONS
def test_a_compaction_that_completes_amid_an_overwrite(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = _made(tmp_path / "trips", version)
    expected = _rows(mine)
    mine.schedule("compaction")

    class Compacting(LocalEngine):
        def write(self, *args: Any) -> Sequence[FileResult]:
            results = super().write(*args)
            pudi.Table(mine.path).run_pending()
            return results

    monkeypatch.setattr("pudi.table.base.LocalEngine", Compacting)
    once = {"hoodie.write.num.retries.on.conflict.failures": "0"}
    with pytest.raises(pudi.ConflictError, match=r"compaction \d+, completed meanwhile, also wrote file group"):
        mine.insert_overwrite(table([trip(0, 70, "over")]), options=once)
    assert _rows(mine) == expected
    assert mine.check().ok


@VERSIONS
@pytest.mark.parametrize("amid", [False, True], ids=["before", "amid"])
def test_a_compaction_leaves_out_what_was_replaced_since_its_plan(tmp_path: Path, version: str, amid: bool) -> None:
    """Else its base files, of a newer instant than the replacement, outlive the record that they were replaced."""
    mine = _made(tmp_path / "trips", version)
    gone = sorted({each.partition for each in mine.file_slices()})[0]
    mine.schedule("compaction")
    meta = MetaClient.open(mine.path, None, {}, Context())
    [instant] = meta.store.load().of(Action.COMPACTION, State.REQUESTED)
    if amid:
        engine = Amid(lambda: pudi.Table(mine.path).delete_partitions([gone]))
        with pytest.raises(pudi.ConflictError, match="was replaced while the compaction ran"):
            run_instant(Compaction(), ServiceTarget.of_table(meta, engine, resolve({})), instant)  # type: ignore[arg-type]
    else:
        mine.delete_partitions([gone])
    expected = _rows(mine)
    assert len(mine.run_pending()) == 1
    [done] = mine.timeline.of(Action.COMMIT)
    assert gone not in meta.store.read_commit_metadata(done).partition_to_write_stats
    assert _rows(mine) == expected
    assert mine.check().ok


@VERSIONS
def test_compactions_follow_writes(tmp_path: Path, version: str) -> None:
    options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    mine = _made(tmp_path / "trips", version, **options)
    expected = _rows(mine)
    compacted = []
    for number in range(6):
        mine.upsert(table([trip(number, 50 + number, "inline")]))
        expected[f"k{number:04}"] = (50 + number, "inline")
        assert _rows(mine) == expected
        compacted.append(all(not file_slice.logs for file_slice in mine.file_slices()))
    assert compacted.count(True) == 2


@pytest.mark.parametrize("version", ["8", "9"])
def test_log_compactions_follow_writes(tmp_path: Path, version: str) -> None:
    options = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "2"}
    mine = _made(tmp_path / "trips", version, **options)
    expected = _rows(mine)
    for number in range(5):
        mine.upsert(table([trip(0, 50 + number, "inline"), trip(number, 50 + number, "inline")]))
        expected |= {"k0000": (50 + number, "inline"), f"k{number:04}": (50 + number, "inline")}
        assert _rows(mine) == expected
    meta = MetaClient.open(mine.path, None, {}, Context())
    done = [meta.store.read_commit_metadata(i).operation_type for i in mine.timeline.of(Action.DELTACOMMIT)]
    assert done.count("LOG_COMPACT") > 1
    mine.delete(table([trip(0, 0)]))
    del expected["k0000"]
    assert _rows(mine) == expected
    assert mine.compact() is not None
    assert _rows(mine) == expected
