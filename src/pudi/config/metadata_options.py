"""The options of the metadata table, with Hudi's keys and defaults (HoodieMetadataConfig of 1.2)."""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope

_option = Declare(Scope.WRITE)


class MetadataOptions(OptionsView):
    """What the metadata table holds, and when it's compacted and archived."""

    __slots__ = ()

    enabled = _option(
        "hoodie.metadata.enable",
        "Whether the table has a metadata table. A new table gets one, unless this is false. One that's there is "
        "kept in step whatever this says, but for false, given explicitly, which takes it away; true, given "
        "explicitly, makes one for a table that has none.",
        default=True,
    )
    column_stats = _option(
        "hoodie.metadata.index.column.stats.enable",
        "Whether the metadata table has statistics of columns, of files and of partitions. That of a new table "
        "gets them, unless this is false; true, given explicitly, makes them where there is a metadata table, false "
        "takes them away.",
        default=True,
    )
    column_stats_columns = _option(
        "hoodie.metadata.index.column.stats.column.list",
        "Columns that statistics are made of, with commas between them, fields of structs with dots; by default "
        "the first ones.",
    )
    column_stats_max_columns = _option(
        "hoodie.metadata.index.column.stats.max.columns.to.index",
        "How many columns statistics are made of, where none are named.",
        default=32,
        minimum=0,
    )
    column_stats_groups = _option(
        "hoodie.metadata.index.column.stats.file.group.count",
        "Number of file groups of statistics of files.",
        default=2,
        minimum=1,
    )
    partition_stats_groups = _option(
        "hoodie.metadata.index.partition.stats.file.group.count",
        "Number of file groups of statistics of partitions.",
        default=1,
        minimum=1,
    )
    bloom_filters = _option(
        "hoodie.metadata.index.bloom.filter.enable",
        "Whether the metadata table has the base files' bloom filters: true, given explicitly, makes them where "
        "there is a metadata table, false takes them away.",
        kind=bool,
    )
    bloom_filters_groups = _option(
        "hoodie.metadata.index.bloom.filter.file.group.count",
        "Number of file groups of the base files' bloom filters.",
        default=4,
        minimum=1,
    )
    record_index = _option(
        "hoodie.metadata.global.record.level.index.enable",
        "Whether the metadata table has a record index: false, given explicitly, takes it away.",
        kind=bool,
        aliases=("hoodie.metadata.record.index.enable",),
    )
    partitioned_record_index = _option(
        "hoodie.metadata.record.level.index.enable",
        "Whether the metadata table has a record index in which a key is one record in its partition.",
        kind=bool,
    )
    record_index_min_groups = _option(
        "hoodie.metadata.global.record.level.index.min.filegroup.count",
        "Least number of file groups of a record index over the whole table.",
        default=10,
        minimum=1,
        aliases=("hoodie.metadata.record.index.min.filegroup.count",),
    )
    record_index_max_groups = _option(
        "hoodie.metadata.global.record.level.index.max.filegroup.count",
        "Greatest number of file groups of a record index over the whole table.",
        default=10_000,
        minimum=1,
        aliases=("hoodie.metadata.record.index.max.filegroup.count",),
    )
    partitioned_record_index_min_groups = _option(
        "hoodie.metadata.record.level.index.min.filegroup.count",
        "Least number of file groups, for each partition, of a record index by partition.",
        default=1,
        minimum=1,
        aliases=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    )
    partitioned_record_index_max_groups = _option(
        "hoodie.metadata.record.level.index.max.filegroup.count",
        "Greatest number of file groups, for each partition, of a record index by partition.",
        default=10,
        minimum=1,
        aliases=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    )
    record_index_max_group_bytes = _option(
        "hoodie.metadata.record.index.max.filegroup.size",
        "Bytes that a file group of the record index shall have at most, when their number is decided.",
        default=1 << 30,
        minimum=1,
    )
    record_index_growth = _option(
        "hoodie.metadata.record.index.growth.factor",
        "By how much the record index is expected to grow, when the number of its file groups is decided.",
        default=2.0,
    )
    secondary_index = _option(
        "hoodie.metadata.index.secondary.enable",
        "Whether a secondary index is made of the column that hoodie.metadata.index.secondary.column names; the "
        "table must have a record index.",
        default=True,
    )
    secondary_index_column = _option(
        "hoodie.metadata.index.secondary.column",
        "The column that a secondary index is made of, where there is a metadata table and no such index yet.",
    )
    secondary_index_name = _option(
        "hoodie.metadata.index.secondary.name",
        "Name of the secondary index that is made; by default that of its column.",
    )
    expression_index = _option(
        "hoodie.metadata.index.expression.enable",
        "Whether an expression index is made of the column that hoodie.metadata.index.expression.column names: "
        "true, given explicitly, makes it where there is a metadata table and no such index yet.",
        default=False,
    )
    expression_index_column = _option(
        "hoodie.metadata.index.expression.column", "The column that an expression index is made of."
    )
    expression_index_name = _option(
        "hoodie.metadata.index.expression.name",
        "Name of the expression index that is made; by default that of its column.",
    )
    expression_index_type = _option(
        "hoodie.metadata.index.expression.type",
        "What an expression index keeps of each file: column_stats or bloom_filters.",
        default="column_stats",
    )
    expression_index_options = _option(
        "hoodie.metadata.index.expression.options",
        "The expression as name=value, with commas between them: `expr` is the function, `format`, `pos`, `len` "
        "and the like what it takes beside the column.",
    )
    expression_index_groups = _option(
        "hoodie.metadata.index.expression.file.group.count",
        "Number of file groups of an expression index.",
        default=2,
        minimum=1,
    )
    drop = _option(
        "hoodie.metadata.index.drop",
        "Partitions of the metadata table to take away, such as `secondary_index_rider`, with commas between them.",
    )
    max_delta_commits = _option(
        "hoodie.metadata.compact.max.delta.commits",
        "After how many delta commits the metadata table is compacted.",
        default=10,
        minimum=1,
    )
    log_compaction = _option(
        "hoodie.metadata.log.compaction.enable",
        "Whether log files of the metadata table are merged among themselves between its compactions, from table "
        "version 8 on.",
        default=False,
    )
    log_blocks_threshold = _option(
        "hoodie.metadata.log.compaction.blocks.threshold",
        "So many log files of a file group of the metadata table, and so many delta commits since, make one.",
        default=5,
        minimum=2,
    )
    keep_max_commits = _option(
        "hoodie.keep.max.commits",
        "So many commits, and one more, the metadata table's timeline has before older ones are archived; the "
        "table's own is not archived yet.",
        default=30,
        minimum=1,
    )
    keep_min_commits = _option(
        "hoodie.keep.min.commits",
        "So many commits, and one more, archiving leaves on the metadata table's timeline.",
        default=20,
        minimum=0,
    )
