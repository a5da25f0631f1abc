"""What a writer's options say of one write: how files are made and filled, whether versions of a key are combined."""

from __future__ import annotations

import pyarrow as pa

from pudi.action.meta_client import MetaClient
from pudi.config import WriteOptions
from pudi.errors import NotSupportedError
from pudi.filegroup import ParquetOptions
from pudi.format import BloomOptions
from pudi.plan import LogOptions, Operation
from pudi.plan.write import Sizing, average_record_bytes
from pudi.schema import avro_to_arrow, unwritable_columns, without_meta_fields
from pudi.timeline import Timeline

_SIZE_SAMPLE_COMMITS = 5
"""How many commits back the size of a record is looked for."""


def writable_schema(schema_json: str, table: str) -> pa.Schema:
    """The table's columns without meta fields.

    Raises:
        NotSupportedError: a column has a type that pudi can't write back.
    """
    unwritable = unwritable_columns(schema_json)
    if unwritable:
        raise NotSupportedError(
            f"column {unwritable[0]!r} has an Avro type that pudi reads but can't write back as the table words it "
            "(milliseconds, time of day, enum, decimal in bytes); write this table with Apache Hudi",
            table=table,
        )
    return without_meta_fields(avro_to_arrow(schema_json))


def combines(operation: Operation, options: WriteOptions) -> bool:
    """Whether versions of one key among the records of a write are combined first."""
    if operation is Operation.UPSERT:
        return options.combine_before_upsert
    drops = operation is Operation.INSERT and options.duplicates == "drop"
    return operation is Operation.DELETE or drops or options.combine_before_insert


def file_options(options: WriteOptions, *, bloom: bool = False) -> ParquetOptions:
    """How base files are written; with a bloom filter where options say so, or the table keeps those anyway."""
    keys = BloomOptions(
        num_entries=options.bloom_num_entries,
        fpp=options.bloom_fpp,
        max_entries=options.bloom_max_entries,
        kind=options.bloom_type,
    )
    return ParquetOptions(
        codec=options.compression_codec,
        row_group_bytes=options.block_size,
        page_bytes=options.page_size,
        dictionary=options.dictionary_enabled,
        bloom=keys if options.bloom_enabled or bloom else None,
    )


def log_options(meta: MetaClient, options: WriteOptions) -> LogOptions | None:
    """How log files are written; None in a copy-on-write table."""
    if not meta.merges_on_read:
        return None
    return LogOptions(
        layout=meta.store.layout,
        avro=options.log_block_format == "avro",
        hfile=options.log_block_format == "hfile",
        max_file_bytes=options.log_max_size,
        max_block_bytes=options.log_block_max_size,
        small_files=options.small_file_candidates,
    )


def sizing(meta: MetaClient, options: WriteOptions, timeline: Timeline, record_bytes: float | None) -> Sizing:
    """How inserts are packed into files, by what records took in recent commits.

    Args:
        meta: the table.
        options: the writer's.
        timeline: the table's commits.
        record_bytes: what an average record takes in memory, where the engine knows: the least that a table without
            commits to go by is told.
    """
    recent = meta.commits_by_completion(timeline)[-_SIZE_SAMPLE_COMMITS:]
    default = min(float(options.record_size_estimate), record_bytes or float("inf"))
    size = average_record_bytes(
        (meta.store.commit_metadata(i) for i in reversed(recent)), options.small_file_limit, int(max(1, default))
    )
    return Sizing(options.small_file_limit, options.max_file_size, size)
