"""A job that deletes files."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.context import Storage
from pudi.storage import delete_for_good
from pudi.task.write import FileResult

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
        """See `pudi.task.engine.Waiting`."""
        return True

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Delete them; see `pudi.task.FileJob`."""
        for start in range(0, len(self.paths), _AT_A_TIME):
            delete_for_good(storage, self.paths[start : start + _AT_A_TIME])
        return FileResult(self.number, 0, None)
