"""Record keys that the tasks of a write stage together with the base files that they write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pudi.plan.key_staging import KeyStaging
from pudi.task import FileResult
from pudi.task.staged_keys import StagedKeys


@dataclass(frozen=True, slots=True)
class WrittenKeys:
    """The keys that the tasks of a write have staged with the base files that they wrote.

    Attributes:
        staging: how the tasks stage keys.
        results: the tasks' results.
    """

    staging: KeyStaging
    results: Sequence[FileResult]

    @property
    def by_group(self) -> dict[tuple[str, str], StagedKeys]:
        """The staged keys by partition path and file id."""
        return {
            (result.stat.partition_path or "", result.stat.file_id or ""): result.staged
            for result in self.results
            if result.stat is not None and result.staged is not None
        }
