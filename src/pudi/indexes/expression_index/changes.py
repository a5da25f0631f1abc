"""The changes of a commit to expression indexes.

An index over an expression that pudi doesn't know gets no entries for new files: readers read files without entries.

Source: SparkHoodieBackedTableMetadataWriter.getExpressionIndexUpdates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.client.changed_groups import data_file, key_reading
from pudi.client.schema_commit import SCHEMA_KEY
from pudi.errors import InvalidArgumentError
from pudi.expr import Call, Column, index_call
from pudi.filegroup import BaseFile, LogFile
from pudi.format import BloomOptions, CommitMetadata, parse_base_file
from pudi.format.metadata_partitions import BLOOM_FILTERS
from pudi.indexes.column_stats.statistics import FileStatistics, deleted_statistics
from pudi.indexes.indexed_commit import IndexedCommit, IndexStaging, LockedCommit, RemovedFiles
from pudi.metadata import STATS, StatsSpec, deleted_stats, partition_stats_records, stats_of_files
from pudi.metadata.changes import Changes, bloom_changes, bloom_removals, encode_changes
from pudi.metadata.value_types import leaf_type, value_type
from pudi.metadata_write.index_defs import IndexSpec
from pudi.schema import avro_to_arrow
from pudi.schema.arrays import joined_arrays
from pudi.task import FileJob, FileResult
from pudi.task.expression_values import (
    ExpressionResult,
    ExpressionSpec,
    ExpressionStaging,
    ExpressionTask,
    IndexedValues,
)
from pudi.task.index_keys import KeyReading

_log = logging.getLogger(__name__)

_TASKS = 64
"""The maximum number of jobs that read files."""


def index_value(spec: IndexSpec, schema: pa.Schema) -> Call | Column | None:
    """Return the bound expression of an index; None if pudi doesn't know it, or the table has no such column.

    Args:
        spec: the index.
        schema: the table's columns.
    """
    kind = leaf_type(schema, spec.columns[0]) if len(spec.columns) == 1 else None
    if kind is None:
        return None
    return index_call(spec.function, spec.options, Column(tuple(spec.columns[0].split(".")), kind))


def expression_spec(spec: IndexSpec, schema: pa.Schema) -> ExpressionSpec | None:
    """Return how an index is maintained; None if pudi can't compute its values for new files.

    Args:
        spec: the index.
        schema: the table's columns.
    """
    value = index_value(spec, schema)
    if value is None or value.type is None or value_type(value.type) is None:
        return None
    if spec.version == 1 and pa.types.is_decimal(value.type):  # version 1 covers only some decimals
        return None
    if spec.method != BLOOM_FILTERS:
        return ExpressionSpec(spec.columns[0], value, spec.version)
    bloom = _bloom_options(spec)
    return None if bloom is None else ExpressionSpec(spec.columns[0], value, spec.version, bloom)


def _bloom_options(spec: IndexSpec) -> BloomOptions | None:
    """Return the options of an index's filters, by Hudi's names (BLOOM_FILTER_CONFIG_MAPPING)."""
    default, said = BloomOptions(), spec.options
    kind = {"SIMPLE": "SIMPLE", "DYNAMIC_V0": "DYNAMIC_V0"}.get(said.get("filtertype", default.kind).upper())
    try:
        return BloomOptions(
            num_entries=int(said.get("numentries", default.num_entries)),
            fpp=float(said.get("fpp", default.fpp)),
            max_entries=int(said.get("maxentries", default.max_entries)),
            kind=kind or "",  # type: ignore[arg-type]
        )
    except (ValueError, InvalidArgumentError):
        return None


@dataclass(frozen=True, slots=True)
class StagedExpression:
    """Changes that one commit makes to an expression index.

    Attributes:
        index: the index.
        spec: how it is maintained; None if pudi doesn't know the expression.
        kept: the values of the new files.
    """

    index: IndexSpec
    spec: ExpressionSpec | None
    kept: tuple[IndexedValues, ...] = ()


def stage_expressions(
    commit: IndexedCommit, staging: IndexStaging, indexes: Sequence[IndexSpec]
) -> tuple[StagedExpression, ...]:
    """Compute the values of a commit's files for expression indexes.

    Tasks that wrote files have computed theirs. Jobs read the other files.

    Args:
        commit: the commit.
        staging: how its files are read.
        indexes: the indexes.
    """
    written, files = commit.written, _files(commit.written)
    staged = []
    for index in indexes:
        spec = expression_spec(index, avro_to_arrow(written.extra_metadata[SCHEMA_KEY]))
        if spec is None:
            _log.warning("the index %s gets no entries for new files: its expression is unknown", index.partition)
            staged.append(StagedExpression(index, None))
            continue
        known = staging.entries.values(ExpressionStaging(index.partition, spec))
        rest = [file for file in files if (file.partition, file.name.name) not in known]
        if rest:
            reading = key_reading(staging.snapshot)
            reading = KeyReading(_with_new_columns(reading.schema, written), reading.merging, history=reading.history)
            read = compute_values(commit.run, reading, spec, rest)
            known = {**known, **{(each.partition, each.file): each for each in read}}
        kept = tuple(known[file.partition, file.name.name] for file in files)
        staged.append(StagedExpression(index, spec, kept))
    return tuple(staged)


def compute_values(
    run: Callable[[Sequence[FileJob]], Sequence[FileResult]],
    reading: KeyReading,
    spec: ExpressionSpec,
    files: Sequence[BaseFile | LogFile],
) -> tuple[IndexedValues, ...]:
    """Compute the values of files for an expression index, by the engine's tasks.

    Args:
        run: runs the jobs.
        reading: how files are read.
        spec: the index.
        files: the files.
    """
    count = min(_TASKS, len(files))
    jobs = [ExpressionTask(n, reading, spec, tuple(files[n::count])) for n in range(count)]
    return tuple(kept for result in run(jobs) if isinstance(result, ExpressionResult) for kept in result.kept)


def _with_new_columns(schema: pa.Schema, written: CommitMetadata) -> pa.Schema:
    """Return the table's columns after a commit, meta fields first."""
    after = avro_to_arrow(written.extra_metadata[SCHEMA_KEY])
    metas = [field for field in schema if after.get_field_index(field.name) < 0 and field.name.startswith("_hoodie_")]
    return pa.schema([*metas, *after])


