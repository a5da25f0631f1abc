"""The table that a service works on: a data table, or the metadata table of one, with that table's own options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pudi.client import MetaClient, TableSnapshot
from pudi.config import (
    ArchiveOptions,
    CleanOptions,
    CleanPolicy,
    ClusteringOptions,
    CompactionOptions,
    MetadataOptions,
    Options,
    WriteOptions,
)
from pudi.config.option import Value
from pudi.context.runtime import cached_property
from pudi.format import CompactionOperation
from pudi.metadata_write.client import open_metadata
from pudi.task import Engine, FileJob, FileResult
from pudi.timeline import Timeline, new_instant

_NEW_BASE = 120 << 20
"""Assumed size of a new base file in the metadata table, as in Hudi's plans."""
_SLICES = 2
"""Number of slices of a file group that a clean of a metadata table leaves."""
_FOLLOWING = (CleanOptions.automatic, CompactionOptions.inline, ClusteringOptions.inline)
"""Services of the data table that may follow a write, each with a deltacommit of its own."""
_SPREAD = 64 << 20
"""Bytes of log files from which jobs on the metadata table run on the engine instead of in this process."""


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The table that a service works on.

    Attributes:
        meta: the table.
        data: the data table; equal to `meta` unless the service works on the metadata table.
        engine: runs the jobs.
        options: the table's options; for a metadata table see `metadata_table_options`.
        timeline: its timeline, if it must not be loaded again; then nothing is changed.
    """

    meta: MetaClient
    data: MetaClient
    engine: Engine
    options: Options
    timeline: Timeline | None = None

    @classmethod
    def of_table(cls, meta: MetaClient, engine: Engine, options: Options) -> ServiceTarget:
        """Return a data table as a target."""
        return cls(meta, meta, engine, options)

    @classmethod
    def of_metadata_table(cls, meta: MetaClient, engine: Engine, options: Options) -> ServiceTarget:
        """Return the metadata table of a data table as a target.

        Raises:
            CorruptError: the metadata table can't be opened.
        """
        own = metadata_table_options(options, _trigger(meta, options))
        return cls(open_metadata(meta), meta, engine, own)

    @property
    def is_metadata(self) -> bool:
        """Return whether the target is a metadata table."""
        return self.meta is not self.data

    @property
    def write_options(self) -> WriteOptions:
        """The options of heartbeats and failed writes."""
        return WriteOptions.of(self.options)

    def load(self) -> TargetSnapshot:
        """Return the table as it is now."""
        return self.at(self.meta.store.load() if self.timeline is None else self.timeline)

    def at(self, timeline: Timeline) -> TargetSnapshot:
        """Return the table at a listing of its timeline."""
        return TargetSnapshot(self.meta, timeline, self.options, target=self)

    def pinned(self) -> ServiceTarget:
        """Return the target with its timeline as it is now, which is never loaded again."""
        return replace(self, timeline=self.load().timeline)

    def run_jobs(
        self, instant: str, jobs: Sequence[FileJob], operations: Sequence[CompactionOperation] = ()
    ) -> Sequence[FileResult]:
        """Run the jobs of a service: on the engine, or in this process for small work on a metadata table.

        Args:
            instant: requested time of the service's instant.
            jobs: the jobs.
            operations: the file slices that they read.
        """
        if not jobs:
            return []
        size = sum(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0.0) for operation in operations)
        if self.is_metadata and size < _SPREAD:
            return self.meta.context.executor.map(lambda job: job.run(self.meta.storage, 0), jobs)
        return self.engine.run_jobs(self.meta.storage, instant, jobs)


@dataclass(frozen=True)
class TargetSnapshot(TableSnapshot):
    """The table that a service works on, at one listing of its timeline.

    Attributes:
        target: the table, which may have changed since.
    """

    target: ServiceTarget = field(kw_only=True, repr=False)

    @property
    def is_metadata(self) -> bool:
        """Whether the table is a metadata table."""
        return self.target.is_metadata

    @cached_property
    def data_timeline(self) -> Timeline:
        """The data table's timeline; of a metadata table it's loaded when it's first asked for."""
        return self.target.data.store.load() if self.is_metadata else self.timeline

    def time_apart(self) -> str | None:
        """Return a time for a service of a metadata table that no instant of the data table has; None if it is none.

        A write that is about to complete runs the service, and its deltacommit will have its own requested time.
        """
        if not self.is_metadata:
            return None
        times = [each for each in (self.timeline.newest_time, self.data_timeline.newest_time) if each]
        store, clock = self.meta.store, self.meta.context.clock
        return store.times.next(clock, max(times, default=None), self.meta.config.timezone)


