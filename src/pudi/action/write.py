"""Write in one commit: keys, tagging, placing, files, and the completed instant that makes them visible.

`Write` is the frame: checks, repair, the pending instant, the files, the conflict check and the completion. Verbs that
take no records, or replace file groups, are made of it in modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from pudi.action.meta_client import SCHEMA_KEY, MetaClient
from pudi.action.presence import check_present, files_written
from pudi.action.result import CommitResult
from pudi.action.rollback import repair, take_back
from pudi.action.steps import add_partitions, remove_leftovers, switch_metadata_table_off
from pudi.concurrency import ConflictCheck, Heartbeat
from pudi.config import Options, WriteOptions, check_consistent, check_writable
from pudi.errors import ConflictError, InvalidArgumentError, NotFoundError, NotSupportedError, PudiError
from pudi.filegroup import FileSlice, Markers, ParquetOptions
from pudi.format import (
    Action,
    BloomOptions,
    CommitMetadata,
    State,
    WriteStat,
    encode_commit_metadata,
    new_file_id,
)
from pudi.merge import MergeMode, MergeRule
from pudi.plan import Operation, PartitionTask, WritePlan, WriteProfile, WriteSpec, place, whole_partitions
from pudi.plan.write import NO_INSERTS, Sizing, SortMode, average_record_bytes, with_flag
from pudi.schema import add_meta_fields, avro_to_arrow, unwritable_columns, without_meta_fields
from pudi.task import Engine, FileResult, KeyLookup
from pudi.task.engine import InputSpec
from pudi.timeline import Instant, Timeline

_Plan: TypeAlias = WritePlan | tuple[PartitionTask, ...]

_SIZE_SAMPLE_COMMITS = 5
"""How many commits back the size of a record is looked for."""


def write(
    meta: MetaClient,
    engine: Engine,
    data: Any,
    operation: Operation,
    resolved: Options,
    extra_metadata: Mapping[str, str] | None = None,
) -> CommitResult | None:
    """Write `data` in one commit.

    Args:
        meta: the table.
        engine: who does the work.
        data: the records, in a form that the engine takes.
        operation: what to do with them.
        resolved: the writer's options.
        extra_metadata: more to say in the commit.

    Returns:
        What was done, or None when there are no records.

    Raises:
        NotSupportedError: the table is of a kind that this release can't write.
        InvalidArgumentError: the data doesn't fit the table; nothing was written.
        ConflictError: another writer won; nothing of this write is visible.
    """
    options = WriteOptions.of(resolved)
    if operation is Operation.UPSERT and options.drop_duplicates:  # HoodieSparkSqlWriter.deduceOperation
        operation = Operation.INSERT
    if operation is Operation.BULK_INSERT and options.duplicates != "none":
        raise NotSupportedError(
            "bulk_insert doesn't look for keys, so it can't leave out or refuse those that are there: use insert",
            table=meta.storage.root,
        )
    return Write(meta, engine, operation, resolved, options, dict(extra_metadata or {})).run(data)


@dataclass
class Write:
    """One write, from the check of its input to its result.

    Args:
        meta: the table.
        engine: who does the work.
        operation: what is done.
        resolved: the writer's options.
        options: their typed view.
        extra_metadata: more to say in the commit.
        flagged: whether records come with a flag for deletes, see `WriteSpec`.
    """

    meta: MetaClient
    engine: Engine
    operation: Operation
    resolved: Options
    options: WriteOptions
    extra_metadata: dict[str, str]
    phases: dict[str, float] = field(default_factory=dict)
    flagged: bool = False

    def run(self, data: Any) -> CommitResult | None:
        """Write; see `write`."""
        meta = self.meta
        began = meta.context.clock.monotonic()
        meta.reload()
        check_writable(meta.config, meta.storage.root, self.resolved)
        check_consistent(meta.config, self.resolved, meta.storage.root)
        schema_json = meta.schema_json(meta.store.load())
        schema = self._writable_schema(schema_json)
        with self._phase("prepare"):
            records = self._take_in(data, schema)
        try:
            if self.operation is not Operation.BULK_INSERT:
                with self._phase("count"):
                    idle = self._idle(records)
                if idle:
                    return None
            with self._phase("repair"):
                timeline = repair(meta, self.options)
                switch_metadata_table_off(meta, self.resolved)
            self._check_schema(timeline, schema_json)
            if self.operation is Operation.BULK_INSERT:
                done = self._commit(timeline, schema_json, records, None)
            else:
                tagged, plan = self._plan(timeline, records)
                if isinstance(plan, WritePlan) and not plan.tasks and not self._replaces_some:
                    return None
                done = self._commit(timeline, schema_json, tagged, plan)
        finally:
            records.release()
        if done is None:
            return None
        return CommitResult.of(*done, meta.context.clock.monotonic() - began, self.phases)

    def _take_in(self, data: Any, schema: pa.Schema) -> Any:
        """The records, checked and with their keys."""
        return self.engine.prepare(data, self._input_spec(schema))

    def _idle(self, records: Any) -> bool:
        """Whether there is nothing to do, so that no commit is made; raises where the records don't fit the verb."""
        return not records.counts

    @property
    def _replaced(self) -> Mapping[str, tuple[str, ...]] | None:
        """Ids of the file groups that this write takes out of the table, by partition path; None for plain commits."""
        return None

    @property
    def _replaces_some(self) -> bool:
        return any((self._replaced or {}).values())

    def _pending_contents(self) -> tuple[bytes, bytes]:
        """What the requested and the inflight file say."""
        return b"", b""

    def _writable_schema(self, schema_json: str) -> pa.Schema:
        unwritable = unwritable_columns(schema_json)
        if unwritable:
            raise NotSupportedError(
                f"column {unwritable[0]!r} has an Avro type that pudi reads but can't write back as the table words it "
                "(milliseconds, time of day, enum, decimal in bytes); write this table with Apache Hudi",
                table=self.meta.storage.root,
            )
        return without_meta_fields(avro_to_arrow(schema_json))

    def _input_spec(self, schema: pa.Schema) -> InputSpec:
        return InputSpec(
            table=self.meta.storage.root,
            schema=with_flag(schema) if self.flagged else schema,
            keys=self.meta.keys,
            keys_only=self.operation is Operation.DELETE,
        )

    def _plan(self, timeline: Timeline, records: Any) -> tuple[Any, _Plan]:
        """Decide which files to write, or which partitions: then their tasks find out the files."""
        meta = self.meta
        with self._phase("list"):
            slices = self._slices(timeline, sorted(records.counts))
        limits = self.engine.whole_limits
        new_only = self.operation is Operation.INSERT and self.options.duplicates != "none"
        if limits is not None and records.counts and not new_only:
            sizing = NO_INSERTS if self.operation is Operation.DELETE else self._sizing(timeline, records)
            whole = whole_partitions(records.counts, slices, sizing, limits)
            if whole is not None:
                return records, whole
        with self._phase("tag"):
            lookups = [KeyLookup(s) for s in slices] if self.operation.looks_up or new_only else []
            tagged = self.engine.tag(records, meta.storage, lookups)
            if new_only:
                tagged = self._new(tagged)
            profile: WriteProfile = tagged.profile
        if self.operation is Operation.DELETE:  # keys that are not there are no error, and nothing to do
            profile = WriteProfile(profile.updates, {})
        unique = meta.context.new_id()
        sizing = self._sizing(timeline, records) if any(profile.inserts.values()) else NO_INSERTS
        plan = place(profile, slices, sizing, lambda number: new_file_id(unique, number))
        return tagged, plan

    def _new(self, tagged: Any) -> Any:
        """The records whose key the table doesn't hold; raises where others are to be refused."""
        known = sum(tagged.profile.updates.values())
        if known and self.options.duplicates == "fail":
            raise InvalidArgumentError(
                f"{known} records have a key that the table holds already; nothing was written. Use upsert, or "
                "hoodie.datasource.insert.dup.policy=drop to leave them out",
                table=self.meta.storage.root,
            )
        return tagged.new_only() if known else tagged

    def _slices(self, timeline: Timeline, partitions: Sequence[str] | None) -> list[FileSlice]:
        """The latest slices of some partitions, None for all; that the newest commit's files are there is sure."""
        meta = self.meta
        view = meta.view(timeline)
        try:
            slices = view.all_slices() if partitions is None else view.slices_of(partitions)
        except NotFoundError as error:
            raise ConflictError(
                f"another writer changed the table while this write was planned ({error.message}); retry",
                table=meta.storage.root,
            ) from error
        newest = files_written(meta, meta.commits_by_completion(timeline)[-1:])
        seen = {group: t for group, t in newest.items() if partitions is None or group[0] in partitions}
        check_present(meta, view, slices, seen)
        return slices

    def _sizing(self, timeline: Timeline, records: Any) -> Sizing:
        options, store = self.options, self.meta.store
        recent = self.meta.commits_by_completion(timeline)[-_SIZE_SAMPLE_COMMITS:]
        default = min(float(options.record_size_estimate), records.record_bytes or float("inf"))
        size = average_record_bytes(
            (store.commit_metadata(i) for i in reversed(recent)), options.small_file_limit, int(max(1, default))
        )
        return Sizing(options.small_file_limit, options.max_file_size, size)

    def _commit(
        self, timeline: Timeline, schema_json: str, records: Any, plan: _Plan | None
    ) -> tuple[Instant, CommitMetadata] | None:
        """Write the files and complete the instant; on any failure nothing of it stays."""
        meta = self.meta
        with self._pending(*self._pending_contents()) as instant:
            spec = self._spec(instant.requested, schema_json)
            with self._phase("write"):
                results = self._write_files(records, spec, plan)
            stats = [r.stat for r in results if r.stat is not None]
            if not stats and not self._replaces_some:  # no records, or deletes of what isn't there
                take_back(meta, instant)
                return None
            with self._phase("commit"):
                remove_leftovers(meta, instant, stats)
                add_partitions(meta, instant, stats)
                metadata = self._metadata(stats, schema_json)
                done = meta.store.complete(
                    instant,
                    encode_commit_metadata(metadata),
                    lambda now: self._check_still_right(instant, metadata, timeline, now),
                )
                Markers(meta.storage, instant.requested).delete()
        return done, metadata

    def _write_files(self, records: Any, spec: WriteSpec, plan: _Plan | None) -> Sequence[FileResult]:
        meta = self.meta
        if plan is None:
            return self.engine.bulk_write(records, meta.storage, spec, meta.context)
        if not isinstance(plan, WritePlan):
            return self.engine.write_partitions(records, meta.storage, spec, plan, meta.context)
        return self.engine.write(records, meta.storage, spec, plan) if plan.tasks else ()

    @contextmanager
    def _pending(self, requested: bytes, inflight: bytes) -> Iterator[Instant]:
        """An inflight commit with a heartbeat. On an error it's taken back, unless it completed all the same."""
        meta = self.meta
        hearts: list[Heartbeat] = []

        def beat(requested: str) -> None:
            hearts.append(Heartbeat(meta.storage, requested, meta.context, self.options.heartbeat_interval_ms))
            hearts[-1].start()

        instant: Instant | None = None
        try:
            instant = meta.store.request(self._action, requested, on_requested=beat)
            instant = meta.store.start(instant, inflight)
            yield instant
        except BaseException as error:
            for heart in hearts:  # what a failing clean-up leaves behind, the next writer must find dead
                heart.stop(delete=False)
            if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)) and instant is not None:
                self._undo(instant)
            raise
        for heart in hearts:
            heart.stop()

    @property
    def _action(self) -> Action:
        return Action.REPLACECOMMIT if self.operation.replaces else Action.COMMIT

    def _undo(self, instant: Instant) -> None:
        try:
            found = self.meta.store.load().find(instant.requested, self._action)
            if found is None or found.state is not State.COMPLETED:  # None: somebody took this writer for dead
                take_back(self.meta, instant)
        except PudiError:
            return  # the first error is the one to tell; the next writer finds this instant dead and rolls it back

    @property
    def _combines(self) -> bool:
        """Whether versions of one key among the records are combined first."""
        options = self.options
        if self.operation is Operation.UPSERT:
            return options.combine_before_upsert
        drops = self.operation is Operation.INSERT and options.duplicates == "drop"
        return self.operation is Operation.DELETE or drops or options.combine_before_insert

    def _spec(self, requested: str, schema_json: str) -> WriteSpec:
        config, options = self.meta.config, self.options
        bloom = BloomOptions(
            num_entries=options.bloom_num_entries,
            fpp=options.bloom_fpp,
            max_entries=options.bloom_max_entries,
            kind=options.bloom_type,
        )
        return WriteSpec(
            instant=requested,
            operation=self.operation,
            schema=without_meta_fields(avro_to_arrow(schema_json)),
            avro_schema=add_meta_fields(schema_json),
            rule=MergeRule(MergeMode(config.merge_mode), config.ordering_fields),
            deduplicate=self._combines,
            max_file_bytes=options.max_file_size,
            merges_inserts=not options.allow_duplicates,
            sort=SortMode(options.sort_mode),
            bulk_tasks=options.bulk_tasks,
            flagged=self.flagged,
            parquet=ParquetOptions(
                codec=options.compression_codec,
                row_group_bytes=options.block_size,
                page_bytes=options.page_size,
                bloom=bloom if options.bloom_enabled else None,
            ),
        )

    def _metadata(self, stats: Sequence[WriteStat], schema_json: str) -> CommitMetadata:
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        return CommitMetadata(
            partition_to_write_stats={p: tuple(group) for p, group in by_partition.items()},
            extra_metadata={**self.extra_metadata, SCHEMA_KEY: schema_json},
            operation_type=self.operation.value,
            partition_to_replace_file_ids=self._replaced,
        )

    def _check_still_right(self, own: Instant, written: CommitMetadata, seen: Timeline, now: Timeline) -> None:
        """Under the lock, just before the commit: nothing that happened meanwhile contradicts it."""
        check = ConflictCheck(self.meta.store, own, written, seen, self.operation is Operation.UPSERT)
        check.run(now)
        if check.new_commits(now):  # another writer was here: it may have changed more than files
            self._check_schema(now, written.extra_metadata[SCHEMA_KEY])
            self.meta.reload()
            check_writable(self.meta.config, self.meta.storage.root, self.resolved)

    def _check_schema(self, timeline: Timeline, schema_json: str) -> None:
        if self.meta.schema_json(timeline) != schema_json:
            raise ConflictError(
                "another writer changed the table's schema meanwhile; read the table again and retry",
                table=self.meta.storage.root,
            )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        clock = self.meta.context.clock
        began = clock.monotonic()
        yield
        self.phases[name] = self.phases.get(name, 0.0) + clock.monotonic() - began
