"""The example's merger keeps the contract, and the contract finds one that doesn't."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.config import MergeMode
from pudi.merge import MergeRule, mergers
from pudi.testing import MergerTests

EXAMPLE = Path(__file__).parents[2] / "examples" / "keep_highest_bid.py"
VERSIONS = pa.table({"lot": ["a", "b", "a", "c", "a"], "bidder": ["x", "y", None, "z", "x"], "bid": [3, 1, 5, 2, 4]})


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mergers, "_REGISTERED", {})


class TestKeepHighestBid(MergerTests):
    key = "lot"

    @pytest.fixture
    def merger(self) -> pudi.RecordMerger:
        spec = importlib.util.spec_from_file_location("keep_highest_bid", EXAMPLE)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["keep_highest_bid"] = module  # where pickle looks for the class
        spec.loader.exec_module(module)
        return module.KeepHighestBid()

    @pytest.fixture
    def versions(self) -> pa.Table:
        return VERSIONS


class Counting(pudi.RecordMerger):
    """Keeps something between calls."""

    strategy_id = "1d6c0c5e-7e0f-4c39-9f66-3a0b5d0e7b77"
    calls = 0

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: Any) -> pa.RecordBatch:
        self.calls += 1
        return older if self.calls % 2 else newer


def test_a_merger_with_a_memory_is_found_out() -> None:
    tests = MergerTests()
    tests.key = "lot"
    with pytest.raises(AssertionError):
        tests.test_it_says_the_same_wherever_it_runs(
            MergeRule(MergeMode.CUSTOM, merger=Counting()), VERSIONS.slice(0, 3)
        )
