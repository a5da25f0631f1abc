"""Every setting of the metadata table that has an effect here, with Hudi's keys (HoodieMetadataConfig of 1.2)."""

from __future__ import annotations

from functools import partial

from pudi.config.option import Option, Scope

_setting = partial(Option, scope=Scope.WRITE)
_flag = partial(_setting, kind=bool)
_count = partial(_setting, kind=int)

METADATA_OPTIONS: tuple[Option, ...] = (
    _flag(
        key="hoodie.metadata.enable",
        doc="Whether the table has a metadata table. A new table gets one, unless this is false. One that's there is "
        "kept in step whatever this says, but for false, given explicitly, which takes it away; true, given "
        "explicitly, makes one for a table that has none.",
        default=True,
    ),
    _flag(
        key="hoodie.metadata.index.column.stats.enable",
        doc="Whether the metadata table has statistics of columns, of files and of partitions. That of a new table "
        "gets them, unless this is false; true, given explicitly, makes them where there is a metadata table, false "
        "takes them away.",
        default=True,
    ),
    _setting(
        key="hoodie.metadata.index.column.stats.column.list",
        doc="Columns that statistics are made of, with commas between them, fields of structs with dots; by default "
        "the first ones.",
    ),
    _count(
        key="hoodie.metadata.index.column.stats.max.columns.to.index",
        doc="How many columns statistics are made of, where none are named.",
        default=32,
        minimum=0,
    ),
    _count(
        key="hoodie.metadata.index.column.stats.file.group.count",
        doc="Number of file groups of statistics of files.",
        default=2,
        minimum=1,
    ),
    _count(
        key="hoodie.metadata.index.partition.stats.file.group.count",
        doc="Number of file groups of statistics of partitions.",
        default=1,
        minimum=1,
    ),
    _flag(
        key="hoodie.metadata.index.bloom.filter.enable",
        doc="Whether the metadata table has the base files' bloom filters: true, given explicitly, makes them where "
        "there is a metadata table, false takes them away.",
    ),
    _count(
        key="hoodie.metadata.index.bloom.filter.file.group.count",
        doc="Number of file groups of the base files' bloom filters.",
        default=4,
        minimum=1,
    ),
    _flag(
        key="hoodie.metadata.global.record.level.index.enable",
        doc="Whether the metadata table has a record index: false, given explicitly, takes it away.",
        aliases=("hoodie.metadata.record.index.enable",),
    ),
    _flag(
        key="hoodie.metadata.record.level.index.enable",
        doc="Whether the metadata table has a record index in which a key is one record in its partition.",
    ),
    _count(
        key="hoodie.metadata.global.record.level.index.min.filegroup.count",
        doc="Least number of file groups of a record index over the whole table.",
        default=10,
        minimum=1,
        aliases=("hoodie.metadata.record.index.min.filegroup.count",),
    ),
    _count(
        key="hoodie.metadata.global.record.level.index.max.filegroup.count",
        doc="Greatest number of file groups of a record index over the whole table.",
        default=10_000,
        minimum=1,
        aliases=("hoodie.metadata.record.index.max.filegroup.count",),
    ),
    _count(
        key="hoodie.metadata.record.level.index.min.filegroup.count",
        doc="Least number of file groups, for each partition, of a record index by partition.",
        default=1,
        minimum=1,
        aliases=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    ),
    _count(
        key="hoodie.metadata.record.level.index.max.filegroup.count",
        doc="Greatest number of file groups, for each partition, of a record index by partition.",
        default=10,
        minimum=1,
        aliases=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    ),
    _count(
        key="hoodie.metadata.record.index.max.filegroup.size",
        doc="Bytes that a file group of the record index shall have at most, when their number is decided.",
        default=1 << 30,
        minimum=1,
    ),
    _setting(
        key="hoodie.metadata.record.index.growth.factor",
        doc="By how much the record index is expected to grow, when the number of its file groups is decided.",
        kind=float,
        default=2.0,
    ),
    _flag(
        key="hoodie.metadata.index.secondary.enable",
        doc="Whether a secondary index is made of the column that hoodie.metadata.index.secondary.column names; the "
        "table must have a record index.",
        default=True,
    ),
    _setting(
        key="hoodie.metadata.index.secondary.column",
        doc="The column that a secondary index is made of, where there is a metadata table and no such index yet.",
    ),
    _setting(
        key="hoodie.metadata.index.secondary.name",
        doc="Name of the secondary index that is made; by default that of its column.",
    ),
    _flag(
        key="hoodie.metadata.index.expression.enable",
        doc="Whether an expression index is made of the column that hoodie.metadata.index.expression.column names: "
        "true, given explicitly, makes it where there is a metadata table and no such index yet.",
        default=False,
    ),
    _setting(
        key="hoodie.metadata.index.expression.column",
        doc="The column that an expression index is made of.",
    ),
    _setting(
        key="hoodie.metadata.index.expression.name",
        doc="Name of the expression index that is made; by default that of its column.",
    ),
    _setting(
        key="hoodie.metadata.index.expression.type",
        doc="What an expression index keeps of each file: column_stats or bloom_filters.",
        default="column_stats",
    ),
    _setting(
        key="hoodie.metadata.index.expression.options",
        doc="The expression as name=value, with commas between them: `expr` is the function, `format`, `pos`, `len` "
        "and the like what it takes beside the column.",
    ),
    _count(
        key="hoodie.metadata.index.expression.file.group.count",
        doc="Number of file groups of an expression index.",
        default=2,
        minimum=1,
    ),
    _setting(
        key="hoodie.metadata.index.drop",
        doc="Partitions of the metadata table to take away, such as `secondary_index_rider`, with commas between them.",
    ),
    _count(
        key="hoodie.metadata.compact.max.delta.commits",
        doc="After how many delta commits the metadata table is compacted.",
        default=10,
        minimum=1,
    ),
    _flag(
        key="hoodie.metadata.log.compaction.enable",
        doc="Whether log files of the metadata table are merged among themselves between its compactions, from table "
        "version 8 on.",
        default=False,
    ),
    _count(
        key="hoodie.metadata.log.compaction.blocks.threshold",
        doc="So many log files of a file group of the metadata table, and so many delta commits since, make one.",
        default=5,
        minimum=2,
    ),
    _count(
        key="hoodie.keep.max.commits",
        doc="So many commits, and one more, the metadata table's timeline has before older ones are archived; the "
        "table's own is not archived yet.",
        default=30,
        minimum=1,
    ),
    _count(
        key="hoodie.keep.min.commits",
        doc="So many commits, and one more, archiving leaves on the metadata table's timeline.",
        default=20,
        minimum=0,
    ),
)
