"""Work that the Spark engine leaves to an engine in the driver's process, because it is small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from pudi.context import Context, Storage
from pudi.plan import PartitionTask, WritePlan, WriteSpec
from pudi.task import FileJob, FileResult, KeyLookup, KeySearch
from pudi.task.write_rows import WriteRows


class DriverEngine(Protocol):
    """An engine whose records are in memory; the methods are those of `pudi.task.engine.Engine`."""

    def keyed_records(self, rows: pa.Table, schema: pa.Schema) -> Any:
        """Return rows that have record key and partition path in the form that `tag` takes."""

    def tag(self, records: Any, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> Any:
        """Find the file group of each record."""

    def write_jobs(self, tagged: Any, spec: WriteSpec, plan: WritePlan) -> Sequence[WriteRows]:
        """Return the files of a plan as jobs that hold their records."""

    def write_partitions(
        self, records: Any, storage: Storage, spec: WriteSpec, tasks: Sequence[PartitionTask], context: Context
    ) -> Sequence[FileResult]:
        """Find the records' file groups, partition by partition, and write the files."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run independent jobs."""
