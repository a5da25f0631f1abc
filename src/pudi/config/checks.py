"""Refuse, by name, tables that this release can't read or write, and options that contradict a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pudi.config import key_generators, merging
from pudi.config.clustering_options import ClusteringOptions
from pudi.config.compaction_options import CompactionOptions
from pudi.config.key_generators import INPUT_ZONE, OUTPUT_ZONE, ZONE, other_parser, persisted_zone, tells_type
from pudi.config.metadata_options import MetadataOptions, is_maintained, metadata_dropped, metadata_switched_off
from pudi.config.option import Option, Options, Scope, Value, names_in, text_of
from pudi.config.resolve import option, options_of_scope
from pudi.config.retention_options import ArchiveOptions, CleanOptions
from pudi.config.table_config import TableConfig, merge_semantics
from pudi.config.table_options import (
    COPY_ON_WRITE,
    NEWEST_VERSION,
    OLD_VERSIONS,
    TABLE_VERSIONS,
    WRITABLE_KEY_GENERATORS,
    MergeMode,
    OtherTableOptions,
    TimebasedOptions,
    layout_of_version,
)
from pudi.config.write_options import WriteOptions
from pudi.errors import InvalidArgumentError, NotSupportedError

_TIMEBASED = {declared.key for declared in TimebasedOptions.declared}
_UPGRADE = "leave it out, or change it by Table.upgrade"
_WITH_HUDI = "use Apache Hudi 1.2 for this table"
_OF_RECORD_KEYS = ("record_index", "bloom_filters", "secondary_index_")
"""Prefixes of partitions that need record keys in files; in tables without these keys Hudi leaves them as they are."""


_ASYNC: tuple[Option[Any], ...] = (
    CompactionOptions.run_async,
    ClusteringOptions.run_async,
    CleanOptions.run_async,
    ArchiveOptions.run_async,
)
_CLUSTERING: tuple[Option[Any], ...] = (
    ClusteringOptions.inline,
    ClusteringOptions.schedule_inline,
    ClusteringOptions.run_async,
)
"""Options that ask for clustering with writes."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """One thing that a table may ask for.

    Attributes:
        option: the property that says it, or properties.
        is_kept: whether the table is within what this release does.
        advice: what to do where it isn't.
        said: what the table says; None for the property's value.
    """

    option: Option[Any] | str
    is_kept: Callable[[TableConfig], bool]
    advice: str = _WITH_HUDI
    said: Callable[[TableConfig], object] | None = None

    def value(self, config: TableConfig) -> object:
        if self.said is not None or isinstance(self.option, str):
            return None if self.said is None else self.said(config)
        return self.option.value_in(config.given)


def _beside_path_columns(config: TableConfig) -> str | None:
    """Return the setting that keeps readers from taking the partition columns from paths; None if there is none."""
    kinds = {config.key_generator_type.removesuffix("_AVRO"), *config.partition_types}
    nested = [name for name in config.partition_fields if "." in name]
    if "TIMESTAMP" in kinds:
        return f"{TableConfig.key_generator}={config.key_generator_type}, whose folders are named by time"
    if nested:
        return f"the partition column {nested[0]}, which lies in a struct"
    if config.slash_separated_dates:
        return f"{TableConfig.slash_separated_dates}=true"
    if not config.populate_meta_fields:
        return f"{TableConfig.populate_meta_fields}=false"
    return f"{TableConfig.cdc_enabled}=true" if config.cdc_enabled else None


def _keys_not_computed(config: TableConfig) -> str | None:
    """Why a table without meta fields can't be written; None where it can (validateAgainstTableProperties)."""
    if config.populate_meta_fields:
        return None
    kind = config.key_generator_type.removesuffix("_AVRO")
    if not config.record_key_fields:
        return "false without record keys, which nothing would hold"
    if kind not in {"SIMPLE", "COMPLEX", "NON_PARTITION"}:
        return f"false and key generator {kind}"
    return None


SAYS_ITS_KEYS = 3
"""Version from which properties say how keys and partition paths are made; before, the options of each writer did."""

NAMES_KEYS = 9
"""Table version from which complex keys of one column have its name for sure."""