def expression_changes(
    commit: IndexedCommit, staged: Iterable[StagedExpression], locked: LockedCommit, indexes: Iterable[IndexSpec]
) -> dict[str, Changes | None]:
    """Return the changes to expression indexes, by partition of the metadata table; under the table's lock.

    Values of whole partitions are computed again for the partitions that the commit changes. An unfinished or newly
    created index gets a record that they are unknown.

    Args:
        commit: the commit, about to be completed.
        staged: the values computed before.
        locked: the table under its lock.
        indexes: the indexes that the table has now.
    """
    known = {each.index.partition: each for each in staged}
    changes: dict[str, Changes | None] = {}
    for index in indexes:
        each = known.get(index.partition)
        if each is None or each.index != index:  # another process has made the index since
            each = StagedExpression(index, None)
        if index.method == BLOOM_FILTERS:
            filters = [
                (kept.partition, kept.file, commit.instant.requested, kept.bloom) for kept in each.kept if kept.bloom
            ]
            changes[index.partition] = bloom_changes(filters) if filters else None
        elif len(index.columns) == 1:
            changes[index.partition] = _of_statistics(commit, each, locked)
    return changes


def _of_statistics(commit: IndexedCommit, staged: StagedExpression, locked: LockedCommit) -> Changes | None:
    meta, table = commit.meta, locked.table
    column, spec = staged.index.columns[0], staged.spec
    statistics = FileStatistics(
        meta,
        commit.instant,
        commit.written,
        staged.index.partition,
        StatsSpec((column,), staged.index.version),
        pa.schema([(column, pa.null() if spec is None else spec.value.type)]),
        stats_of_values(staged.kept),
    )
    if meta.config.is_partitioned and spec is not None and staged.index.partition in table.partitions:
        parts = list(statistics.of_both(locked))
    else:
        parts = [statistics.of_files()]
        if meta.config.is_partitioned:
            parts.append(_unknown_partitions(staged.index, commit.written))
    return concat_changes([part for part in parts if part is not None])


def _unknown_partitions(index: IndexSpec, written: CommitMetadata) -> Changes | None:
    """Return records stating that the values of a commit's partitions are unknown."""
    touched = sorted(written.partitions)
    if not touched:
        return None
    stats = deleted_stats([(partition, "") for partition in touched], index.columns, partitions=True)
    return encode_changes(partition_stats_records(stats, index.version, of_expression=True))


def expression_removals(index: IndexSpec, files: RemovedFiles, instant: str) -> Changes | None:
    """Return the records of an index that change where files are deleted; None for none."""
    if index.method == BLOOM_FILTERS:
        gone = [(partition, name) for partition, name in files.pairs if parse_base_file(name) is not None]
        return bloom_removals(gone, instant) if gone else None
    return deleted_statistics(StatsSpec(index.columns, index.version), files.pairs)


def stats_of_values(kept: Iterable[IndexedValues]) -> pa.Table:
    """Return the statistics of files as a table of `STATS`."""
    found = [(each.partition, each.file, each.stats) for each in kept if each.stats is not None]
    return stats_of_files(found) if found else STATS.empty_table()


def concat_changes(parts: Sequence[Changes]) -> Changes | None:
    """Combine changes to one partition of the metadata table; None for none."""
    if not parts:
        return None
    sides = ([part.keys for part in parts], [part.values for part in parts], [part.gone for part in parts])
    keys, values, gone = (joined_arrays(side) for side in sides)
    return Changes(keys, values, gone)


def _files(written: CommitMetadata) -> list[BaseFile | LogFile]:
    """Return the files that a commit wrote."""
    files = (data_file(stat) for stat in written.stats if stat.path)
    return [file for file in files if file is not None]
