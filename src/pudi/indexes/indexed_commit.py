"""A commit whose changes go into the indexes: when its tasks are planned, when it is prepared, and under the lock.

Its tasks may have staged entries of indexes together with the files that they wrote (`WrittenEntries`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.format import CommitMetadata, FileGroupId
from pudi.metadata import MetadataTable
from pudi.metadata.changes import Changes
from pudi.metadata_write.index_logs import StagedKeyChanges
from pudi.plan.entry_staging import EntryStaging
from pudi.schema.internal import SchemaHistory
from pudi.tagging import Index
from pudi.task import Engine, FileJob, FileResult
from pudi.task.expression_values import ExpressionStaging, IndexedValues
from pudi.task.staged_keys import StagedKeys
from pudi.timeline import Instant
from pudi.timeline.plan_runs import PlanRun


@dataclass(frozen=True, slots=True)
class WrittenEntries:
    """The entries of indexes that the tasks of a write have staged with the files that they wrote.

    Attributes:
        stagings: how the tasks stage entries, one for each index that they stage entries of.
        results: the tasks' results.
    """

    stagings: tuple[EntryStaging, ...] = ()
    results: Sequence[FileResult] = ()

    def staging(self, index: str) -> EntryStaging | None:
        """Return how the tasks stage an index's entries; None if they don't.

        Args:
            index: its partition of the metadata table.
        """
        return next((each for each in self.stagings if each.index == index), None)

    def values(self, staging: ExpressionStaging) -> dict[tuple[str, str], IndexedValues]:
        """Return the values of an expression index by partition path and name of the file.

        Args:
            staging: how the index is maintained now; none are returned if the tasks maintained another index.
        """
        used = self.staging(staging.index)
        if not isinstance(used, ExpressionStaging) or used.spec != staging.spec:
            return {}
        return {
            (each.partition, each.file): each
            for result in self.results
            for each in result.staged
            if isinstance(each, IndexedValues) and each.index == staging.index
        }

    def keys(self, index: str) -> dict[FileGroupId, StagedKeys]:
        """Return the staged keys of a record-level index by partition path and file id.

        Args:
            index: its partition of the metadata table.
        """
        return {
            FileGroupId(result.stat.partition_path or "", result.stat.file_id or ""): each
            for result in self.results
            if result.stat is not None
            for each in result.staged
            if isinstance(each, StagedKeys) and each.index == index
        }


@dataclass(frozen=True, slots=True)
class IndexStaging:
    """Means by which a commit finds its changes of indexes whose entries depend on the content of files.

    Attributes:
        engine: runs the jobs.
        snapshot: the table, as the commit was planned by it, with the writer's options.
        index: the index that the commit located its records by.
        entries: what the commit's tasks have staged of indexes.
        run: the run of a plan that commits; None for a write.
    """

    engine: Engine
    snapshot: TableSnapshot
    index: Index = field(default_factory=Index)
    entries: WrittenEntries = field(default_factory=WrittenEntries)
    run: PlanRun | None = None


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A write whose tasks are about to start.

    Attributes:
        snapshot: the table, as the write was planned by it, with the writer's options.
        requested: requested time of the commit.
        schema: the table's columns after the write, without meta fields.
        index: the index that locates the records.
        history: the schemas of older files, in a table with schema on read.
    """

    snapshot: TableSnapshot
    requested: str
    schema: pa.Schema
    index: Index
    history: SchemaHistory | None

    @property
    def meta(self) -> MetaClient:
        """The table."""
        return self.snapshot.meta


@dataclass(frozen=True, slots=True)
class RemovedFiles:
    """Data files that an action deleted.

    Attributes:
        files: their names, by partition path.
    """

    files: Mapping[str, tuple[str, ...]]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Partition path and name of each."""
        return [(partition, name) for partition, names in self.files.items() for name in names]


@dataclass(frozen=True, slots=True)
class IndexedCommit:
    """A commit whose changes go into the indexes.

    Attributes:
        meta: the table.
        instant: the inflight instant.
        written: the commit's metadata.
        staging: how its files are read; None if it changes no file.
        removed: the files that it deleted; None for none.
        on_jobs: called before jobs run, which leave files among the instant's markers; None for nothing to call.
    """

    meta: MetaClient
    instant: Instant
    written: CommitMetadata
    staging: IndexStaging | None
    removed: RemovedFiles | None = None
    on_jobs: Callable[[], None] | None = None

    def run(self, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run jobs on the engine, with the table's storage. Only a commit that changes files has any."""
        if not jobs:
            return ()
        assert self.staging is not None
        if self.on_jobs is not None:
            self.on_jobs()
        return self.staging.engine.run_jobs(self.meta.storage, self.instant.requested, jobs)


@dataclass(frozen=True, slots=True)
class LockedCommit:
    """The state of the table when a commit holds its lock.

    Attributes:
        snapshot: the table as it is now.
        table: the metadata table as it is before the commit.
        maintained: the partitions of the metadata table that commits maintain.
    """

    snapshot: TableSnapshot
    table: MetadataTable
    maintained: frozenset[str]


class CommitChanges:
    """Changes that one commit makes to the indexes of one kind; none, unless the kind defines some.

    Attributes:
        keys: the changes of record-level indexes, whose log files are written before the lock is taken.
    """

    keys: Sequence[StagedKeyChanges] = ()

    def changes(self, locked: LockedCommit) -> Mapping[str, Changes | None]:
        """Return the records that change, by partition of the metadata table, under the table's lock.

        An index may be among `locked.maintained` that wasn't when the changes were prepared.
        """
        return {}

    def finish(self, locked: LockedCommit) -> None:
        """Do what follows the metadata table's deltacommit, under the table's lock."""
        return


@dataclass(frozen=True, slots=True)
class KeyChanges(CommitChanges):
    """Changes of record-level indexes alone."""

    keys: Sequence[StagedKeyChanges] = ()