_READ_LIMITS = (
    _Limit(
        TableConfig.version,
        lambda config: config.version in {*TABLE_VERSIONS, *OLD_VERSIONS},
        f"pudi reads versions 0 to {NEWEST_VERSION}; use a later release",
    ),
    _Limit(
        TableConfig.layout_version,
        lambda config: config.layout_version == layout_of_version(config.version),
        "tables below version 8 have layout 1, those of versions 8 and 9 layout 2; mend the property",
    ),
    _Limit(TableConfig.table_format, lambda config: config.table_format == "native"),
    _Limit(
        TableConfig.base_file_format,
        lambda config: config.base_file_format in {"PARQUET", "ORC", "HFILE"},
        f"pudi reads PARQUET, ORC and HFILE; {_WITH_HUDI}",
    ),
    _Limit(TableConfig.multiple_base_file_formats, lambda config: not config.multiple_base_file_formats),
    _Limit(
        TableConfig.layout_type,
        lambda config: config.storage_layout == "DEFAULT",
        said=lambda config: config.storage_layout,
    ),
    _Limit(TableConfig.bootstrap_base_path, lambda config: config.bootstrap_base_path is None),
    _Limit(
        TableConfig.partition_metafile_use_base_format, lambda config: not config.partition_metafile_use_base_format
    ),
    _Limit(
        TableConfig.drop_partition_columns,
        lambda config: not config.drop_partition_columns or _beside_path_columns(config) is None,
        f"pudi takes columns that files lack from paths, and can't together with that; {_WITH_HUDI}",
        lambda config: f"true together with {_beside_path_columns(config)}",
    ),
)


_WRITE_LIMITS = (
    _Limit(
        TableConfig.version,
        lambda config: config.version in TABLE_VERSIONS,
        "pudi writes versions 6, 8 and 9; bring it to one of them: Table.upgrade(), or `pudi upgrade`",
    ),
    _Limit(
        TableConfig.base_file_format,
        lambda config: config.base_file_format in {"PARQUET", "ORC", "HFILE"},
        f"pudi writes PARQUET, ORC and HFILE; {_WITH_HUDI}",
    ),
    _Limit(
        TableConfig.populate_meta_fields,
        lambda config: _keys_not_computed(config) is None,
        "Apache Hudi has such tables with keys of columns, by SIMPLE, COMPLEX and NON_PARTITION alone",
        _keys_not_computed,
    ),
    _Limit(
        TableConfig.key_generator,
        lambda config: config.key_generator_type in WRITABLE_KEY_GENERATORS,
        f"pudi writes SIMPLE, COMPLEX, NON_PARTITION, TIMESTAMP and CUSTOM; {_WITH_HUDI}",
        lambda config: config.key_generator_type,
    ),
    _Limit(
        OtherTableOptions.datetime_parser,
        lambda config: other_parser(config.raw) is None,
        f"a class is never loaded by name; {_WITH_HUDI}",
        lambda config: other_parser(config.raw),
    ),
    _Limit(
        f"{OtherTableOptions.delete_field} or {OtherTableOptions.delete_marker}",
        lambda config: len([text for text in _delete_marker(config) if text]) != 1,
        "one is nothing without the other: Hudi refuses it too",
        lambda config: "".join(_delete_marker(config)),
    ),
    _Limit(TableConfig.slash_separated_dates, lambda config: not config.slash_separated_dates),
)

_MERGE_LIMITS = (
    _Limit(
        TableConfig.compaction_payload_class,
        lambda config: not merge_semantics(config).lacks_merger,
        "the class is not known here, and none is loaded by name; register a pudi.RecordMerger that does the same: "
        f"pudi.register_merger(…, payload_class=…); or {_WITH_HUDI}",
        lambda config: config.payload_class,
    ),
    _Limit(
        TableConfig.record_merge_mode,
        lambda config: merge_semantics(config).is_known,
        f"the id is of no merger that could be registered; {_WITH_HUDI}",
        lambda config: f"{config.merge_mode} and {TableConfig.merge_strategy_id}={config.merge_strategy_id}",
    ),
    _Limit(
        TableConfig.partial_update_mode,
        lambda config: config.version >= 9 or config.partial_update_mode is None,
        f"below version 9 Hudi takes no notice of it; {_WITH_HUDI}",
    ),
)


def check_readable(config: TableConfig, table: str) -> None:
    """Refuse a table that this release can't read right.

    Args:
        config: the table's configuration.
        table: location of the table's root, for messages.

    Raises:
        NotSupportedError: the table's version or one of its features is not supported; the message names the
            property, its value and what to do.
    """
    _hold(_READ_LIMITS, config, table, "read")


def check_writable(config: TableConfig, table: str, options: Options | None = None) -> None:
    """Refuse a table that this release can't write right. What can't be read can't be written.

    A metadata table with partitions that pudi can't maintain requires an option that drops them, see
    `check_metadata_kept`.

    Args:
        config: the table's configuration.
        table: location of the table's root, for messages.
        options: the writer's options.

    Raises:
        NotSupportedError: as `check_readable`.
    """
    check_readable(config, table)
    _hold(_WRITE_LIMITS, config, table, "written")
    check_mergeable(config, table)
    check_metadata_kept(config, table, options)


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
        if not is_maintained(partition) and partition not in dropped:
            raise NotSupportedError(
                f"the metadata table has partition {partition}, which pudi does not maintain yet; give option "
                f"{MetadataOptions.drop}={partition} to take the partition away, {MetadataOptions.enabled}=false to "
                "take the whole metadata table away, or use Apache Hudi 1.2 for this table",
                table=table,
            )


