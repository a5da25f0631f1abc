"""Two runs of one plan: only one of them counts, and neither harms the other's files."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.lease import revert_to_requested
from pudi.config import resolve
from pudi.context import Context, Storage
from pudi.engine.local import LocalEngine
from pudi.format import Action, InstantInfo, RollbackPlan, RollbackRequest, State, encode_rollback_plan
from pudi.services.compaction import Compaction
from pudi.services.runner import run_instant, run_pending
from pudi.services.target import ServiceTarget
from pudi.task import FileJob, FileResult
from support.golden import Golden
from support.rows import Row, from_arrow

OPTIONS = {"hoodie.metadata.enable": "false"}


def run(meta: MetaClient, engine: Any, instant: Any, options: Any) -> Any:
    return run_instant(Compaction(), ServiceTarget.of_table(meta, engine, options), instant)


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def client(path: Path) -> MetaClient:
    return MetaClient.open(str(path), None, OPTIONS, Context())


def base_files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}


@pytest.fixture
def table(golden_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(Golden("mor_v9_pending_compaction").unpack(golden_folder), tmp_path / "t"))


@dataclass(frozen=True)
class Interrupted:
    """An engine whose jobs are followed by something else before they're reported."""

    then: Callable[[], None]

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        results = LocalEngine().run_jobs(storage, instant, jobs)
        self.then()
        return results


def _pending(meta: MetaClient) -> Any:
    [instant] = meta.store.load().pending_of(Action.COMPACTION)
    return instant


def test_a_run_taken_for_dead_that_wakes_up_after_the_other(table: Path) -> None:
    before, old = rows(table), base_files(table)

    def other() -> None:
        meta = client(table)
        revert_to_requested(meta, _pending(meta))
        assert run(meta, LocalEngine(), _pending(meta), resolve(OPTIONS)) is not None

    meta = client(table)
    with pytest.raises(pudi.ConflictError):
        run(meta, Interrupted(other), _pending(meta), resolve(OPTIONS))  # type: ignore[arg-type]
    assert rows(table) == before
    assert len(base_files(table) - old) == 3
    assert pudi.Table(table).timeline.pending == ()


def test_a_run_taken_for_dead_that_wakes_up_amid_the_other(table: Path) -> None:
    before, old = rows(table), base_files(table)
    outer = client(table)

    def other() -> None:
        meta = client(table)
        revert_to_requested(meta, _pending(meta))

        def awake() -> None:
            files_written.set()
            assert first_over.wait(120)

        run(meta, Interrupted(awake), _pending(meta), resolve(OPTIONS))  # type: ignore[arg-type]

    first_over, files_written = threading.Event(), threading.Event()
    second = threading.Thread(target=other)

    def hand_over() -> None:
        second.start()
        assert files_written.wait(120)

    with pytest.raises(pudi.ConflictError):
        run(outer, Interrupted(hand_over), _pending(outer), resolve(OPTIONS))  # type: ignore[arg-type]
    first_over.set()
    second.join(120)
    assert rows(table) == before
    assert len(base_files(table) - old) == 3
    assert pudi.Table(table).timeline.pending == ()


def test_many_at_once(table: Path) -> None:
    before, old = rows(table), base_files(table)
    results: list[Any] = []

    def one() -> None:
        try:
            results.extend(run_pending(ServiceTarget.of_table(client(table), LocalEngine(), resolve(OPTIONS))))
        except pudi.ConflictError as error:
            results.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [result for result in results if not isinstance(result, pudi.PudiError)]
    assert len(done) == 1, results
    assert rows(table) == before
    assert len(base_files(table) - old) == 3


def test_a_rollback_of_a_run_that_is_pending_keeps_the_plan(table: Path) -> None:
    """Hudi takes a run that died back by a rollback, and may die in it: pudi's next writer carries it out."""
    before, old = rows(table), base_files(table)
    meta = client(table)

    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    with pytest.raises(Died):
        run(meta, Interrupted(die), _pending(meta), resolve(OPTIONS))  # type: ignore[arg-type]
    assert len(base_files(table) - old) == 3
    target = _pending(meta)
    assert target.state is State.INFLIGHT
    paths = sorted(base_files(table) - old)
    requests = tuple(
        RollbackRequest(path.rpartition("/")[0], files_to_be_deleted=(f"{table}/{path}",)) for path in paths
    )
    plan = RollbackPlan(InstantInfo(target.requested, target.action.value), requests)
    meta.store.request(Action.ROLLBACK, encode_rollback_plan(plan))
    repair_dead_writes(meta, resolve({}))
    assert _pending(meta).state is State.REQUESTED
    assert base_files(table) == old
    assert rows(table) == before
    assert len(pudi.Table(table, OPTIONS).run_pending()) == 1
    assert rows(table) == before
