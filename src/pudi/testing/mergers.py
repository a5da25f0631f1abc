"""The contract of a `RecordMerger`, as tests: a new merger subclasses `MergerTests` and gives the fixtures."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pudi.config import MergeMode
from pudi.merge import MergeRule, RecordMerger, Versions, apply_updates, fold, register_merger

THREADS = 4


class MergerTests:
    """Contract of every merger. Subclasses give the fixtures `merger` and `versions`, and name the key column."""

    key = "id"
    """Column of the record key in `versions`."""

    @pytest.fixture
    def merger(self) -> RecordMerger:
        """The merger."""
        raise NotImplementedError("give a fixture `merger`")

    @pytest.fixture
    def versions(self) -> pa.Table:
        """Versions of several records in order, oldest first: a table's columns without meta fields."""
        raise NotImplementedError("give a fixture `versions`")

    @pytest.fixture
    def rule(self, merger: RecordMerger, versions: pa.Table) -> MergeRule:
        """Return the merge rule of a table with this merger."""
        return MergeRule(MergeMode.CUSTOM, merger=merger, columns=versions.schema, key_fields=(self.key,))

    def test_it_can_be_registered(self, merger: RecordMerger) -> None:
        """Its strategy id is a UUID that isn't Hudi's."""
        register_merger(merger)

    def test_it_says_the_same_wherever_it_runs(self, rule: MergeRule, versions: pa.Table) -> None:
        """Repeat as a pickled copy and in several threads."""
        expected = self._folded(versions, rule)
        copy = pickle.loads(pickle.dumps(rule))
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda each: self._folded(versions, each), [rule, copy] * THREADS))
        assert all(one.equals(expected) for one in found)

    def test_records_are_merged_each_for_itself(self, rule: MergeRule, versions: pa.Table) -> None:
        """The merge of one record does not depend on the other records of the batch."""
        whole = self._folded(versions, rule)
        for key in pc.unique(versions[self.key]):
            alone = self._folded(versions.filter(pc.equal(versions[self.key], key)), rule)
            assert alone.equals(whole.filter(pc.equal(whole[self.key], key)))

    def test_a_version_can_be_a_delete(self, rule: MergeRule, versions: pa.Table) -> None:
        """Check that a version can be a delete, of which only the key is needed."""
        keys = pa.table([versions[self.key]], names=[self.key])
        every = np.ones(len(keys), dtype=bool)
        gone = Versions(keys, every, ~every)
        kept = Versions.of(versions, rule)
        for runs in ([kept, gone], [gone, kept], [gone, gone]):
            assert len(fold(runs, self.key, rule)) == pc.count_distinct(versions[self.key]).as_py()

    def test_it_takes_no_records(self, rule: MergeRule, versions: pa.Table) -> None:
        """A batch without rows is a batch."""
        base = versions.slice(0, 0)
        assert len(apply_updates(base, Versions.of(versions.slice(0, 1), rule), self.key, rule).inserted) == 1

    def _folded(self, versions: pa.Table, rule: MergeRule) -> pa.Table:
        folded = fold([Versions.of(versions, rule)], self.key, rule)
        return folded.rows.filter(pa.array(~folded.deleted)).combine_chunks()
