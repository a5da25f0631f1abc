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
        doc="Whether the table has a metadata table. One that's there is kept in step whatever this says, but for "
        "false, given explicitly, which takes it away; true, given explicitly, makes one.",
        default=False,
    ),
    _flag(
        key="hoodie.metadata.index.column.stats.enable",
        doc="Whether the metadata table has statistics of columns, of files and of partitions: false, given "
        "explicitly, takes them away.",
    ),
    _flag(
        key="hoodie.metadata.index.bloom.filter.enable",
        doc="Whether the metadata table has the base files' bloom filters: false, given explicitly, takes them away.",
    ),
    _flag(
        key="hoodie.metadata.global.record.level.index.enable",
        doc="Whether the metadata table has a record index: false, given explicitly, takes it away.",
        aliases=("hoodie.metadata.record.index.enable",),
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
)
