"""Verbs of a `Table` that show what it is, what happened to it, and what single instants say; they change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import TableSnapshot
from pudi.config import resolve
from pudi.config.arguments import names_given
from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, NotFoundError
from pudi.filegroup import clustering_plan, compaction_plan
from pudi.format import Action, CommitMetadata
from pudi.plan import Selection
from pudi.scan import snapshot_scan
from pudi.table.base import VerbGroup, engine_of
from pudi.timeline import Instant, Timeline

if TYPE_CHECKING:
    from pudi.table import check as check_verb
    from pudi.table import description, diagnosis, metadata_records, slices
    from pudi.table import doctor as doctor_verb
    from pudi.table import history as history_verb
else:
    check_verb = lazy_module("pudi.table.check")
    description = lazy_module("pudi.table.description")
    diagnosis = lazy_module("pudi.table.diagnosis")
    doctor_verb = lazy_module("pudi.table.doctor")
    history_verb = lazy_module("pudi.table.history")
    metadata_records = lazy_module("pudi.table.metadata_records")
    slices = lazy_module("pudi.table.slices")


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A plan of a compaction or clustering.

    Attributes:
        instant: its requested time.
        state: `REQUESTED`, `INFLIGHT` or `COMPLETED`.
        groups: the file slices that a compaction merges, the groups of them that a clustering brings together.
        partitions: their partition paths, sorted.
    """

    instant: str
    state: str
    groups: int
    partitions: tuple[str, ...]


class InstantVerbs(VerbGroup):
    """Verbs of `Table` about instants."""

    def commit_metadata(self, instant: str) -> CommitMetadata:
        """Return the metadata of a completed write, archived ones included.

        Args:
            instant: its requested time.

        Raises:
            NotFoundError: there is no such write.
            CorruptError: it can't be read.
        """
        return self._meta.store.read_commit_metadata(self._found(instant, writes=True))

    def instant_content(self, instant: str) -> Mapping[str, Any]:
        """Return the content of a completed instant that is no write, by Avro's names: a clean, rollback, ….

        Args:
            instant: its requested time.

        Raises:
            NotFoundError: there is no such instant.
            CorruptError: it can't be read.
        """
        return self._meta.store.decoded(self._found(instant, writes=False))

    def service_plans(self, service: str) -> list[ServicePlan]:
        """The plans of a service on the active timeline, newest first, pending and completed ones.

        Args:
            service: `compaction` or `clustering`.

        Raises:
            InvalidArgumentError: another service.
            CorruptError: a plan can't be read.
        """
        timeline = self._snapshot().timeline
        if service == "compaction":
            found = self._compactions(timeline)
        elif service == "clustering":
            found = self._clusterings(timeline)
        else:
            raise InvalidArgumentError(f"plans of {service!r}: it is compaction or clustering")
        return sorted(found, key=lambda plan: plan.instant, reverse=True)

    def _compactions(self, timeline: Timeline) -> list[ServicePlan]:
        store, plans = self._meta.store, []
        for instant in timeline.pending_of(Action.COMPACTION):
            groups = [operation.group for operation in compaction_plan(store, instant).operations]
            plans.append(_plan(instant, len(groups), {partition for partition, _ in groups}))
        for instant in timeline.of(Action.COMMIT) if self._meta.merges_on_read else ():
            metadata = store.read_commit_metadata(instant)
            files = metadata.partition_to_write_stats
            plans.append(_plan(instant, sum(map(len, files.values())), {p for p, stats in files.items() if stats}))
        return plans

    def _clusterings(self, timeline: Timeline) -> list[ServicePlan]:
        store, plans = self._meta.store, []
        completed = [
            replace(instant, action=Action.CLUSTERING)
            for instant in timeline.of(Action.REPLACECOMMIT)
            if store.read_commit_metadata(instant).is_clustering
        ]
        pending = timeline.pending_of(Action.CLUSTERING)
        for instant in (*completed, *pending):
            plan = clustering_plan(store, instant)
            plans.append(_plan(instant, len(plan.groups), {each.partition_path for each in plan.slices}))
        return plans

    def _found(self, instant: str, *, writes: bool) -> Instant:
        def find(instants: Iterable[Instant]) -> Instant | None:
            found = (each for each in instants if each.requested == instant and each.is_completed)
            return next((each for each in found if each.is_write == writes), None)

        known = find(self._snapshot().timeline.instants) or find(self._meta.store.archived())
        if known is not None:
            return known
        raise NotFoundError(f"there is no completed {'write' if writes else 'action'} {instant}", table=self._path)


def _plan(instant: Instant, groups: int, partitions: set[str]) -> ServicePlan:
    return ServicePlan(instant.requested, instant.state.name, groups, tuple(sorted(partitions)))


