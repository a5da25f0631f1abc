"""Options of the metadata table, and the partitions that this release maintains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pudi.config.metadata_options import MetadataOptions
from pudi.config.option import Option, Options, names_in
from pudi.config.table_config import TableConfig
from pudi.errors import NotSupportedError

_KEPT = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
_KEPT_BY_NAME = ["secondary_index_", "expr_index_"]
"""Prefixes of the partitions of indexes that have names of their own."""
_OF_RECORD_KEYS = ("record_index", "bloom_filters", "secondary_index_")
"""Prefixes of partitions that need record keys in files; in tables without these keys Hudi leaves them as they are."""
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


def metadata_by_default(options: Options) -> bool:
    """Whether a new table gets a metadata table."""
    return options[MetadataOptions.enabled]


def column_stats_by_default(options: Options) -> bool:
    """Whether the metadata table of a new table has statistics of columns."""
    return options[MetadataOptions.column_stats]


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


def check_metadata_kept(config: TableConfig, table: str, options: Options | None = None) -> None:
    """Refuse a metadata table with partitions that this release can't maintain.

    Args:
        config: the table's configuration.
        table: location of the table's root, for messages.
        options: the writer's: partitions that they drop are not checked.

    Raises:
        NotSupportedError: it names the partition, and the option that takes it away.
    """
    if metadata_switched_off(options):
        return
    dropped = set(metadata_dropped(options, config.metadata_partitions))
    for partition in (*config.metadata_partitions, *config.metadata_partitions_inflight):
        if partition.startswith(_OF_RECORD_KEYS) and not config.populate_meta_fields and partition not in dropped:
            raise NotSupportedError(
                f"the metadata table has partition {partition}, which nobody maintains in a table without meta "
                f"fields: Apache Hudi adds no keys to it, and finds too few; give option {MetadataOptions.drop}="
                f"{partition} to take it away",
                table=table,
            )
        kept = partition in _KEPT or partition.startswith(tuple(_KEPT_BY_NAME))
        if not kept and partition not in dropped:
            raise NotSupportedError(
                f"the metadata table has partition {partition}, which pudi does not maintain yet; give option "
                f"{MetadataOptions.drop}={partition} to take the partition away, {MetadataOptions.enabled}=false to "
                "take the whole metadata table away, or use Apache Hudi 1.2 for this table",
                table=table,
            )
