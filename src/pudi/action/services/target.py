"""The table that a service works on: a data table, or the metadata table of one, with that table's own options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pudi.action.mdt.client import open_metadata
from pudi.action.meta_client import MetaClient
from pudi.config import (
    ArchiveOptions,
    CleanOptions,
    CleanPolicy,
    CompactionOptions,
    MetadataOptions,
    Options,
    WriteOptions,
)
from pudi.config.option import Value
from pudi.format import CompactionOperation
from pudi.task import Engine, FileJob, FileResult
from pudi.timeline import Timeline, new_instant

_NEW_BASE = 120 << 20
"""Assumed size of a new base file in the metadata table, as in Hudi's plans."""
_SLICES = 2
"""Number of slices of a file group that a clean of a metadata table leaves."""
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
        return cls(open_metadata(meta), meta, engine, metadata_table_options(options))

    @property
    def is_metadata(self) -> bool:
        """Return whether the target is a metadata table."""
        return self.meta is not self.data

    @property
    def write_options(self) -> WriteOptions:
        """The options of heartbeats and failed writes."""
        return WriteOptions.of(self.options)

    def load_timeline(self) -> Timeline:
        """Load the table's timeline."""
        return self.meta.store.load() if self.timeline is None else self.timeline

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


def metadata_table_options(options: Options) -> Options:
    """Derive a metadata table's own options from its writer's (HoodieMetadataWriteUtils.createMetadataWriteConfig).

    Args:
        options: the writer's options of the data table.
    """
    least = options[ArchiveOptions.keep_min_commits] + 1
    own: dict[str, Value] = {
        CleanOptions.automatic.key: True,
        CleanOptions.policy.key: CleanPolicy.VERSIONS.value,
        CleanOptions.versions_retained.key: _SLICES,
        CleanOptions.regex.key: "",
        CleanOptions.selected.key: "",
        CleanOptions.run_async.key: False,
        CompactionOptions.inline.key: True,
        CompactionOptions.trigger.key: "NUM_COMMITS",
        CompactionOptions.max_delta_commits.key: options[MetadataOptions.max_delta_commits],
        CompactionOptions.strategy.key: "UnBoundedCompactionStrategy",
        CompactionOptions.log_inline.key: options[MetadataOptions.log_compaction],
        CompactionOptions.log_blocks_threshold.key: options[MetadataOptions.log_blocks_threshold],
        WriteOptions.max_file_size.key: _NEW_BASE,
        ArchiveOptions.keep_min_commits.key: least,
        ArchiveOptions.keep_max_commits.key: max(options[ArchiveOptions.keep_max_commits], least) + 1,
    }
    return replace(options, given={**options.given, **own})


def free_time(meta: MetaClient, timeline: Timeline, newest: str, suffix: str) -> str:
    """Return the requested time of a service of a metadata table below version 8.

    It's the time of the newest deltacommit with a suffix; the time of now if a service has that already: a plan of the
    table that is older than its newest commit may complete after a compaction. Hudi waits for the next commit then.

    Args:
        meta: the metadata table.
        timeline: its timeline.
        newest: requested time of its newest deltacommit.
        suffix: the suffix of the service.
    """
    if timeline.find(f"{newest}{suffix}") is None:
        return f"{newest}{suffix}"
    return f"{new_instant(meta.context.clock.now_ms(), timeline.newest_time, meta.config.timezone)[:17]}{suffix}"
