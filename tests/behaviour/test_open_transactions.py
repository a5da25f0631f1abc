"""A transaction stands open between its work and its commit: what it would publish is visible to nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pudi
from pudi.commit.lease import PlanTransaction
from pudi.commit.transaction import Transaction, Work, WriteTransaction
from pudi.format import Action, State
from pudi.timeline import Instant
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
COMPACTION = {"hoodie.compact.inline.max.delta.commits": "1"}


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> pudi.Table:
    """A table with one trip in each of two cities."""
    layout: Layout = request.param
    mine = pudi.create(tmp_path / "trips", SCHEMA, **layout.create_arguments())
    mine.upsert(table([trip(0, 1), trip(1, 1)]))
    return mine


each_layout = pytest.mark.parametrize("made", LAYOUTS, indirect=True, ids=str)


def values(mine: pudi.Table) -> dict[str, int]:
    return {row["uuid"]: row["ts"] for row in pudi.Table(mine.path).scan().to_arrow().to_pylist()}


def files(path: str) -> set[str]:
    return {str(file.relative_to(path)) for file in Path(path).rglob("*") if file.is_file()}


def meanwhile(monkeypatch: pytest.MonkeyPatch, kind: type[Transaction], look: Callable[[Transaction], None]) -> None:
    """Call a function when the next transaction of a kind has done its work; it may raise an error."""
    commit, first = Transaction.commit, [True]

    def beside(transaction: Transaction, work: Work) -> Instant:
        if isinstance(transaction, kind) and first:
            first.clear()
            look(transaction)
        return commit(transaction, work)

    monkeypatch.setattr(Transaction, "commit", beside)


@each_layout
def test_others_read_and_write_while_it_stands_open(made: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(transaction: Transaction) -> None:
        assert isinstance(transaction, WriteTransaction)
        assert all(Path(made.path, path).exists() for path in transaction.files)
        assert transaction.files
        assert values(made) == {"k0000": 1, "k0001": 1}
        pudi.Table(made.path).upsert(table([trip(1, 2)]))
        assert transaction.instant in pudi.Table(made.path).timeline.pending, "it's alive, so nobody rolls it back"

    meanwhile(monkeypatch, WriteTransaction, look)
    assert made.upsert(table([trip(0, 3)])) is not None
    assert values(made) == {"k0000": 3, "k0001": 2}
    assert made.check().ok


@each_layout
def test_it_loses_to_a_write_of_the_same_file_group(made: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, WriteTransaction, lambda _: pudi.Table(made.path).upsert(table([trip(0, 2)])) and None)
    with pytest.raises(pudi.ConflictError):
        made.upsert(table([trip(0, 3)]))
    assert values(made) == {"k0000": 2, "k0001": 1}
    assert not made.timeline.pending
    assert made.check().ok


@each_layout
def test_left_by_an_error_nothing_of_it_stays(made: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(made.path)

    def give_up(_: Transaction) -> None:
        raise RuntimeError("the caller doesn't like it")

    meanwhile(monkeypatch, WriteTransaction, give_up)
    with pytest.raises(RuntimeError, match="doesn't like it"):
        made.upsert(table([trip(0, 3), trip(2, 3)]))
    assert {path for path in files(made.path) - before if ".hoodie" not in path} <= _rolled_back_logs(made)
    assert values(made) == {"k0000": 1, "k0001": 1}
    assert not made.timeline.pending
    assert made.check().ok


def _rolled_back_logs(mine: pudi.Table) -> set[str]:
    """Below version 8 log files of a write that failed stay, with a block that takes them back."""
    old = mine.describe().version < 8
    return {path for path in files(mine.path) if old and ".log." in path}


@pytest.mark.parametrize("made", [each for each in LAYOUTS if each.kind == "mor"], indirect=True, ids=str)
def test_a_plan_that_is_left_can_be_run_again(made: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    made.upsert(table([trip(0, 2)]))

    def give_up(_: Transaction) -> None:
        assert values(made) == {"k0000": 2, "k0001": 1}
        raise RuntimeError("the caller doesn't like it")

    meanwhile(monkeypatch, PlanTransaction, give_up)
    with pytest.raises(RuntimeError, match="doesn't like it"):
        made.compact(options=COMPACTION)
    (plan,) = made.timeline.pending
    assert (plan.action, plan.state) == (Action.COMPACTION, State.REQUESTED)
    assert values(made) == {"k0000": 2, "k0001": 1}
    done = made.compact(options=COMPACTION)
    assert done is not None
    assert done.instant == plan.requested
    assert values(made) == {"k0000": 2, "k0001": 1}
    assert made.check().ok
