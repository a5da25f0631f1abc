"""One attempt at a write: keys, tagging, placing, files, and the completed instant that makes them visible.

`Write` is the frame: checks, repair, the pending instant, the files, the conflict check and the completion. Verbs are
made of it in modules of their own, and `pudi.action.retry` says how often they attempt it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from pudi.action.build_indexes import build_wanted
from pudi.action.committed_files import files_written, verify_committed_files
from pudi.action.frame import Completion, complete_action, pending
from pudi.action.hashing import make_rings
from pudi.action.index import find_index, key_scope
from pudi.action.insert_policy import adds_new_only, is_uncounted, without_known
from pudi.action.kinds.column_stats.statistics import indexed_columns
from pudi.action.kinds.kind import IndexStaging
from pudi.action.kinds.record_index.changes import key_staging, shards_for
from pudi.action.log_merging import merging_of, merging_of_deletes
from pudi.action.mdt.build import reconcile_metadata
from pudi.action.mdt.inflight_builds import maintained_partitions
from pudi.action.mdt.written_keys import WrittenKeys
from pudi.action.merging import rule_of
from pudi.action.meta_client import MetaClient
from pudi.action.rebuild import reinitialize_partitions
from pudi.action.result import CommitResult
from pudi.action.rollback import abort, repair
from pudi.action.schema_history import read_history
from pudi.action.services.runner import run_after_commit
from pudi.action.single_key import names_single_key
from pudi.action.spec import combines, file_options, log_options, next_schema, sizing, writable_schema
from pudi.action.steps import build_commit_metadata, reconcile_markers
from pudi.action.table_keys import check_generated, key_generator
from pudi.action.timed import Timed
from pudi.action.unchanged import planned, unchanged_since
from pudi.action.verify import SchemaSeen, verify
from pudi.concurrency import ConflictCheck, Reads, Unchanged
from pudi.config import CompactionOptions, Options, WriteOptions, check_consistent, check_writable
from pudi.errors import ConflictError, NotFoundError
from pudi.filegroup import FileSlice
from pudi.format import Action, CommitMetadata, new_file_id
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.index import Index
from pudi.merge import MergeRule
from pudi.plan import (
    LogOptions,
    Operation,
    PartitionTask,
    WritePlan,
    WriteProfile,
    WriteSpec,
    place,
    place_buckets,
    whole_partitions,
)
from pudi.plan.write import NO_INSERTS, Sizing, SortMode, with_flag
from pudi.record import KeyGenerator, check_key_types
from pudi.schema import add_meta_fields, avro_to_arrow, with_meta_fields, without_meta_fields
from pudi.schema.changes import reconciled
from pudi.schema.internal import SchemaHistory
from pudi.task import Engine, FileResult, KeySearch
from pudi.task.engine import EvaluatedAgainError, InputSpec
from pudi.task.tag import lookups_in
from pudi.timeline import Instant, Timeline

_Plan: TypeAlias = WritePlan | tuple[PartitionTask, ...]


@dataclass
class Write(Timed):
    """One attempt at a write, from the check of its input to its result; each attempt is a new object.

    Args:
        meta: the table.
        engine: runs the tasks.
        operation: the operation.
        resolved: the writer's options.
        options: their typed view.
        extra_metadata: more to say in the commit.
        flagged: whether records come with a flag for deletes, see `WriteSpec`.
        failed: what failed behind the commit, by service.
        since: the instant since which the touched records must not have changed; None for no condition.
    """

    meta: MetaClient
    engine: Engine
    operation: Operation
    resolved: Options
    options: WriteOptions
    extra_metadata: dict[str, str]
    index: Index = field(default_factory=Index)
    phases: dict[str, float] = field(default_factory=dict)
    keys: KeyGenerator = field(init=False)
    rule: MergeRule = field(init=False)
    schema_seen: SchemaSeen = field(init=False)
    history: SchemaHistory | None = None
    flagged: bool = False
    failed: dict[str, str] = field(default_factory=dict)
    since: str | None = None
    unchanged: Unchanged | None = field(init=False, default=None)

    def run(self, data: Any) -> CommitResult | None:
        """Write.

        Args:
            data: the records, in a form that the engine takes.

        Returns:
            What was done, or None when there is nothing to do.
        """
        meta = self.meta
        began = meta.context.clock.monotonic()
        meta.reload()
        check_writable(meta.config, meta.storage.root, self.resolved)
        check_consistent(meta.config, self.resolved, meta.storage.root)
        CompactionOptions.of(self.resolved)  # report wrong options before anything is written
        first = meta.store.load()
        if self.since is not None:
            self.unchanged = unchanged_since(meta, first, self.since)
        self.schema_seen = SchemaSeen.of(meta, first)
        schema = writable_schema(self.schema_before, meta.storage.root)
        self.index = find_index(meta, first, self.resolved)
        self.rule = self._rule()
        named = names_single_key(meta, first, self.resolved)
        self.keys = key_generator(meta.config, self.resolved, names_single=named)
        check_generated(self.keys, self.operation, self.options, meta.storage.root)
        check_key_types(self.keys, schema, table=meta.storage.root)
        with self._phase("prepare"):
            records = self._prepare_input(data, schema)
        try:
            uncounted = partial(is_uncounted, self.operation, self.index, self.engine)
            bulk = uncounted(first)
            if not bulk:
                with self._phase("count"):
                    idle = self._is_noop(records)
                if idle:
                    return None
            with self._phase("repair"):
                reconcile_metadata(meta, self.resolved)
                timeline = repair(meta, self.options)
                build_wanted(meta, self.engine, self.resolved, timeline)
                reinitialize_partitions(meta, self.engine, self.resolved)
            self.schema_seen.check(meta, timeline)
            self.history = read_history(meta, timeline, timeline)
            schema_json = self._next_schema(records)
            try:
                done = self._write_by(timeline, schema_json, records, counted=not (bulk and uncounted(timeline)))
            except EvaluatedAgainError:
                done = self._write_by(meta.store.load(), schema_json, records, counted=True)
        finally:
            records.release()
        if done is None:
            return None
        result = CommitResult.of(*done, meta.context.clock.monotonic() - began, self.phases)
        self._log_result(result)
        run_after_commit(meta, self.engine, self.resolved, self.failed)
        return replace(result, failed_services=self.failed)

    @property
    def _name(self) -> str:
        return self.operation.value.lower()

    def _write_by(
        self, timeline: Timeline, schema_json: str, records: Any, *, counted: bool
    ) -> tuple[Instant, CommitMetadata] | None:
        """Write and commit, with or without counting and planning first; None if there is nothing to do."""
        if not counted:
            return self._commit(timeline, schema_json, records, None)
        tagged, plan = self._plan(timeline, records)
        if isinstance(plan, WritePlan):
            if self.unchanged is not None:  # and again with what was written, under the lock
                self.unchanged.check(planned(plan, key_scope(self.index, self.operation), self._reads), timeline)
            if not plan.tasks and not self._replaces_some:
                return None
        return self._commit(timeline, schema_json, tagged, plan)

    def _prepare_input(self, data: Any, schema: pa.Schema) -> Any:
        """The records, checked and with their keys."""
        return self.engine.prepare(data, self._input_spec(schema))

    def _is_noop(self, records: Any) -> bool:
        """Whether there is nothing to do, so that no commit is made; raises where the records don't fit the verb."""
        return not records.counts

    @property
    def _replaced(self) -> Mapping[str, tuple[str, ...]] | None:
        """Ids of the file groups that this write takes out of the table, by partition path; None for plain commits."""
        return None

    @property
    def _reads(self) -> Reads | None:
        """Return the partitions that the write reads; None if its result doesn't depend on existing records."""
        return None

    @property
    def _replaces_some(self) -> bool:
        return any((self._replaced or {}).values())

    def _pending_contents(self) -> tuple[bytes, bytes | CommitMetadata]:
        """What the requested and the inflight file say."""
        return b"", b""

    def _input_spec(self, schema: pa.Schema) -> InputSpec:
        return InputSpec(
            table=self.meta.storage.root,
            schema=with_flag(schema) if self.flagged else schema,
            keys=self.keys,
            keys_only=self.operation is Operation.DELETE,
            combine=self.rule if self._everywhere else None,
            fill_missing=self.options.fill_missing,
            ordering=self.meta.config.ordering_fields,
            buckets=self.index.fixed_buckets if self.operation is Operation.BULK_INSERT else None,
        )

    @property
    def _everywhere(self) -> bool:
        """Return whether keys are looked up in the whole table."""
        return self.index.is_global and self.operation in {Operation.UPSERT, Operation.DELETE}

    def _rule(self) -> MergeRule:
        schema, everywhere = self.schema_before, self._everywhere
        return rule_of(self.meta, self.operation, self.options, self.resolved, everywhere=everywhere, schema=schema)

    def _plan(self, timeline: Timeline, records: Any) -> tuple[Any, _Plan]:
        """Decide which files to write, or which partitions: then their tasks find out the files."""
        meta = self.meta
        with self._phase("list"):
            slices = self._slices(timeline, None if self._everywhere else sorted(records.counts))
        shards = shards_for(meta, timeline, self.index)
        self.index = replace(self.index, records=shards is not None)  # without the index, keys are looked up in files
        limits = None if self._everywhere or self.index.records else self.engine.whole_limits
        packs = self.operation is not Operation.DELETE and self.index.buckets is None
        new_only = adds_new_only(self.operation, self.options, self.index, slices, meta.storage.root)
        make_rings(meta, self.operation, self.index, records.counts)
        if limits is not None and records.counts and not new_only:
            sizing = self._sizing(timeline, records) if packs else NO_INSERTS
            whole = whole_partitions(records.counts, slices, sizing, limits)
            if whole is not None:
                return records, whole
        with self._phase("tag"):
            looks = (self.operation.looks_up or new_only) and self.index.buckets is None
            lookups = lookups_in(slices, self.index) if looks else []
            search = self._search(records, timeline)
            tagged = self.engine.tag(records, meta.storage, lookups, replace(search, records=shards))
            if new_only:
                tagged = without_known(tagged, self.options, meta.storage.root)
            profile: WriteProfile = tagged.profile
        if self.index.buckets is not None:
            ids, root = meta.context.new_id, meta.storage.root
            return tagged, place_buckets(profile, slices, self.operation, self.index.buckets, ids, root, self._logs)
        if self.operation is Operation.DELETE:  # keys that are not there are no error, and nothing to do
            profile = WriteProfile(profile.updates, {})
        unique = meta.context.new_id()
        sizing = self._sizing(timeline, records) if any(profile.inserts.values()) else NO_INSERTS
        return tagged, place(profile, slices, sizing, lambda number: new_file_id(unique, number), self._logs)

    def _next_schema(self, records: Any) -> str:
        """Return the table's schema after this write; a flag beside the records is not a column of the table."""
        if self.flagged:
            return self.schema_before
        return next_schema(self.schema_before, records.schema, self.meta.config.name, self.meta.storage.root)

    @property
    def _logs(self) -> LogOptions | None:
        return log_options(self.meta, self.options)

    def _search(self, records: Any, timeline: Timeline) -> KeySearch:
        merging = merging_of(self.meta, timeline, timeline) if self._everywhere else None
        logs = self._logs
        return KeySearch(
            index=self.index,
            operation=self.operation,
            rule=self.rule,
            schema=records.schema,
            merging=merging,
            history=self.history,
            positions=logs is not None and logs.positions,
        )

    def _slices(self, timeline: Timeline, partitions: Sequence[str] | None) -> list[FileSlice]:
        """The latest slices of some partitions, None for all; that the newest commit's files are there is sure."""
        meta = self.meta
        view = meta.view(timeline)
        try:
            slices = view.all_slices() if partitions is None else view.slices_of(partitions)
        except NotFoundError as error:
            if meta.store.load() == timeline:  # it wasn't another writer
                raise
            raise ConflictError(
                f"another writer changed the table while this write was planned ({error.message}); retry",
                table=meta.storage.root,
            ) from error
        newest = files_written(meta, meta.commits_by_completion(timeline)[-1:])
        seen = {group: t for group, t in newest.items() if partitions is None or group[0] in partitions}
        verify_committed_files(meta, view, slices, seen)
        return slices

    def _sizing(self, timeline: Timeline, records: Any) -> Sizing:
        return sizing(self.meta, self.options, timeline, records.record_bytes)

    def _commit(
        self, timeline: Timeline, schema_json: str, records: Any, plan: _Plan | None
    ) -> tuple[Instant, CommitMetadata] | None:
        """Write the files and complete the instant; on any failure nothing of it stays."""
        meta = self.meta
        with pending(meta, self._action, self.options, *self._pending_contents(), self.failed) as instant:
            history = self._next_history(instant.requested, schema_json)
            deleted = merging_of_deletes(meta, timeline, self.operation)
            keys = None
            if RECORD_INDEX in maintained_partitions(meta):
                keys = key_staging(meta, timeline, instant.requested, self.resolved)
            spec = replace(self._spec(instant.requested, schema_json, history), deleted=deleted, keys=keys)
            with self._phase("write"):
                results = self._write_files(records, spec, plan)
            stats = [stat for result in results for stat in result.stats]
            if not stats and not self._replaces_some:  # no records, or deletes of what isn't there
                abort(meta, instant)
                return None
            with self._phase("commit"):
                reconcile_markers(meta, instant, stats)
                metadata = build_commit_metadata(
                    self.operation, stats, schema_json, history, self._replaced, self.extra_metadata
                )
                check = partial(self._check_still_right, instant, metadata, timeline)
                written = None if spec.keys is None else WrittenKeys(spec.keys, results)
                staging = IndexStaging(self.engine, timeline, self.resolved, self.index, written)
                completion = Completion(metadata, check, timeline, history, staging)
                done = complete_action(meta, instant, completion, self.failed)
        return done, metadata

    def _write_files(self, records: Any, spec: WriteSpec, plan: _Plan | None) -> Sequence[FileResult]:
        meta = self.meta
        if plan is None:
            return self.engine.bulk_write(records, meta.storage, spec, meta.context)
        if not isinstance(plan, WritePlan):
            return self.engine.write_partitions(records, meta.storage, spec, plan, meta.context)
        return self.engine.write(records, meta.storage, spec, plan) if plan.tasks else ()

    def _next_history(self, requested: str, schema_json: str) -> SchemaHistory | None:
        """Return the schemas by id after this commit, in a table that has them (saveInternalSchema)."""
        if self.history is None:
            return None
        current = self.history.current
        after = reconciled(current, with_meta_fields(avro_to_arrow(schema_json)))
        return self.history if after == current else self.history.with_version(replace(after, version=int(requested)))

    @property
    def _action(self) -> Action:
        return Action.REPLACECOMMIT if self.operation.replaces else self.meta.commit_action

    def _spec(self, requested: str, schema_json: str, history: SchemaHistory | None) -> WriteSpec:
        options = self.options
        return WriteSpec(
            instant=requested,
            operation=self.operation,
            schema=without_meta_fields(avro_to_arrow(schema_json)),
            avro_schema=add_meta_fields(schema_json),
            rule=self.rule,
            index=self.index,
            generated_keys=self.keys.generates,
            deduplicate=combines(self.operation, options),
            max_file_bytes=options.max_file_size,
            history=history,
            merges_inserts=not options.allow_duplicates,
            sort=SortMode(options.sort_mode),
            bulk_tasks=options.bulk_tasks,
            flagged=self.flagged,
            files=file_options(self.meta, options, avro_to_arrow(schema_json).names),
            logs=self._logs,
            stats=indexed_columns(self.meta, avro_to_arrow(schema_json)),
        )

    def _check_still_right(self, own: Instant, written: CommitMetadata, seen: Timeline, now: Timeline) -> None:
        """Under the lock, just before the commit."""
        scope = key_scope(self.index, self.operation)
        check = ConflictCheck(self.meta.store, own, written, seen, scope, self.unchanged, self._reads)
        verify(self.meta, self.resolved, self.schema_seen, check, now)

    @property
    def schema_before(self) -> str:
        """The table's schema as Avro, as the write found it."""
        return self.schema_seen.text