def check_mergeable(config: TableConfig, table: str) -> None:
    """Refuse a table with an unknown merge rule; reads that need no merging still work.

    Args:
        config: the table's configuration.
        table: location of the table's root, for messages.

    Raises:
        NotSupportedError: it names a payload class that pudi doesn't know, or no rule at all.
    """
    _hold(_MERGE_LIMITS, config, table, "merged")


def check_compactable(config: TableConfig, table: str, options: Options | None = None) -> None:
    """Refuse to compact a table that has no log files to compact, or that this release can't write right.

    Args:
        config: the table's configuration.
        table: location of the table's root, for messages.
        options: the options of the call.

    Raises:
        InvalidArgumentError: it's a copy-on-write table.
        NotSupportedError: as `check_writable`.
    """
    check_readable(config, table)
    if config.table_type == COPY_ON_WRITE:
        raise InvalidArgumentError("a copy-on-write table has no log files: there is nothing to compact", table=table)
    _hold(_WRITE_LIMITS, config, table, "compacted")
    check_metadata_kept(config, table, options)


def check_inline_compaction(table_type: str, options: Options, table: str) -> None:
    """Refuse a compaction after writes to a copy-on-write table, where Hudi fails too.

    Raises:
        InvalidArgumentError: the options ask for one.
    """
    if table_type == COPY_ON_WRITE and options[CompactionOptions.inline]:
        raise InvalidArgumentError(
            f"{options.name_of(CompactionOptions.inline)}=true: a copy-on-write table has no log files to compact: "
            "leave the option out",
            table=table,
        )


def check_services(config: TableConfig, options: Options, table: str) -> None:
    """Refuse services after a write that can't run, before anything is written.

    Args:
        config: the table's configuration.
        options: the options of a write.
        table: location of the table's root, for messages.

    Raises:
        InvalidArgumentError: the options ask for services beside writes, and for none; see also
            `check_inline_compaction`.
        NotSupportedError: they ask for clustering of HFiles.
    """
    check_inline_compaction(config.table_type, options, table)
    for asked in _CLUSTERING if config.base_file_format == "HFILE" else ():
        if options[asked]:
            raise NotSupportedError(
                f"{options.name_of(asked)}=true: records of HFiles are always in the order of their keys, so they "
                "can't be clustered: leave the option out",
                table=table,
            )
    for asked in () if options[CompactionOptions.services] else _ASYNC:
        if options[asked]:
            raise InvalidArgumentError(
                f"{options.name_of(asked)}=true and {CompactionOptions.services}=false exclude each "
                "other: leave one of them out",
                table=table,
            )


def check_consistent(config: TableConfig, options: Options, table: str) -> None:
    """Refuse options that contradict what the table has persisted.

    Args:
        config: the table's configuration.
        options: the options of a verb or of a `Table`; those of scope TABLE are compared.
        table: location of the table's root, for messages.

    Raises:
        InvalidArgumentError: one differs; the message names both values.
        NotSupportedError: the options name a merger that isn't registered.
    """
    _check_mergers(options, table)
    for key, value in options_of_scope(options, Scope.TABLE).items():
        if key == TableConfig.version.key and options[WriteOptions.auto_upgrade] and int(str(value)) > config.version:
            continue  # the next write brings the table there
        wanted, persisted = _normalised(key, value), _persisted(config, key)
        if persisted is not None and wanted != persisted:
            raise InvalidArgumentError(
                f"option {options.named.get(key, key)}={text_of(value)} contradicts the table, which has {persisted}: "
                + (_UPGRADE if key == TableConfig.version.key else "it is fixed when the table is made"),
                table=table,
            )


def _check_mergers(options: Options, table: str) -> None:
    named = options.explicit(WriteOptions.merger_classes)
    unknown = merging.unknown_merger(names_in(str(named or "")))
    if unknown is not None:
        raise NotSupportedError(
            f"option {options.name_of(WriteOptions.merger_classes)} names {unknown}, which isn't one of Hudi's own "
            "mergers nor registered here: write it as a pudi.RecordMerger, and register it by pudi.register_merger; a "
            "class is never loaded by name",
            table=table,
        )


def _hold(limits: Iterable[_Limit], config: TableConfig, table: str, done: str) -> None:
    for limit in limits:
        if not limit.is_kept(config):
            said = limit.value(config)
            value = text_of(said) if isinstance(said, (str, bool, int, float)) else said
            raise NotSupportedError(
                f"a table with {limit.option}={value} can't be {done} yet: {limit.advice}", table=table
            )


