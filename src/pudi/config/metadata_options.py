"""The options of the metadata table (HoodieMetadataConfig of 1.2), and the partitions that this release maintains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pudi.config.option import Declare, Option, Options, OptionsView, Scope, names_in

_option = Declare(Scope.WRITE)


class MetadataOptions(OptionsView):
    """Options of the metadata table: its partitions, and the schedule of its compaction."""

    __slots__ = ()

    enabled = _option(
        "hoodie.metadata.enable",
        "Whether the table has a metadata table. New tables get one by default. An existing metadata table is always "
        "maintained, unless this is explicitly false, which deletes it. An explicit true builds a missing one.",
        default=True,
        job_keys=("metadata.enabled",),
    )
    column_stats = _option(
        "hoodie.metadata.index.column.stats.enable",
        "Whether the metadata table has column statistics of files and partitions. New metadata tables get them by "
        "default. An explicit true builds them in an existing metadata table, an explicit false deletes them.",
        default=True,
    )
    column_stats_columns = _option(
        "hoodie.metadata.index.column.stats.column.list",
        "Columns to index, separated by commas; dots separate fields of structs. By default the first columns.",
    )
    column_stats_max_columns = _option(
        "hoodie.metadata.index.column.stats.max.columns.to.index",
        "Number of columns to index if none are listed.",
        default=32,
        minimum=0,
    )
    column_stats_groups = _option(
        "hoodie.metadata.index.column.stats.file.group.count",
        "Number of file groups of column_stats.",
        default=2,
        minimum=1,
    )
    partition_stats_groups = _option(
        "hoodie.metadata.index.partition.stats.file.group.count",
        "Number of file groups of partition_stats.",
        default=1,
        minimum=1,
    )
    bloom_filters = _option(
        "hoodie.metadata.index.bloom.filter.enable",
        "Whether the metadata table has the bloom filters of base files. An explicit true builds them in an existing "
        "metadata table, an explicit false deletes them.",
        kind=bool,
    )
    bloom_filters_groups = _option(
        "hoodie.metadata.index.bloom.filter.file.group.count",
        "Number of file groups of bloom_filters.",
        default=4,
        minimum=1,
    )
    record_index = _option(
        "hoodie.metadata.global.record.level.index.enable",
        "Whether the metadata table has a record index over the whole table. An explicit false deletes it.",
        kind=bool,
        aliases=("hoodie.metadata.record.index.enable",),
    )
    partitioned_record_index = _option(
        "hoodie.metadata.record.level.index.enable",
        "Whether the metadata table has a record index per partition, in which keys are unique within their partition.",
        kind=bool,
    )
    record_index_min_groups = _option(
        "hoodie.metadata.global.record.level.index.min.filegroup.count",
        "Minimum number of file groups of a record index over the whole table.",
        default=10,
        minimum=1,
        aliases=("hoodie.metadata.record.index.min.filegroup.count",),
    )
    record_index_max_groups = _option(
        "hoodie.metadata.global.record.level.index.max.filegroup.count",
        "Maximum number of file groups of a record index over the whole table.",
        default=10_000,
        minimum=1,
        aliases=("hoodie.metadata.record.index.max.filegroup.count",),
    )
    partitioned_record_index_min_groups = _option(
        "hoodie.metadata.record.level.index.min.filegroup.count",
        "Minimum number of file groups for each partition, of a record index per partition.",
        default=1,
        minimum=1,
        aliases=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    )
    partitioned_record_index_max_groups = _option(
        "hoodie.metadata.record.level.index.max.filegroup.count",
        "Maximum number of file groups for each partition, of a record index per partition.",
        default=10,
        minimum=1,
        aliases=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    )
    record_index_max_group_bytes = _option(
        "hoodie.metadata.record.index.max.filegroup.size",
        "Maximum size of a file group of the record index in bytes, used to choose the number of file groups.",
        default=1 << 30,
        minimum=1,
    )
    record_index_growth = _option(
        "hoodie.metadata.record.index.growth.factor",
        "Expected growth of the record index, used to choose the number of file groups.",
        default=2.0,
    )
    secondary_index = _option(
        "hoodie.metadata.index.secondary.enable",
        "Whether to build a secondary index on hoodie.metadata.index.secondary.column; the table must have a record "
        "index.",
        default=True,
    )
    secondary_index_column = _option(
        "hoodie.metadata.index.secondary.column",
        "Column of the secondary index to build, if there is a metadata table and no such index yet.",
    )
    secondary_index_name = _option(
        "hoodie.metadata.index.secondary.name",
        "Name of the secondary index to build; by default the column's name.",
    )
    expression_index = _option(
        "hoodie.metadata.index.expression.enable",
        "Whether to build an expression index on hoodie.metadata.index.expression.column, if there is a metadata "
        "table and no such index yet.",
        default=False,
    )
    expression_index_column = _option(
        "hoodie.metadata.index.expression.column", "Column of the expression index to build."
    )
    expression_index_name = _option(
        "hoodie.metadata.index.expression.name",
        "Name of the expression index to build; by default the column's name.",
    )
    expression_index_type = _option(
        "hoodie.metadata.index.expression.type",
        "What the expression index stores of each file: column_stats or bloom_filters.",
        default="column_stats",
    )
    expression_index_options = _option(
        "hoodie.metadata.index.expression.options",
        "The expression as name=value pairs, separated by commas: `expr` is the function; `format`, `pos`, `len` and "
        "so on are its other arguments.",
    )
    expression_index_groups = _option(
        "hoodie.metadata.index.expression.file.group.count",
        "Number of file groups of an expression index.",
        default=2,
        minimum=1,
    )
    drop = _option(
        "hoodie.metadata.index.drop",
        "Partitions of the metadata table to delete, such as `secondary_index_rider`, separated by commas.",
    )
    max_delta_commits = _option(
        "hoodie.metadata.compact.max.delta.commits",
        "Number of deltacommits after which the metadata table is compacted. pudi leaves room for those of a write and "
        "of the services behind it, and compacts some earlier.",
        default=10,
        minimum=1,
        job_keys=("metadata.compaction.delta_commits",),
    )
    log_compaction = _option(
        "hoodie.metadata.log.compaction.enable",
        "Whether the metadata table runs log compactions between its compactions, from table version 8 on.",
        default=False,
    )
    log_blocks_threshold = _option(
        "hoodie.metadata.log.compaction.blocks.threshold",
        "Number of log files of a file group, and of deltacommits since the last one, at which the metadata table "
        "runs a log compaction.",
        default=5,
        minimum=2,
    )


_KEPT = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
_KEPT_BY_NAME = ["secondary_index_", "expr_index_"]
"""Prefixes of the partitions of indexes that have names of their own."""
_SWITCHES: Mapping[str, Option[Any]] = {
    "column_stats": MetadataOptions.column_stats,
    "partition_stats": MetadataOptions.column_stats,
    "bloom_filters": MetadataOptions.bloom_filters,
    "record_index": MetadataOptions.record_index,
}
"""Hudi's option of each partition that has one."""


def metadata_switched_off(options: Options | None) -> bool:
    """Return whether the user disabled the metadata table."""
    return options is not None and options.explicit(MetadataOptions.enabled) is False


def metadata_wanted(options: Options) -> bool:
    """Return whether the user enabled the metadata table."""
    return options.explicit(MetadataOptions.enabled) is True


def metadata_dropped(options: Options | None, partitions: Iterable[str]) -> list[str]:
    """Return the partitions that the user disabled: their option is false, given explicitly."""
    if options is None:
        return []
    named = names_in(options[MetadataOptions.drop])
    return [p for p in partitions if p in named or (p in _SWITCHES and options.explicit(_SWITCHES[p]) is False)]


def maintain_partitions(name: str, *, is_named: bool) -> None:
    """Accept tables whose metadata table has partitions of a further type.

    Args:
        name: the partition's name, or what names begin with.
        is_named: whether it's the latter.
    """
    if is_named:
        _KEPT_BY_NAME.append(name)
    else:
        _KEPT.add(name)


def is_maintained(partition: str) -> bool:
    """Return whether this release maintains a partition of the metadata table."""
    return partition in _KEPT or partition.startswith(tuple(_KEPT_BY_NAME))