class InspectionVerbs(InstantVerbs):
    """Verbs of `Table` that describe it."""

    def describe(self, *, options: Mapping[str, str] | None = None) -> description.TableDescription:
        """Return what the table is: properties, columns, indexes, sizes, last commits, what is pending and what is due.

        No data file is read. Files are listed once, by the metadata table where there is one.

        Args:
            options: this call's options, over those of the `Table`: what is due.

        Raises:
            CorruptError: its properties or its timeline can't be read. What else can't be read is in `problems`.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        return description.describe(TableSnapshot.load(meta, resolved))

    def head(
        self,
        n: int = 10,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        as_of: str | datetime | None = None,
        meta_fields: bool = False,
    ) -> pa.Table:
        """Return some rows, whichever are found first; reading ends with them.

        Without `where` as many files are read as it takes to have the rows, one after the other, each row group by row
        group, or wholly where log files are merged over it.

        Args:
            n: how many rows at most.
            columns: as in `scan`.
            where: as in `scan`.
            as_of: as in `scan`.
            meta_fields: whether the meta fields come with all columns.

        Raises:
            InvalidArgumentError: an unknown column, a wrong predicate, `as_of` no point in time, `n` below 0.
            NotSupportedError: the predicate uses SQL beyond the subset.
            NotFoundError: the cleaner has removed what the table was then.
            CorruptError: a file can't be read.
        """
        options = resolve(self._options)
        selection = Selection(columns, where, meta_fields, limit=n)
        return snapshot_scan(TableSnapshot.load(self._meta, options), selection, as_of=as_of).to_arrow()

    def history(self, limit: int | None = None, *, archived: bool = False) -> list[history_verb.HistoryEntry]:
        """Return what happened to the table: its instants, newest first, pending ones too.

        An instant whose content can't be read has the reason in `problem`. Memory grows with the number of entries, not
        with the archive.

        Args:
            limit: how many; archived ones too where the active timeline has fewer. None for the active timeline.
            archived: without a limit, all of the archive too.

        Raises:
            InvalidArgumentError: the limit is below 1.
            CorruptError: the archive can't be read.
        """
        return history_verb.history(self._snapshot(), limit, archived=archived)

    def files(
        self,
        *,
        everything: bool = False,
        as_of: str | datetime | None = None,
        partitions: str | Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> list[slices.SliceInfo]:
        """Return the table's file slices with their files, sizes and numbers of records, and what holds older ones.

        What holds a slice follows from the rules of cleaning: the policy, a pending plan, savepoints. Files of writes
        that haven't completed belong to no slice; `doctor` tells of those that were left behind.

        Args:
            everything: older slices and replaced file groups too, as long as their files are there.
            as_of: instead of now, the moment at which slices are those of the table; as in `scan`. Below table
                version 8 slices have their later log files too, whose later blocks readers pass over.
            partitions: paths of the partitions to list; None for all.
            options: this call's options, over those of the `Table`: what a clean retains.

        Returns:
            The slices by partition path and file id, the newest one of a file group first.

        Raises:
            InvalidArgumentError: `everything` and `as_of` are both given, or a wrong option or time.
            NotFoundError: the cleaner has removed what the table was then.
            CorruptError: the timeline, a savepoint or a pending plan can't be read.
        """
        meta, resolved = self._for_call(options)
        chosen = None if partitions is None else names_given(partitions, "partitions", self._path)
        return slices.list_files(
            TableSnapshot.load(meta, resolved), everything=everything, as_of=as_of, partitions=chosen
        )

    def metadata_records(self) -> pa.Table:
        """Return all records of the metadata table, with the columns of Hudi's `hudi_metadata`.

        `type` says what a record is: 1 the list of partitions, 2 the files of one, 3 statistics of a column in a file,
        4 a bloom filter, 5 a record key, 6 statistics of a column in a partition, 7 a value of a secondary index.

        Raises:
            NotFoundError: the table has no metadata table.
            CorruptError: it can't be read, or a writer left it behind.
        """
        return metadata_records.read_records(self._snapshot())

    def check(self, *, spark: Any = None) -> check_verb.CheckResult:
        """Compare the metadata table with the table's files, and look for duplicate record keys.

        Compared are the list of files, statistics of files and partitions, bloom filters of base files, the place of
        every record key, and secondary indexes; files that commits wrote must be there and readable. The whole table
        is read as it is when the check begins, in memory that doesn't grow with it: one task holds the keys of one file
        group of an index.

        Args:
            spark: a session to read it with; its tasks write interim files to the table's marker folder while they run.
                None reads on this machine and writes nothing there.

        Returns:
            The errors; `ok` is true without any.

        Raises:
            CorruptError: the table's properties or its timeline can't be read.
        """
        return check_verb.check_table(self._meta.reopen({}), engine_of(None, spark), on_cluster=spark is not None)

    def doctor(self, *, options: Mapping[str, str] | None = None) -> diagnosis.Diagnosis:
        """Examine the state of the table from its listing and its timeline; reads no data files.

        Args:
            options: this call's options, over those of the `Table`: `hoodie.parquet.small.file.limit` says which files
                are small; where options of a sync are on, what is registered is compared with the table.

        Returns:
            Facts, programs that can read and write it, files by size, pending instants and their effects, and advice.

        Raises:
            CorruptError: its timeline can't be read.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        return doctor_verb.examine(meta, resolved)
