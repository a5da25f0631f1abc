"""Verbs of a `Table` that keep it fast and small, and end the life of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pudi.client import CommitResult, TableSnapshot
from pudi.config import ClusteringOptions, CompactionOptions, TtlOptions, resolve_only
from pudi.config.arguments import map_given, names_given, seconds_given, text_given
from pudi.context.runtime import lazy_module
from pudi.engine.local import LocalEngine
from pudi.errors import InvalidArgumentError
from pudi.table.base import VerbGroup, engine_of

if TYPE_CHECKING:
    from pudi.client import partitions as choosing
    from pudi.indexing import index_request, indexing
    from pudi.services import archive as archiving
    from pudi.services import async_services, partition_ttl, registry, runner, target
    from pudi.services import failures as failing
    from pudi.table import forget as forgetting
    from pudi.table import repair as repair_verb
    from pudi.table.forget import Forgotten
    from pudi.upgrade import maintenance
else:
    choosing = lazy_module("pudi.client.partitions")
    index_request = lazy_module("pudi.indexing.index_request")
    indexing = lazy_module("pudi.indexing.indexing")
    async_services = lazy_module("pudi.services.async_services")
    archiving = lazy_module("pudi.services.archive")
    failing = lazy_module("pudi.services.failures")
    maintenance = lazy_module("pudi.upgrade.maintenance")
    registry = lazy_module("pudi.services.registry")
    runner = lazy_module("pudi.services.runner")
    target = lazy_module("pudi.services.target")
    repair_verb = lazy_module("pudi.table.repair")
    forgetting = lazy_module("pudi.table.forget")
    partition_ttl = lazy_module("pudi.services.partition_ttl")

_INDEXES = frozenset({"record_index", "column_stats", "bloom_filters"})
"""Indexes that can be planned without more being said."""
_TRIGGER = (CompactionOptions.trigger, CompactionOptions.max_delta_commits, CompactionOptions.max_delta_seconds)


class MaintenanceVerbs(VerbGroup):
    """Verbs of `Table` about services."""

    def compact(
        self, *, log_compaction: bool = False, spark: Any = None, options: Mapping[str, str] | None = None
    ) -> CommitResult | None:
        """Merge log files into new base files for faster reads: run pending compactions, then plan and run one.

        Readers see the same records before and after; rows keep their commit times. Writers go on meanwhile. Which file
        groups are taken says `hoodie.compaction.strategy`.

        Args:
            log_compaction: merge the log files of file groups with many of them into one, and leave base files alone.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`. A trigger (`hoodie.compact.inline.…`) counts only
                where it's given here: then nothing is planned before it says so.

        Returns:
            What the last run did; None when there is nothing to compact.

        Raises:
            InvalidArgumentError: it's a copy-on-write table, or a wrong option.
            NotSupportedError: the table is of a kind that this release can't compact.
            ConflictError: another process runs the plan, or a commit that it includes was rolled back; nothing is
                published.
        """
        on = self._target(spark, options)
        service = registry.service_named("log_compaction" if log_compaction else "compaction", self._path)
        return runner.run_on_request(service, on, when_due=_names_trigger(options))

    def clean(self, *, spark: Any = None, options: Mapping[str, str] | None = None) -> CommitResult | None:
        """Delete old file slices: run pending cleans, then plan and run one.

        The newest slice of each file group always stays, and so do slices that a savepoint names, that a pending
        compaction reads, or that readers of retained commits need (`hoodie.clean.policy`). Earlier states of the table
        can't be read afterwards: such reads raise a `NotFoundError`, which names the earliest commit left if the policy
        retains commits or hours. Writers and readers go on meanwhile.

        Args:
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What the last run deleted; None when there is nothing to delete.

        Raises:
            InvalidArgumentError: a wrong option.
            NotSupportedError: the table is of a kind that this release can't write.
            ConflictError: another process runs the plan.
        """
        return runner.run_on_request(registry.service_named("clean", self._path), self._target(spark, options))

    def archive(self, *, options: Mapping[str, str] | None = None) -> int:
        """Move old commits from the active timeline to the archive, with the cleans and rollbacks that are older.

        They are read as before: by time travel, changes and `timeline`, which look into the archive where they reach
        back so far. Commits stay that a savepoint, a pending instant, the trigger of compactions or a reader of the
        metadata table needs, and replacecommits whose old file groups haven't been cleaned.

        Args:
            options: this call's options, over those of the `Table`: `hoodie.keep.min.commits`, ….

        Returns:
            The number of archived instants.

        Raises:
            InvalidArgumentError: a wrong option.
            CorruptError: an instant or the archive can't be read.
        """
        on, service = self._target(None, options), archiving.Archive()
        moved = service.run(on)
        if failing.read_failure(on.meta.storage, service.name) is not None:
            failing.clear_failure(on, service.name)
        return moved

    def cluster(
        self,
        *,
        order_by: str | Sequence[str] | None = None,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        where: str | None = None,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Bring records in order, and small files to size: run pending clusterings, then plan and run one.

        A filter over the columns to order by then reads fewer files. Readers see the same records before and after;
        rows keep their commit times. File groups below `hoodie.clustering.plan.strategy.small.file.limit` are taken,
        and replaced by new ones of `hoodie.clustering.plan.strategy.target.file.max.bytes`. A write that changes a
        record of these file groups meanwhile fails with a `ConflictError`; other writes go on. In a table with
        consistent hashing, large buckets are split instead, and small ones merged.

        Args:
            order_by: columns to order by; without any, files are only brought to size.
            layout: `linear` orders by one column after the other, `zorder` and `hilbert` along a curve through all of
                them: then filters over each column read fewer files. Linear by default.
            partitions: partition paths to take; None for all, or those that the options choose.
            where: instead of paths, a predicate over partition columns.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What the last run did; None when there is nothing to cluster.

        Raises:
            InvalidArgumentError: a wrong option, or a column whose values have no order.
            SchemaError: there is no column of that name.
            NotSupportedError: the table is of a kind that can't be clustered, as one with a fixed number of buckets.
            ConflictError: another process runs the plan, or one changed its file groups; nothing is published.
        """
        given = map_given(options, "options", self._path)
        if where is not None:
            if partitions is not None:
                raise InvalidArgumentError("cluster takes either partition paths or where", table=self._path)
            partitions = choosing.partitions_where(TableSnapshot.load(self._meta.reopen({})), where)
            if not partitions:
                return None
        asked = {
            ClusteringOptions.sort_columns.key: _listed(order_by, "order_by"),
            ClusteringOptions.layout.key: layout,
        }
        if partitions is not None:
            asked |= ClusteringOptions.of_partitions(names_given(partitions, "partitions", self._path))
        on = self._target(spark, given | {key: text for key, text in asked.items() if text is not None})
        return runner.run_on_request(registry.service_named("clustering", self._path), on)

    def maintain(
        self, *, dry_run: bool = False, spark: Any = None, options: Mapping[str, str] | None = None
    ) -> maintenance.Maintenance:
        """Do all that the table needs now, in the right order, with a reason for what is done and what is left.

        Writes whose writers died are rolled back, pending plans are run, then the services that are due: compaction,
        clustering if the options ask for it, cleaning and archiving, of the table and of its metadata table; at last,
        files that dead writers left are deleted. Writers and readers go on meanwhile. A step that fails doesn't keep
        the others from being done; a service that failed more than once in a row is left until it's tried again, first
        after a minute, in the end after an hour.

        Args:
            dry_run: change nothing, and say what would be done.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`: what is due, and what stays.

        Returns:
            The steps; `ok` is false if one failed.

        Raises:
            ConflictError: a write is pending that may be alive and gives no sign of life, or a restore is pending.
            InvalidArgumentError: a wrong option.
            NotSupportedError: the table is of a kind that this release can't write.
            CorruptError: the table's properties or its timeline can't be read.
        """
        meta, resolved = self._for_call(options)
        return maintenance.maintain(
            meta, engine_of(None, spark), resolved, maintenance.MaintenanceRequest(dry_run=dry_run)
        )

    def wait_for_services(self, seconds: float | None = None) -> async_services.ServicesReport:
        """Wait for the services that run beside writes of this process (`hoodie.clean.async.enabled` and its like).

        Call it where a job ends, before the Spark session is stopped, or to see whether a service failed. Services of
        other processes don't count.

        Args:
            seconds: how long to wait; None for as long as it takes, 0 to look only.

        Returns:
            The errors of services that failed at their last run, and what isn't done yet; `ok` is true without either.

        Raises:
            InvalidArgumentError: `seconds` is no number of 0 or more.
        """
        if seconds is not None:
            seconds_given(seconds, "seconds", self._path)
        return async_services.wait_for_services(self._meta, seconds)

    def repair(
        self,
        *,
        confirm: Callable[[repair_verb.RepairPlan], bool] | None = None,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> repair_verb.RepairResult:
        """Check the table, rebuild damaged parts of its metadata table, and delete files of dead writers.

        Partitions of the metadata table are built from the table's files, with the columns and the kind that they had;
        those that this release can't build are dropped: readers do without them. Writers wait meanwhile. What the
        metadata table has no part in, lost or damaged files and record keys that are there twice, is named and left.

        Args:
            confirm: asked with the plan before anything is done, where there is something to do; None: do it.
            spark: a session to work on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What was found, what was done, and what a check finds now.

        Raises:
            ConflictError: a write is pending that gives no sign of life but was touched lately; another process is at
                work on the metadata table; or, below version 8, anything is pending. Nothing was done then.
        """
        if confirm is not None and not callable(confirm):
            raise InvalidArgumentError(
                f"confirm is a function of the plan, not {type(confirm).__name__}", table=self._path
            )
        meta, resolved = self._for_call(options)
        meta.reload()
        return repair_verb.repair_table(meta, engine_of(None, spark), resolved, confirm, on_cluster=spark is not None)

    def schedule(self, service: str, *, options: Mapping[str, str] | None = None) -> str | None:
        """Plan a table service, for any process to run (`run_pending`, or Apache Hudi).

        Args:
            service: `compaction`, `log_compaction`, `clustering` or `clean`; or an index to build: `record_index`,
                `column_stats` or `bloom_filters`.
            options: as of `compact`.

        Returns:
            The instant of the plan; None when there is nothing to do.

        Raises:
            NotSupportedError: another service, or the table is of a kind that this release can't compact.
            InvalidArgumentError: it's a copy-on-write table, or a wrong option.
        """
        if text_given(service, "service", self._path) in _INDEXES:
            return self._schedule_index(service, options)
        planned = registry.service_named(service, self._path)
        instant = runner.schedule(planned, self._target(None, options), when_due=_names_trigger(options))
        return None if instant is None else instant.requested

    def run_pending(
        self,
        *,
        service: str | None = None,
        instants: str | Sequence[str] | None = None,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> list[CommitResult]:
        """Run planned compactions, clusterings and cleans that no process runs, whoever planned them, oldest first.

        Then build the indexes that are planned, unless a service is named. A run that died is done again from its plan;
        one that is alive is left alone.

        Args:
            service: run the plans of this service alone: `compaction`, `log_compaction`, `clustering` or `clean`.
            instants: requested times of the plans to run, or that of one; None for all.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Raises:
            NotFoundError: a file that a plan names is missing.
            NotSupportedError: another service.
            PudiError: as `compact`.
        """
        on = self._target(spark, options)
        wanted = None if service is None else text_given(service, "service", self._path)
        names = None if wanted is None else {registry.service_named(wanted, self._path).name}
        chosen = None if instants is None else names_given(instants, "instants", self._path)
        done = runner.run_pending(on, names, chosen)
        return done if service is not None else [*done, *indexing.run_pending_indexes(on.meta, on.engine, on.options)]

    def _target(self, spark: Any, options: Mapping[str, str] | None) -> target.ServiceTarget:
        """Return the table as services work on it in one call."""
        meta, resolved = self._for_call(options)
        return target.ServiceTarget.of_table(meta, engine_of(None, spark), resolved)

    def _schedule_index(self, kind: str, options: Mapping[str, str] | None) -> str:
        """Plan an index that a table can have only once; return the instant of the plan."""
        own, settings = index_request.split_options(options)
        meta, resolved = self._for_call(own)
        request = index_request.IndexRequest(kind, settings=settings)
        spec = index_request.requested_index(request, meta.config.version, resolved, meta.storage.root)
        return indexing.schedule_index(meta, LocalEngine(), spec, resolved).requested


def _listed(names: str | Sequence[str] | None, what: str) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names_given(names, what))


def _names_trigger(options: Mapping[str, str] | None) -> bool:
    return bool(resolve_only(options or {}, _TRIGGER).given)


class RetentionVerbs(VerbGroup):
    """Verbs of `Table` about retention."""

    def run_ttl(self, *, spark: Any = None, options: Mapping[str, str] | None = None) -> CommitResult | None:
        """Delete the partitions whose days are over, by `hoodie.partition.ttl.strategy.days.retain` and its like.

        As with `delete_partitions`, readers don't see their records any more, and the next cleans delete the files. A
        partition that a pending compaction or clustering works on waits until its plan has been run. `maintain` with
        `dry_run` names the partitions that are due.

        Args:
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done; None if no partition is due.

        Raises:
            InvalidArgumentError: a wrong option, or no number of days above 0, at which Hudi does nothing.
            NotSupportedError: a strategy that pudi doesn't know, or a table that this release can't write.
            ConflictError: another process wrote to one of the partitions meanwhile; nothing was deleted.
        """
        meta, resolved = self._for_call(options)
        options_of = TtlOptions.of(resolved)
        if options_of.days <= 0:
            raise InvalidArgumentError(
                f"{TtlOptions.days.key} is {options_of.days}: no partition would ever be deleted; give a number "
                "of days above 0",
                table=meta.storage.root,
            )
        meta.reload()
        on = target.ServiceTarget.of_table(meta, engine_of(None, spark), resolved)
        return partition_ttl.PartitionTtl().run(on)

    def forget(
        self,
        where: str,
        *,
        dry_run: bool = False,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> Forgotten:
        """Delete records for good: delete them, then compact and clean until no file of the table holds them.

        All versions of the records go that match `where` now, and those of records that were deleted before and once
        matched. Of records that are in the table and don't match any more, the versions that matched go. For that,
        pending plans are run, file groups whose log files hold some are compacted, and older slices of the whole table
        are deleted: earlier states of the table can't be read afterwards. Before and after, every file on storage is
        read, those of the metadata table too. Savepoints are left alone; the result says what they keep.

        Args:
            where: SQL predicate.
            dry_run: change nothing, and say which files hold the records.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`. Where a clean's retention is given here
                (`hoodie.clean.policy`, `hoodie.clean.commits.retained`, …), older slices stay as long as it says.

        Returns:
            What was done, and each file that still holds some, with what keeps it; `ok` is true without any.

        Raises:
            InvalidArgumentError: an unknown column, or a wrong predicate.
            NotSupportedError: SQL beyond the subset, or a table that this release can't write.
            ConflictError: other writers won; nothing was deleted.
        """
        meta, resolved = self._for_call(options)
        retains = bool(resolve_only(options or {}, forgetting.RETENTION).given)
        engine, on_cluster = engine_of(None, spark), spark is not None
        return forgetting.forget(meta, engine, resolved, forgetting.ForgetRequest(where, dry_run, retains, on_cluster))
