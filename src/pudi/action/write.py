"""Write records in one commit: keys, tagging, placing, files, and the completed instant that makes them visible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from pudi.action.index import find_index, key_scope
from pudi.action.meta_client import INTERNAL_SCHEMA_KEY, SCHEMA_KEY, MetaClient
from pudi.action.pending import pending, switch_metadata_table_off
from pudi.action.presence import check_present, files_written
from pudi.action.result import CommitResult
from pudi.action.rollback import repair, take_back
from pudi.action.schema_history import read_history, write_history
from pudi.action.single_key import names_single_key
from pudi.action.table_keys import check_generated, key_generator
from pudi.concurrency import ConflictCheck
from pudi.config import Options, WriteOptions, check_consistent, check_writable
from pudi.errors import ConflictError, NotFoundError, NotSupportedError, TableExistsError
from pudi.filegroup import FileSlice, Markers, ParquetOptions
from pudi.format import (
    Action,
    BloomOptions,
    CommitMetadata,
    PartitionMetadata,
    WriteStat,
    encode_partition_metadata,
    new_file_id,
    partition_metadata_path,
)
from pudi.index import Index
from pudi.merge import MergeMode, MergeRule
from pudi.plan import (
    Operation,
    PartitionTask,
    WritePlan,
    WriteProfile,
    WriteSpec,
    place,
    place_buckets,
    whole_partitions,
)
from pudi.plan.write import NO_INSERTS, Sizing, average_record_bytes
from pudi.record import KeyGenerator, check_key_types
from pudi.schema import (
    add_meta_fields,
    avro_to_arrow,
    evolved_text,
    unwritable_columns,
    with_meta_fields,
    without_meta_fields,
)
from pudi.schema.changes import reconciled
from pudi.schema.internal import SchemaHistory
from pudi.task import Engine, KeyLookup, KeySearch
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
    return _Write(meta, engine, operation, resolved, options, dict(extra_metadata or {})).run(data)


@dataclass(slots=True)
class _Write:
    meta: MetaClient
    engine: Engine
    operation: Operation
    resolved: Options
    options: WriteOptions
    extra_metadata: dict[str, str]
    index: Index = field(default_factory=Index)
    phases: dict[str, float] = field(default_factory=dict)
    keys: KeyGenerator = field(init=False)
    schema_before: str = ""
    ids_before: str | None = None
    history: SchemaHistory | None = None

    def run(self, data: Any) -> CommitResult | None:
        meta = self.meta
        began = meta.context.clock.monotonic()
        meta.reload()
        check_writable(meta.config, meta.storage.root, self.resolved)
        check_consistent(meta.config, self.resolved, meta.storage.root)
        first = meta.store.load()
        self.schema_before, self.ids_before = meta.schema_json(first), meta.schema_by_id(first)
        schema = self._writable_schema(self.schema_before)
        self.index = find_index(meta, first, self.resolved)
        named = names_single_key(meta, first, self.resolved)
        self.keys = key_generator(meta.config, self.resolved, names_single=named)
        check_generated(self.keys, self.operation, self.options, meta.storage.root)
        check_key_types(self.keys, schema, table=meta.storage.root)
        with self._phase("prepare"):
            records = self.engine.prepare(data, self._input_spec(schema))
        try:
            bulk = self.operation is Operation.BULK_INSERT and self.index.buckets is None
            if not bulk:
                with self._phase("count"):
                    empty = not records.counts
                if empty:
                    return None
            with self._phase("repair"):
                timeline = repair(meta, self.options)
                switch_metadata_table_off(meta, self.resolved)
            self._check_schema(timeline)
            self.history = read_history(meta, timeline, timeline)
            schema_json = evolved_text(self.schema_before, records.schema, meta.config.name)
            if bulk:
                done = self._commit(timeline, schema_json, records, None)
            else:
                tagged, plan = self._plan(timeline, records)
                if isinstance(plan, WritePlan) and not plan.tasks:
                    return None
                done = self._commit(timeline, schema_json, tagged, plan)
        finally:
            records.release()
        if done is None:
            return None
        instant, stats = done
        return self._result(instant, stats, meta.context.clock.monotonic() - began)

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
            schema=schema,
            keys=self.keys,
            keys_only=self.operation is Operation.DELETE,
            combine=self._rule if self._everywhere else None,
            fill_missing=self.options.fill_missing,
            ordering=self.meta.config.ordering_fields,
        )

    @property
    def _everywhere(self) -> bool:
        """Whether keys are looked for in the whole table."""
        return self.index.is_global and self.operation in {Operation.UPSERT, Operation.DELETE}

    @property
    def _rule(self) -> MergeRule:
        """Which version of a record wins; of deletes, which carry keys alone, any."""
        config = self.meta.config
        if self.operation is Operation.DELETE:
            return MergeRule(MergeMode.COMMIT_TIME)
        return MergeRule(MergeMode(config.merge_mode), config.ordering_fields, config.delete_marker)

    def _plan(self, timeline: Timeline, records: Any) -> tuple[Any, _Plan]:
        """Decide which files to write, or which partitions: then their tasks find out the files."""
        meta = self.meta
        with self._phase("list"):
            slices = self._slices(timeline, records)
        limits = None if self._everywhere else self.engine.whole_limits
        packs = self.operation is not Operation.DELETE and self.index.buckets is None
        if limits is not None:
            sizing = self._sizing(timeline, records) if packs else NO_INSERTS
            whole = whole_partitions(records.counts, slices, sizing, limits)
            if whole is not None:
                return records, whole
        with self._phase("tag"):
            looks = self.operation is not Operation.INSERT and self.index.buckets is None
            lookups = [KeyLookup(s) for s in slices] if looks else []
            tagged = self.engine.tag(records, meta.storage, lookups, self._search(records))
            profile: WriteProfile = tagged.profile
        if self.index.buckets is not None:
            return tagged, place_buckets(profile, slices, self.operation, meta.context.new_id, meta.storage.root)
        if self.operation is Operation.DELETE:  # keys that are not there are no error, and nothing to do
            profile = WriteProfile(profile.updates, {})
        unique = meta.context.new_id()
        sizing = self._sizing(timeline, records) if any(profile.inserts.values()) else NO_INSERTS
        plan = place(profile, slices, sizing, lambda number: new_file_id(unique, number))
        return tagged, plan

    def _search(self, records: Any) -> KeySearch:
        return KeySearch(self.index, self.operation, self._rule, records.schema)

    def _slices(self, timeline: Timeline, records: Any) -> list[FileSlice]:
        """The latest slices of the partitions that records fall into; all where keys may be anywhere."""
        meta = self.meta
        view = meta.view(timeline)
        try:
            slices = view.all_slices() if self._everywhere else view.slices_of(sorted(records.counts))
        except NotFoundError as error:
            raise ConflictError(
                f"another writer changed the table while this write was planned ({error.message}); retry",
                table=meta.storage.root,
            ) from error
        newest = files_written(meta, meta.commits_by_completion(timeline)[-1:])
        looked_at = {g: t for g, t in newest.items() if self._everywhere or g[0] in records.counts}
        check_present(meta, view, slices, looked_at)
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
    ) -> tuple[Instant, list[WriteStat]] | None:
        """Write the files and complete the instant; on any failure nothing of it stays."""
        meta = self.meta
        with pending(meta, Action.COMMIT, self.options) as instant:
            history = self._next_history(instant.requested, schema_json)
            spec = self._spec(instant.requested, schema_json, history)
            with self._phase("write"):
                if plan is None:
                    results = self.engine.bulk_write(records, meta.storage, spec, meta.context)
                elif isinstance(plan, WritePlan):
                    results = self.engine.write(records, meta.storage, spec, plan)
                else:
                    results = self.engine.write_partitions(records, meta.storage, spec, plan, meta.context)
            stats = [r.stat for r in results if r.stat is not None]
            if not stats:  # no records, or deletes of what isn't there
                take_back(meta, instant)
                return None
            with self._phase("commit"):
                self._remove_leftovers(instant, stats)
                self._add_partitions(instant, stats)
                metadata = self._metadata(stats, schema_json, history)
                if history is not None:
                    write_history(meta, instant.requested, history)
                done = meta.store.complete(
                    instant,
                    metadata,
                    lambda now: self._check_still_right(instant, metadata, timeline, now),
                )
                Markers(meta.storage, instant.requested).delete()
        return done, stats

    def _next_history(self, requested: str, schema_json: str) -> SchemaHistory | None:
        """The schemas by id as this commit leaves them, in a table that has such (saveInternalSchema)."""
        if self.history is None:
            return None
        current = self.history.current
        after = reconciled(current, with_meta_fields(avro_to_arrow(schema_json)))
        return self.history if after == current else self.history.with_version(replace(after, version=int(requested)))

    def _spec(self, requested: str, schema_json: str, history: SchemaHistory | None) -> WriteSpec:
        options = self.options
        deduplicates = {
            Operation.UPSERT: True,
            Operation.INSERT: options.combine_before_insert,
            Operation.BULK_INSERT: options.combine_before_insert,
            Operation.DELETE: True,
        }
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
            rule=self._rule,
            index=self.index,
            generated_keys=self.keys.generates,
            deduplicate=deduplicates[self.operation],
            max_file_bytes=options.max_file_size,
            history=history,
            parquet=ParquetOptions(
                codec=options.compression_codec,
                row_group_bytes=options.block_size,
                page_bytes=options.page_size,
                dictionary=options.dictionary_enabled,
                bloom=bloom if options.bloom_enabled else None,
            ),
        )

    def _remove_leftovers(self, instant: Instant, stats: Sequence[WriteStat]) -> None:
        """Delete files of attempts that did not count (HoodieTable.reconcileAgainstMarkers)."""
        named = Markers(self.meta.storage, instant.requested).files()
        extra = sorted(set(named) - {stat.path for stat in stats if stat.path})
        if extra:
            self.meta.storage.delete(extra)

    def _add_partitions(self, instant: Instant, stats: Sequence[WriteStat]) -> None:
        """Say that a folder is a partition, for those that may be new."""
        clock = self.meta.context.clock
        created = sorted({s.partition_path or "" for s in stats if s.prev_base_file is None})
        for partition in created:
            depth = len(partition.split("/")) if partition else 0
            content = encode_partition_metadata(PartitionMetadata(instant.requested, depth), clock.now_ms())
            try:
                self.meta.storage.create(partition_metadata_path(partition), content)
            except TableExistsError:
                continue

    def _metadata(self, stats: Sequence[WriteStat], schema_json: str, history: SchemaHistory | None) -> CommitMetadata:
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        by_id = {} if history is None else {INTERNAL_SCHEMA_KEY: history.current.to_json()}
        return CommitMetadata(
            partition_to_write_stats={p: tuple(group) for p, group in by_partition.items()},
            extra_metadata={**self.extra_metadata, SCHEMA_KEY: schema_json, **by_id},
            operation_type=self.operation.value,
        )

    def _check_still_right(self, own: Instant, written: CommitMetadata, seen: Timeline, now: Timeline) -> None:
        """Under the lock, just before the commit: nothing that happened meanwhile contradicts it."""
        check = ConflictCheck(self.meta.store, own, written, seen, key_scope(self.index, self.operation))
        check.run(now)
        if check.new_commits(now):  # another writer was here: it may have changed more than files
            self._check_schema(now)
            self.meta.reload()
            check_writable(self.meta.config, self.meta.storage.root, self.resolved)

    def _check_schema(self, timeline: Timeline) -> None:
        if (self.meta.schema_json(timeline), self.meta.schema_by_id(timeline)) != (self.schema_before, self.ids_before):
            raise ConflictError(
                "another writer changed the table's schema meanwhile; read the table again and retry",
                table=self.meta.storage.root,
            )

    def _result(self, done: Instant, stats: Sequence[WriteStat], duration: float) -> CommitResult:
        return CommitResult(
            instant=done.requested,
            completion_time=done.completion or done.requested,
            operation=self.operation.value,
            records_inserted=sum(s.num_inserts or 0 for s in stats),
            records_updated=sum(s.num_update_writes or 0 for s in stats),
            records_deleted=sum(s.num_deletes or 0 for s in stats),
            files_written=len(stats),
            bytes_written=sum(s.total_write_bytes or 0 for s in stats),
            duration=duration,
            phases=dict(self.phases),
        )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        clock = self.meta.context.clock
        began = clock.monotonic()
        yield
        self.phases[name] = self.phases.get(name, 0.0) + clock.monotonic() - began
