"""Slices are read ahead in threads, in plan order, as far as memory allows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pudi.config import MergeMemory
from pudi.engine.local import reader

BATCH = pa.RecordBatch.from_pydict({"n": list(range(1000))})
MEMORY = MergeMemory({"hoodie.memory.merge.max.size": 16 * BATCH.nbytes})


class Slices:
    """Reads slices that are numbers: each has so many batches; a negative one fails."""

    def __init__(self) -> None:
        self.made: dict[int, int] = {}
        self.guard = threading.Lock()

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        if number < 0:
            raise ValueError(f"slice {number}")
        for _ in range(number):
            with self.guard:
                self.made[number] = self.made.get(number, 0) + 1
            yield BATCH


def stream(slices: Slices, *numbers: int) -> Iterator[pa.RecordBatch]:
    plan: Any = SimpleNamespace(slices=numbers, merging=SimpleNamespace(memory=MEMORY))
    return reader._stream(slices, plan, 2)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def small_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MergeMemory, "share", 4 * BATCH.nbytes)


def test_everything_comes_in_order() -> None:
    assert sum(batch.num_rows for batch in stream(Slices(), 3, 50, 0, 1, 70)) == 124_000


def test_no_more_is_read_ahead_than_fits() -> None:
    slices = Slices()
    batches = stream(slices, 100, 101, 102)
    for _ in range(50):
        next(batches)
    assert slices.made[100] <= 50 + 6
    assert slices.made.get(101, 0) <= 6
    batches.close()  # type: ignore[attr-defined]
    assert slices.made.get(102, 0) <= 6


def test_an_error_comes_in_its_place() -> None:
    batches = stream(Slices(), 5, -1, 5)
    assert [next(batches).num_rows for _ in range(5)] == [1000] * 5
    with pytest.raises(ValueError, match="slice -1"):
        next(batches)


def test_who_stops_early_waits_for_nobody() -> None:
    batches = stream(Slices(), 1000, 1000, 1000)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
