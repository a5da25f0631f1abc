"""A running check of the metadata table, as kinds of indexes see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pudi.client.meta_client import MetaClient
from pudi.filegroup import BaseFile, FileSlice, LogFile, in_portions
from pudi.indexes.check_jobs import CheckRun, KeyCheck
from pudi.indexes.difference import Difference
from pudi.metadata import MetadataTable
from pudi.metadata.partition_snapshot import PartitionSnapshot
from pudi.metadata.shards import RecordShards
from pudi.schema import with_meta_fields
from pudi.task import FileJob
from pudi.task.check_files import UNREADABLE
from pudi.task.finding import Findings
from pudi.timeline import Timeline

_FILE_BYTES, _MOST_FILES = 256 << 20, 256
"""Approximate bytes, and number, of the files that one job reads."""


@dataclass(slots=True)
class IndexCheck:
    """The inputs of a check and its findings so far.

    Attributes:
        meta: the table.
        timeline: its timeline, as the check sees it.
        slices: the table's newest slices, as folders list them.
        runner: runs jobs.
        opened: the metadata table at that moment; None if there is none or it can't be read.
        findings: what jobs found.
        compared: the number of compared items, by kind.
        keys_compared: whether the table's record keys were compared, so that duplicates were found.
    """

    meta: MetaClient
    timeline: Timeline
    slices: Sequence[FileSlice]
    runner: CheckRun
    opened: MetadataTable | None
    findings: list[Findings] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)
    keys_compared: bool = False

    @property
    def table(self) -> MetadataTable:
        """The metadata table; kinds are only asked if there is one."""
        assert self.opened is not None
        return self.opened

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, with meta fields if its files have them."""
        schema = self.meta.schema(self.timeline)
        return with_meta_fields(schema) if self.meta.config.populate_meta_fields else schema

    @property
    def keys(self) -> KeyCheck:
        """The comparison of record keys."""
        return KeyCheck(self.runner, self.timeline, tuple(self.slices))

    def run(self, jobs: Sequence[FileJob]) -> None:
        """Run jobs and collect their findings."""
        self.findings += self.runner.run(jobs)

    def compare_keys(self, index: RecordShards | None) -> None:
        """Find duplicate record keys and, with a record index, keys that aren't where it says."""
        self.compared["record keys"] = self.keys.of_records(index, self.findings)
        self.keys_compared = True

    def snapshots(self, partitions: Iterable[str]) -> Iterator[PartitionSnapshot | Difference]:
        """Yield partitions of the metadata table as readers see them; for an unreadable one a difference."""
        for name in partitions:
            try:
                yield PartitionSnapshot.of(self.table, name)
            except UNREADABLE as error:
                yield unreadable(name, error)

    def portions(self) -> Iterator[tuple[BaseFile | LogFile, ...]]:
        """The files of the slices, in groups of several."""
        files = (file for each in self.slices for file in (each.base, *each.logs) if file is not None)
        return in_portions(files, lambda file: file.size, _FILE_BYTES, _MOST_FILES)


def unreadable(index: str, error: Exception) -> Difference:
    """Return the difference that reports an unreadable index."""
    return Difference(index, "", f"can't be read: {error}")
