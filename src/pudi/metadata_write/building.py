"""The build of one index: the interface of its builder, and the creation of its metadata partition.

A builder determines the file groups of the partition and writes their first base files. Between the two, writers may
start to maintain the partition. Their changes count as newer than the base files, whenever these are written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import Options
from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.format import PartitionMetadata, encode_partition_metadata, partition_metadata_path
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata_write.client import Stats, begin_deltacommit, complete_partitions, open_metadata
from pudi.storage import delete_folder
from pudi.task import FileJob, FileResult, JobRunner
from pudi.task.metadata_files import make_group

_SMALL_BYTES = 16 << 20
"""Latest file slices that this process reads in less time than Spark takes to plan and start jobs."""


@dataclass(frozen=True, slots=True)
class Building:
    """The build of one index.

    Attributes:
        snapshot: the table, with the user's options. The base files must contain exactly what its timeline shows as
            completed.
        engine: runs the jobs.
        spec: the index.
        requested: the metadata table's instant that writes the files; it has a heartbeat on the table.
        small_here: whether jobs run in this process if the table is small, instead of on the engine.
    """

    snapshot: TableSnapshot
    engine: JobRunner
    spec: IndexSpec
    requested: str
    small_here: bool = False

    @property
    def meta(self) -> MetaClient:
        """The table."""
        return self.snapshot.meta

    @property
    def options(self) -> Options:
        """The user's options."""
        return self.snapshot.options

    def run(self, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run jobs on the engine, with the table's storage."""
        if jobs and self.small_here and sum(each.size for each in self.slices()) <= _SMALL_BYTES:
            return self.run_here(jobs)
        return self.engine.run_jobs(self.meta.storage, self.requested, jobs) if jobs else ()

    def run_here(self, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run small jobs in this process."""
        return self.meta.context.executor.map(lambda job: job.run(self.meta.storage, 0), jobs)

    def slices(self) -> list[FileSlice]:
        """Return the table's latest file slices, by the timeline."""
        return self.snapshot.view().all_slices()


class NoEngine:
    """Refuses to run jobs: the indexes of a table without files need none."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Refuse them."""
        raise AssertionError(f"{len(jobs)} jobs for {instant} in {storage.root}, which has no files yet")


@dataclass(slots=True)
class IndexBuilder(ABC):
    """Builds the partition of one index; created for each build.

    Attributes:
        work: the build; replaced if the table changed before `fill`.
    """

    work: Building

    @abstractmethod
    def spec(self) -> IndexSpec:
        """Return the full definition of the index, after a check of the table; `work.spec` is the user's request.

        Raises:
            InvalidArgumentError: the table does not support such an index; nothing was written.
            NotSupportedError: this release can't make it.
        """

    @abstractmethod
    def groups(self) -> Sequence[str]:
        """Return the ids of the partition's file groups; their number never changes."""

    def late_groups(self) -> Sequence[str]:
        """Return the ids of further file groups for what was committed since `groups`, under the table's lock."""
        return ()

    @abstractmethod
    def fill(self) -> Stats:
        """Write the base files of the file groups with records, while writers go on.

        The file groups exist, as last returned by `groups` and `late_groups`.

        Raises:
            NotFoundError: a file of the table is missing.
            CorruptError: a file can't be read.
        """

    def catch_up(self, now: TableSnapshot) -> None:
        """Read what `finish` needs from files committed since the build began, while writers go on.

        Args:
            now: the table as it is now.
        """
        return

    def finish(self, now: TableSnapshot) -> Stats:
        """Make the partitions that come with the index, under the table's lock.

        Args:
            now: the table as it is now; writes may have completed since `catch_up`.
        """
        return {}


def make_groups(mdt: MetaClient, requested: str, partition: str, file_ids: Sequence[str]) -> None:
    """Create the folder and the empty file groups of a partition, after the deletion of its old files.

    Every file group starts with an empty log file, so that it exists without records.

    Args:
        mdt: the metadata table.
        requested: the instant.
        partition: the partition.
        file_ids: its file groups.
    """
    delete_folder(mdt.storage, partition)
    described = encode_partition_metadata(PartitionMetadata(requested, 1), mdt.context.clock.now_ms())
    mdt.storage.create(partition_metadata_path(partition), described)
    add_groups(mdt, requested, partition, file_ids)


def add_groups(mdt: MetaClient, requested: str, partition: str, file_ids: Sequence[str]) -> None:
    """Create further file groups of a partition; arguments as of `make_groups`."""
    mdt.context.executor.map(lambda file_id: make_group(mdt.storage, requested, partition, file_id), file_ids)


def make_partition(
    mdt: MetaClient, requested: str, partition: str, file_ids: Sequence[str], fill: Callable[[], Stats]
) -> Stats:
    """Create a partition by one deltacommit of the metadata table, under the table's lock.

    Args:
        mdt: the metadata table.
        requested: the instant.
        partition: the partition.
        file_ids: all its file groups.
        fill: writes their base files.

    Returns:
        The write statistics by partition, with partitions that got no records.
    """
    instant = begin_deltacommit(mdt, requested)
    make_groups(mdt, requested, partition, file_ids)
    stats = {partition: (), **fill()}
    complete_partitions(mdt, instant, {p: s for p, s in stats.items() if s}, stats)
    return stats


def make_empty(builder: IndexBuilder) -> Stats:
    """Create the index of a table without files, under the table's lock; see `make_partition`."""
    work = builder.work
    return make_partition(
        open_metadata(work.meta),
        work.requested,
        work.spec.partition,
        builder.groups(),
        lambda: {**builder.fill(), **builder.finish(work.snapshot)},
    )
