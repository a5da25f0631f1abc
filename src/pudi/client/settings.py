"""Derive settings from a table and options: those of one write, and those by which log files are merged.

A write has settings of files, sizes, combining of versions. Readers of a merge-on-read table, and writers that read,
merge its log files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from pudi.client.inflight_builds import maintained_partitions
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import IndexOptions, MergeMode, WriteOptions, merge_semantics
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import (
    ORC_CODECS,
    CommittedLogs,
    FileOptions,
    HFileOptions,
    LogScope,
    OrcOptions,
    ParquetOptions,
    closed_groups,
)
from pudi.format import BloomOptions
from pudi.format.cdc import LoggingMode, change_record_schema
from pudi.format.delete_encode import can_order_deletes
from pudi.format.hfile_rows import KEY_FIELD
from pudi.format.metadata_partitions import BLOOM_FILTERS
from pudi.merge import MergeRule, merge_rule
from pudi.plan import LogOptions, Merging, Operation
from pudi.plan.cdc import ChangeLogging
from pudi.plan.write import Sizing, average_record_bytes
from pudi.schema import TableSchema, field_at, retyped
from pudi.task.file_stats import is_event_time

_log = logging.getLogger(__name__)
_SIZE_SAMPLE_COMMITS = 5
"""The number of commits to search for an average record size."""


def writable_schema(schema: TableSchema, table: str) -> pa.Schema:
    """Return the table's columns without meta fields.

    Raises:
        NotSupportedError: a column has a type that pudi can't write.
    """
    unwritable = schema.unwritable
    if unwritable:
        raise NotSupportedError(
            f"column {unwritable[0]!r} has an Avro type that pudi reads but can't write back as the table words it "
            "(milliseconds, time of day, enum, decimal in bytes); write this table with Apache Hudi",
            table=table,
        )
    return schema.columns


def next_schema(before: TableSchema, columns: pa.Schema, name: str, table: str) -> TableSchema:
    """Return the table's schema after a write, and log each column whose type the write changes.

    Args:
        before: the schema before.
        columns: the table's columns after the write.
        name: the table's name.
        table: its location.
    """
    after = before.evolved(columns, name)
    if after != before:
        for column, old, new in retyped(before.columns, columns):
            _log.warning("%s: the data changes column %r of the table from %s to %s", table, column, old, new)
    return after


def combines(operation: Operation, options: WriteOptions) -> bool:
    """Return whether a write first combines records with the same key (precombine)."""
    if operation is Operation.UPSERT:
        return options.combine_before_upsert
    drops = operation is Operation.INSERT and options.duplicates == "drop"
    return operation is Operation.DELETE or drops or options.combine_before_insert


def rule_of(snapshot: TableSnapshot, operation: Operation, *, is_global: bool) -> MergeRule:
    """Return the merge rule of a write.

    Args:
        snapshot: the table, with the writer's options.
        operation: the operation. For deletes, which only have keys, any version wins; if versions are not compared, the
            table's rule isn't needed.
        is_global: whether keys are looked up in the whole table.

    Raises:
        MergerError: the table's merger is not registered.
        NotSupportedError: the rule mixes versions, which pudi doesn't support with a global index.
    """
    if operation is Operation.DELETE:
        return MergeRule(MergeMode.COMMIT_TIME)
    config, options = snapshot.config, snapshot.write_options
    meets = operation.looks_up or (operation is Operation.INSERT and not options.allow_duplicates)
    if not meets and not combines(operation, options):
        return MergeRule(MergeMode.COMMIT_TIME, config.ordering_fields, config.delete_marker)
    rule = merge_rule(config, snapshot.options, table=snapshot.table, avro_schema=snapshot.schema.avro)
    if is_global and (rule.mixes or rule.binlog or rule.batches_by_order):
        raise NotSupportedError(
            "a global index with partial updates, a merger or a change stream's payload class: versions of "
            f"a record would have to meet across partitions; use {IndexOptions.index_type}=SIMPLE, BLOOM or BUCKET",
            table=snapshot.table,
        )
    return rule


def file_options(meta: MetaClient, options: WriteOptions, columns: Iterable[str]) -> FileOptions:
    """Return the settings of base files.

    They get a bloom filter if an option asks for it, or if the metadata table has bloom filters.

    Args:
        meta: the table.
        options: the writer's.
        columns: names of the table's columns.

    Raises:
        NotSupportedError: base files are HFiles, which can't have a column of such a name.
    """
    keys = BloomOptions(
        num_entries=options.bloom_num_entries,
        fpp=options.bloom_fpp,
        max_entries=options.bloom_max_entries,
        kind=options.bloom_type,
    )
    parquet = ParquetOptions(
        codec=options.compression_codec,
        row_group_bytes=options.block_size,
        page_bytes=options.page_size,
        dictionary=options.dictionary_enabled,
        bloom=keys if options.bloom_enabled or BLOOM_FILTERS in maintained_partitions(meta) else None,
    )
    made = FileOptions(parquet, populated=meta.config.populate_meta_fields, path_columns=meta.path_columns)
    if meta.config.base_file_format == "ORC":
        return replace(made, orc=OrcOptions(ORC_CODECS[options.orc_codec], options.orc_stripe_size, parquet.bloom))
    if meta.config.base_file_format != "HFILE":
        return made
    if KEY_FIELD in columns and meta.config.record_key_fields != (KEY_FIELD,):
        raise NotSupportedError(
            f"a column named {KEY_FIELD!r} that isn't the record key, in a table whose base files are HFiles: Hudi "
            "puts the record key in its place; name it otherwise, or make the table with Parquet files",
            table=meta.storage.root,
        )
    return replace(made, hfile=HFileOptions(options.hfile_codec, options.hfile_block_size, keys))


def log_options(meta: MetaClient, options: WriteOptions) -> LogOptions | None:
    """Return the settings of log files; None in a copy-on-write table."""
    if not meta.merges_on_read:
        return None
    hfiles = meta.config.base_file_format == "HFILE"
    block = options.log_block_format or ("hfile" if hfiles else "parquet")
    return LogOptions(
        layout=meta.store.layout,
        avro=block == "avro",
        hfile=block == "hfile",
        max_file_bytes=options.log_max_size,
        max_block_bytes=options.log_block_max_size,
        small_files=options.small_file_candidates,
        positions=options.record_positions and meta.store.rules.has_record_positions and not hfiles,
        partial=options.partial_updates and meta.store.rules.has_record_positions,
    )


def change_logging(meta: MetaClient, options: WriteOptions, schema: TableSchema) -> ChangeLogging | None:
    """Return how the table logs changes of base files; None if it doesn't.

    Args:
        meta: the table.
        options: the writer's.
        schema: the table's schema after the write.
    """
    if not meta.config.cdc_enabled:
        return None
    mode = LoggingMode(meta.config.cdc_logging_mode)
    return ChangeLogging(mode, change_record_schema(schema, mode), options.log_block_max_size)


def event_time_column(meta: MetaClient, options: WriteOptions, columns: pa.Schema) -> str | None:
    """Return the column whose range goes into the statistics of written files; None where it isn't tracked.

    Hudi tracks event times only in tables with event-time ordering (HoodieWriteHandle).

    Args:
        meta: the table.
        options: the writer's.
        columns: the table's columns after the write.

    Raises:
        InvalidArgumentError: there is no such column, or it's of a type that holds no event times.
    """
    name = options.event_time_field
    if not options.tracks_event_time or name is None:
        return None
    if merge_semantics(meta.config).mode is not MergeMode.EVENT_TIME:
        return None
    if name not in columns.names or not is_event_time(columns.field(name).type):
        found = f"it is of type {columns.field(name).type}" if name in columns.names else "there is no such column"
        raise InvalidArgumentError(
            f"{WriteOptions.event_time_field}={name}: {found}; name a column of timestamps, integers or text",
            table=meta.storage.root,
        )
    return name


def sizing(snapshot: TableSnapshot, options: WriteOptions, record_bytes: float | None) -> Sizing:
    """Return how inserts are packed into files, by the record sizes of recent commits.

    Args:
        snapshot: the table.
        options: the writer's.
        record_bytes: bytes of an average record in memory, if the engine knows them; the lower bound in a table whose
            commits give no estimate.
    """
    recent = snapshot.commits[-_SIZE_SAMPLE_COMMITS:]
    default = min(float(options.record_size_estimate), record_bytes or float("inf"))
    size = average_record_bytes(
        (snapshot.meta.store.read_commit_metadata(i) for i in reversed(recent)),
        options.small_file_limit,
        int(max(1, default)),
    )
    closed = closed_groups(snapshot.meta.store, snapshot.timeline)
    return Sizing(options.small_file_limit, options.max_file_size, size, closed)


def merging_of(
    snapshot: TableSnapshot, *, until: str | None = None, among: frozenset[str] | None = None
) -> Merging | None:
    """Return how a read merges log files with base files; None in a copy-on-write table.

    Args:
        snapshot: the table, as the reader sees it.
        until: log blocks of later requested times are ignored; None for no bound.
        among: in incremental reads, the instants whose log blocks are merged; None for all.

    Raises:
        NotSupportedError: the table names a payload class that pudi doesn't know.
        MergerError: the table's merger is not registered.
    """
    return _merging(snapshot, until, among) if snapshot.meta.merges_on_read else None


def merging_of_changes(snapshot: TableSnapshot) -> Merging:
    """Return how change data merges log files with base files, in tables of both types; see `merging_of`."""
    return _merging(snapshot, None, None)


def _merging(snapshot: TableSnapshot, until: str | None, among: frozenset[str] | None) -> Merging:
    meta, timeline = snapshot.meta, snapshot.timeline
    completed = frozenset(i.requested for i in snapshot.seen.commits)
    pending = frozenset(i.requested for i in timeline.pending)
    start = timeline.start if meta.store.had_history(timeline) else None
    committed = CommittedLogs.of(meta.store, timeline, start)
    scope = LogScope(completed, pending, start, until, among, committed)
    rule = merge_rule(meta.config, table=snapshot.table, avro_schema=snapshot.schema.avro)
    return Merging(rule, scope, meta.virtual_keys, meta.memory, meta.by_position)


def merging_of_deletes(snapshot: TableSnapshot, operation: Operation) -> Merging | None:
    """Return how a delete reads the stored records whose ordering values its log records copy.

    None for other operations, in copy-on-write tables, and if no ordering value decides between versions. If log
    files can't store the values, or readers ignore them, deletes have none, and a warning states the consequence.
    """
    meta = snapshot.meta
    merges = merge_semantics(meta.config)
    if operation is not Operation.DELETE or not meta.merges_on_read or not merges.compares:
        return None
    schema = snapshot.schema.columns
    fields = [(name, field_at(schema, name)) for name in merges.ordering_fields]
    unfit = [f"{path}: {each.type}" for path, each in fields if each is not None and not can_order_deletes(each.type)]
    if not unfit and not merges.deletes_win:
        return merging_of(snapshot)
    _log.warning(
        "%s: deletes in log files %s: until a compaction, a record that comes after its delete with a lower value of "
        "%s than the deleted one's brings the deleted one back, for pudi and Hudi alike",
        snapshot.table,
        f"hold no values of {unfit[0]}" if unfit else "of this table's payload class have no order",
        ", ".join(merges.ordering_fields),
    )
    return None
