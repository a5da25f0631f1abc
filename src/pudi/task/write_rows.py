"""A job that writes one file of a write with records that come along with it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pudi.context import Storage
from pudi.format import write_token
from pudi.plan import FileTask, WriteSpec
from pudi.task.write import FileResult, write_file


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes the file of one task.

    Attributes:
        number: number of the job.
        spec: the write.
        task: which file.
        rows: the task's records, as `write_file` takes them.
    """

    number: int
    spec: WriteSpec
    task: FileTask
    rows: pa.Table

    @property
    def weight(self) -> int:
        """Bytes of the old file and of the records."""
        return (self.task.base.size if self.task.base else 0) + int(self.rows.nbytes)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write it; see `pudi.task.FileJob`."""
        return write_file(storage, self.spec, self.task, self.rows, write_token(self.task.number, 0, attempt))
