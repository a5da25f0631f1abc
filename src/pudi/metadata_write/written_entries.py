"""Entries of indexes that the tasks of a write stage together with the files that they write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pudi.format import FileGroupId
from pudi.plan.entry_staging import EntryStaging
from pudi.task import FileResult
from pudi.task.expression_values import ExpressionStaging, IndexedValues
from pudi.task.staged_keys import StagedKeys


@dataclass(frozen=True, slots=True)
class WrittenEntries:
    """The entries of indexes that the tasks of a write have staged with the files that they wrote.

    Attributes:
        stagings: how the tasks stage entries, one for each index that they stage entries of.
        results: the tasks' results.
    """

    stagings: tuple[EntryStaging, ...] = ()
    results: Sequence[FileResult] = ()

    def staging(self, index: str) -> EntryStaging | None:
        """Return how the tasks stage an index's entries; None if they don't.

        Args:
            index: its partition of the metadata table.
        """
        return next((each for each in self.stagings if each.index == index), None)

    def values(self, staging: ExpressionStaging) -> dict[tuple[str, str], IndexedValues]:
        """Return the values of an expression index by partition path and name of the file.

        Args:
            staging: how the index is maintained now; none are returned if the tasks maintained another index.
        """
        used = self.staging(staging.index)
        if not isinstance(used, ExpressionStaging) or used.spec != staging.spec:
            return {}
        return {
            (each.partition, each.file): each
            for result in self.results
            for each in result.staged
            if isinstance(each, IndexedValues) and each.index == staging.index
        }

    def keys(self, index: str) -> dict[FileGroupId, StagedKeys]:
        """Return the staged keys of a record-level index by partition path and file id.

        Args:
            index: its partition of the metadata table.
        """
        return {
            FileGroupId(result.stat.partition_path or "", result.stat.file_id or ""): each
            for result in self.results
            if result.stat is not None
            for each in result.staged
            if isinstance(each, StagedKeys) and each.index == index
        }