def _delete_marker(config: TableConfig) -> tuple[str, str]:
    """Column and text of deletes as the properties have them, empty where they have none."""
    options = (OtherTableOptions.delete_field, OtherTableOptions.delete_marker)
    column, marker = (config.raw.get(option.key, "") for option in options)
    return column, marker


def _normalised(key: str, value: Value) -> str:
    if key == TableConfig.key_generator_class.key:
        return key_generators.type_of_class(str(value)).removesuffix("_AVRO")
    if key in {TableConfig.compaction_payload_class.key, TableConfig.legacy_payload_class.key}:
        known = merging.payload(str(value))
        return str(value) if known is None else f"{known.mode} {known.partial_update}"
    if key == TableConfig.merge_strategy_id.key:
        mode = merging.mode_of_strategy(str(value))
        return str(value).lower() if mode is MergeMode.CUSTOM else mode.value
    if key == TableConfig.partition_by.key:
        return ",".join(name.split(":", 1)[0] for name in names_in(str(value)))
    if key in {TableConfig.record_key.key, TableConfig.ordering.key}:
        return ",".join(names_in(str(value)))
    return text_of(value).removesuffix("_AVRO") if key == TableConfig.key_generator.key else text_of(value)


def _persisted(config: TableConfig, key: str) -> str | None:
    """Return the table's own value of `key`, normalised; None if the table has none or options can't contradict it."""
    merges = merge_semantics(config)
    custom = config.merge_mode is MergeMode.CUSTOM and config.merge_strategy_id is not None
    by_payload = merges.payload_class or f"{merges.mode} {merges.partial_update}"
    derived = {
        TableConfig.record_key.key: ",".join(config.record_key_fields),
        TableConfig.partition_by.key: ",".join(config.partition_fields),
        TableConfig.ordering.key: ",".join(config.ordering_fields),
        TableConfig.key_generator.key: config.key_generator_type.removesuffix("_AVRO"),
        TableConfig.key_generator_class.key: config.key_generator_type.removesuffix("_AVRO"),
        TableConfig.record_merge_mode.key: config.merge_mode.value,
        TableConfig.merge_strategy_id.key: str(config.merge_strategy_id).lower() if custom else config.merge_mode.value,
        TableConfig.compaction_payload_class.key: by_payload,
        TableConfig.legacy_payload_class.key: by_payload,
        TableConfig.unavailable_value.key: config.merge_properties.get(merging.UNAVAILABLE),
        TableConfig.version.key: str(config.version),
        TableConfig.first_version.key: str(config.initial_version),
        TableConfig.layout_version.key: str(config.layout_version),
        TableConfig.database.key: config.database or None,
        OtherTableOptions.checksum.key: None,
        TableConfig.create_schema.key: None,
        OtherTableOptions.partition_extractor.key: None,
        OtherTableOptions.delete_field.key: _delete_marker(config)[0],
        OtherTableOptions.delete_marker.key: _delete_marker(config)[1],
    }
    if key in {ZONE.key, OUTPUT_ZONE.key}:
        return persisted_zone(config.raw, OUTPUT_ZONE)
    if key == INPUT_ZONE.key:
        return persisted_zone(config.raw, INPUT_ZONE)
    if key in _TIMEBASED and not tells_type(config.raw):
        return None
    if key == TableConfig.logical_timestamps.key and key not in config.raw:  # Hudi's writers have it in their options
        return None
    if key in derived:
        return derived[key] if config.version >= SAYS_ITS_KEYS or derived[key] else None
    declared = option(key)
    if declared.is_family:
        return config.raw.get(key, "")
    text = next((config.raw[name] for name in (key, *declared.aliases) if name in config.raw), None)
    if text is not None:
        return text_of(declared.parse(text))
    if config.version < SAYS_ITS_KEYS:
        return None
    return None if declared.default is None else text_of(declared.default)


def check_backup(options: Options, table: str) -> None:
    """Refuse a folder for copies of what is rolled back that isn't below `.hoodie`, if such copies are made.

    Args:
        options: the caller's.
        table: location of the table, for the message.

    Raises:
        NotSupportedError: it's an absolute location, or leaves `.hoodie`.
    """
    folder = options[WriteOptions.rolled_back_folder]
    parts = folder.split("/")
    if options[WriteOptions.keeps_rolled_back] and (not {"", ".", ".."}.isdisjoint(parts) or ":" in parts[0]):
        raise NotSupportedError(
            f"{WriteOptions.rolled_back_folder}={folder!r} must be the path of a folder below .hoodie", table=table
        )
