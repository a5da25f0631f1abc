"""Rewrite file slices of a data table as of a plan: what compactions and clusterings have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pudi.client import read_history
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.settings import file_options
from pudi.commit.lease import ServiceLease
from pudi.format import CommitMetadata, WriteStat, stats_by_partition
from pudi.indexes.column_stats.statistics import indexed_columns
from pudi.plan import Merging
from pudi.schema import avro_to_arrow
from pudi.services.service import ServiceRun
from pudi.services.target import TargetSnapshot
from pudi.task.compact import CompactSpec


class RewritingRun(ServiceRun):
    """Base class of the runs of plans that rewrite file slices.

    Attributes:
        snapshot: the table as the run began with it.
        lease: the lease of the plan's instant.
    """

    snapshot: TargetSnapshot
    lease: ServiceLease

    @property
    def as_planned(self) -> TargetSnapshot:
        """The table for a reader of the run's instant: readers take files to have the columns of their instant."""
        return self.snapshot.seeing(self.snapshot.timeline.until(self.lease.instant.requested))

    def spec(self, merging: Merging) -> CompactSpec:
        """Return how the slices are rewritten.

        Args:
            merging: how a slice's log files are merged with its base file.
        """
        meta, then = self.snapshot.meta, self.as_planned
        return CompactSpec(
            instant=self.lease.instant.requested,
            run=self.lease.run,
            schema=then.schema,
            merging=replace(merging, memory=merging.memory.of_compaction, by_position=False),
            files=file_options(meta, self.snapshot.write_options, then.schema.columns.names),
            history=read_history(then),
            stats=indexed_columns(meta, avro_to_arrow(then.schema.avro)),
            layout=meta.store.layout,
        )

    def written(self, stats: Sequence[WriteStat], operation: str, of_plan: Mapping[str, str]) -> CommitMetadata:
        """Return the commit metadata of the run, which states the schema of the files.

        Args:
            stats: the write statistics of the files.
            operation: the operation type (WriteOperationType).
            of_plan: the plan's extra metadata.
        """
        then = self.as_planned
        by_id = then.schema_by_id
        extra = {**of_plan, SCHEMA_KEY: then.schema.avro}
        return CommitMetadata(
            stats_by_partition(stats),
            extra_metadata=extra if by_id is None else {**extra, INTERNAL_SCHEMA_KEY: by_id},
            operation_type=operation,
        )
