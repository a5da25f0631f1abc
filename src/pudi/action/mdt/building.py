"""The building of one index, as those who fill its partition of the metadata table see it.

A builder says which file groups the partition gets, and writes their first base files. Between the two, writers may
have begun to keep the partition in step: what they change comes after the base files, whenever these are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.commit import BULK_INSERT, metadata_deltacommit
from pudi.action.meta_client import MetaClient
from pudi.config import Options
from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.format import Action, PartitionMetadata, WriteStat, encode_partition_metadata, partition_metadata_path
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata.table import map_parallel
from pudi.storage import delete_folder
from pudi.task import FileJob, FileResult, JobRunner
from pudi.task.index_keys import GroupTask
from pudi.task.metadata_files import make_group
from pudi.timeline import Timeline

Stats = Mapping[str, tuple[WriteStat, ...]]
"""What was written, by partition of the metadata table."""

_MAKERS = 16
"""Tasks that make file groups; so few are made by the process itself."""


@dataclass(frozen=True, slots=True)
class Building:
    """The making of one index.

    Attributes:
        meta: the table.
        engine: who does the work.
        options: the user's.
        spec: the index.
        timeline: the table's: what had completed when it was loaded is to be in the base files, and nothing else.
        requested: the instant of the metadata table that the files are of; it has a heartbeat on the table.
    """

    meta: MetaClient
    engine: JobRunner
    options: Options
    spec: IndexSpec
    timeline: Timeline
    requested: str

    def run(self, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Do jobs by the engine; they get the table's storage."""
        return self.engine.run_jobs(self.meta.storage, self.requested, jobs) if jobs else ()

    def slices(self) -> list[FileSlice]:
        """The table's latest file slices, by the timeline."""
        return self.meta.view(self.timeline).all_slices()

    def make_groups(self, file_ids: Sequence[str], partition: str | None = None) -> None:
        """Make a partition's folder and its file groups, each without records; what lay there goes first.

        Args:
            file_ids: the file groups.
            partition: None for the index's own.
        """
        mdt, partition = open_metadata(self.meta), partition or self.spec.partition
        delete_folder(mdt.storage, partition)
        described = encode_partition_metadata(PartitionMetadata(self.requested, 1), mdt.context.clock.now_ms())
        mdt.storage.create(partition_metadata_path(partition), described)
        if len(file_ids) <= _MAKERS:
            map_parallel(lambda file_id: make_group(mdt.storage, self.requested, partition, file_id), list(file_ids))
            return
        count = min(_MAKERS, len(file_ids))
        self.run([GroupTask(n, self.requested, tuple(file_ids[n::count]), partition) for n in range(count)])


class NoEngine:
    """Does no jobs: for a table without files, of which there are none."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Refuse them."""
        raise AssertionError(f"{len(jobs)} jobs for {instant} in {storage.root}, which has no files yet")


class IndexBuilder(Protocol):
    """Fills the partition of one index; made anew for each building.

    Attributes:
        work: the building; another one is set when the table has gone on before `fill`.
    """

    work: Building

    def spec(self) -> IndexSpec:
        """The index as its definition says it, once the table has been looked at; `work.spec` is as the user gave it.

        Raises:
            InvalidArgumentError: the table can't have such an index; nothing was written.
            NotSupportedError: this release can't make it.
        """

    def groups(self) -> Sequence[str]:
        """Ids of the file groups that the partition gets for good."""

    def fill(self) -> Stats:
        """Write the base files of those file groups that get records, while writers may go on.

        The file groups are there, as `groups` said them last.

        Returns:
            What was written, by partition of the metadata table.

        Raises:
            NotFoundError: a file of the table is gone.
            CorruptError: one can't be read.
        """

    def finish(self, now: Timeline) -> Stats:
        """Make what comes with the index, under the table's lock: partitions that need it whole.

        Args:
            now: the table's timeline: writers may have completed since the building began.
        """


def build_whole(builder: IndexBuilder) -> Stats:
    """Build an index in one go, under the table's lock: one delta commit of the metadata table.

    Returns:
        What was written, by partition of the metadata table; those that hold nothing are among them.
    """
    work = builder.work
    mdt = open_metadata(work.meta)
    groups = builder.groups()
    instant = mdt.store.start(mdt.store.request(Action.DELTACOMMIT, at=work.requested))
    work.make_groups(groups)
    stats = {work.spec.partition: (), **builder.fill(), **builder.finish(work.timeline)}
    done = metadata_deltacommit({p: s for p, s in stats.items() if s}, BULK_INSERT)
    mdt.store.complete(instant, done, also=list(stats))  # file groups without records are named nowhere
    return stats
