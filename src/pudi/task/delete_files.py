"""A job that deletes files."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.context import Storage
from pudi.storage import delete_for_good
from pudi.task.write import FileResult


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Deletes files; one that isn't there any more was deleted before.

    Attributes:
        number: number of the job.
        paths: the files.
    """

    number: int
    paths: tuple[str, ...]

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Delete them; see `pudi.task.FileJob`."""
        delete_for_good(storage, list(self.paths))
        return FileResult(self.number, 0, None)