def metadata_table_options(options: Options, trigger: int) -> Options:
    """Derive a metadata table's own options from its writer's (HoodieMetadataWriteUtils.createMetadataWriteConfig).

    Args:
        options: the writer's options of the data table.
        trigger: number of deltacommits after which it is compacted.
    """
    least = options[ArchiveOptions.keep_min_commits] + 1
    own: dict[str, Value] = {
        **clean_to(_SLICES),
        CleanOptions.automatic.key: True,
        CleanOptions.run_async.key: False,
        CompactionOptions.inline.key: True,
        CompactionOptions.trigger.key: "NUM_COMMITS",
        CompactionOptions.max_delta_commits.key: trigger,
        CompactionOptions.strategy.key: "UnBoundedCompactionStrategy",
        CompactionOptions.log_inline.key: options[MetadataOptions.log_compaction],
        CompactionOptions.log_blocks_threshold.key: options[MetadataOptions.log_blocks_threshold],
        WriteOptions.max_file_size.key: _NEW_BASE,
        ArchiveOptions.keep_min_commits.key: least,
        ArchiveOptions.keep_max_commits.key: max(options[ArchiveOptions.keep_max_commits], least) + 1,
    }
    return options.having(own)


def clean_to(slices: int) -> dict[str, Value]:
    """Return the options of a clean that leaves a number of slices of each file group, in all partitions.

    Args:
        slices: the number.
    """
    return {
        CleanOptions.policy.key: CleanPolicy.VERSIONS.value,
        CleanOptions.versions_retained.key: slices,
        CleanOptions.regex.key: "",
        CleanOptions.selected.key: "",
    }


def _trigger(meta: MetaClient, options: Options) -> int:
    """Return the number of deltacommits before a write after which it compacts the metadata table.

    Any client of Hudi compacts a metadata table that has as many as the options say, before it takes a commit back, and
    can't take it back then. So pudi leaves room for the deltacommit of the write itself and of each service that may
    follow it, up to half of the number. Below version 8 Hudi also counts the deltacommit that the last compaction is
    named after.
    """
    most = options[MetadataOptions.max_delta_commits]
    coming = 1 + sum(bool(options[each]) for each in _FOLLOWING) + meta.store.rules.services_have_suffixes
    return max(most - coming, -(-most // 2))


def restorable_instants(snapshot: TargetSnapshot) -> Sequence[str]:
    """Return the instants of the data table's savepoints, to which Hudi restores the metadata table along with it.

    There are none if the writer archives beyond savepoints, as Hudi restores no table then
    (BaseHoodieWriteClient.restoreToSavepoint).

    Args:
        snapshot: a metadata table.
    """
    if snapshot.options[ArchiveOptions.beyond_savepoint]:
        return ()
    return snapshot.data_timeline.savepoints


def free_time(snapshot: TableSnapshot, newest: str, suffix: str) -> str:
    """Return the requested time of a service of a metadata table below version 8.

    It's the time of the newest deltacommit with a suffix; the time of now if a service has that already: a plan of the
    table that is older than its newest commit may complete after a compaction. Hudi waits for the next commit then.

    Args:
        snapshot: the metadata table.
        newest: requested time of its newest deltacommit.
        suffix: the suffix of the service.
    """
    if snapshot.timeline.find(f"{newest}{suffix}") is None:
        return f"{newest}{suffix}"
    now_ms, zone = snapshot.meta.context.clock.now_ms(), snapshot.config.timezone
    return f"{new_instant(now_ms, snapshot.timeline.newest_time, zone)[:17]}{suffix}"
