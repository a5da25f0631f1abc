"""Jobs on files, which engines run beside each other, and their results; the job that only deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pudi.context import Storage
from pudi.format import WriteStat
from pudi.plan.entry_staging import StagedEntries
from pudi.storage import delete_for_good


@dataclass(frozen=True, slots=True)
class FileResult:
    """The result of one task.

    Attributes:
        task: the task's number.
        received: number of input records, before versions are combined.
        stat: the write statistics of the file; None if no file was written.
        rolled: the statistics of further log files, if one became too large.
        staged: the entries of indexes that the task staged.
    """

    task: int
    received: int
    stat: WriteStat | None
    rolled: tuple[WriteStat, ...] = ()
    staged: tuple[StagedEntries, ...] = ()

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write statistics of all files."""
        return () if self.stat is None else (self.stat, *self.rolled)

    @classmethod
    def of(
        cls, task: int, received: int, stats: Sequence[WriteStat], staged: tuple[StagedEntries, ...] = ()
    ) -> FileResult:
        """Return the result of a task that made any number of files."""
        return cls(task, received, stats[0] if stats else None, tuple(stats[1:]), staged)


class FileJob(Protocol):
    """Work on one file group without input records; picklable."""

    @property
    def number(self) -> int:
        """Number of the job among those that run together, from 0."""

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Do the work.

        Args:
            storage: the table's files.
            attempt: number of the attempt at this job, unique per attempt.
        """


@runtime_checkable
class Weighed(Protocol):
    """A job that estimates its work, so that small jobs can share a task."""

    @property
    def weight(self) -> int:
        """Approximate number of bytes read and written."""


@runtime_checkable
class Waiting(Protocol):
    """A job that waits for the storage and computes nothing, so that more of them than cores may run at a time."""

    @property
    def waits(self) -> bool:
        """True."""


class JobRunner(Protocol):
    """Runs jobs: the part of `Engine` that table services and index builds need."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """See `Engine.run_jobs`."""


_AT_A_TIME = 1000
"""Files that are deleted together, and tried again together if the store is too busy: those of one request to S3."""


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Deletes files; one that isn't there any more was deleted before.

    Attributes:
        number: number of the job.
        paths: the files.
    """

    number: int
    paths: tuple[str, ...]

    @property
    def waits(self) -> bool:
        """See `Waiting`."""
        return True

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Delete them; see `pudi.task.FileJob`."""
        for start in range(0, len(self.paths), _AT_A_TIME):
            delete_for_good(storage, self.paths[start : start + _AT_A_TIME])
        return FileResult(self.number, 0, None)
