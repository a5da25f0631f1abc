"""What this release reads and writes, and what a caller may not change about a table: refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pudi.config import key_generators, merging
from pudi.config.metadata import check_metadata_kept
from pudi.config.option import Scope, Value, text_of
from pudi.config.resolve import Options, option
from pudi.config.semantics import merge_semantics
from pudi.config.table_config import TableConfig
from pudi.config.table_registry import (
    COPY_ON_WRITE,
    DELETE_FIELD,
    DELETE_MARKER,
    TABLE_VERSIONS,
    WRITABLE_KEY_GENERATORS,
    layout_of_version,
)
from pudi.config.timebased import INPUT_ZONE, OUTPUT_ZONE, ZONE, is_timebased, other_parser, persisted_zone, tells_type
from pudi.errors import InvalidArgumentError, NotSupportedError

_WITH_HUDI = "use Apache Hudi 1.2 for this table"


@dataclass(frozen=True, slots=True)
class _Limit:
    """One thing that a table may ask for: its property, what it says, whether that is held here, and what to do."""

    key: str
    said: Callable[[TableConfig], object]
    held: Callable[[TableConfig], bool]
    advice: str = _WITH_HUDI


_READ_LIMITS = (
    _Limit(
        "hoodie.table.version",
        lambda config: config.version,
        lambda config: config.version in TABLE_VERSIONS,
        "pudi reads versions 6, 8 and 9; bring the table to one of them with Apache Hudi 1.2",
    ),
    _Limit(
        "hoodie.timeline.layout.version",
        lambda config: config.layout_version,
        lambda config: config.layout_version == layout_of_version(config.version),
        "tables of version 6 have layout 1, those of versions 8 and 9 layout 2; mend the property",
    ),
    _Limit("hoodie.table.format", lambda config: config.table_format, lambda config: config.table_format == "native"),
    _Limit(
        "hoodie.table.base.file.format",
        lambda config: config.base_file_format,
        lambda config: config.base_file_format in {"PARQUET", "ORC", "HFILE"},
        f"pudi reads PARQUET, ORC and HFILE; {_WITH_HUDI}",
    ),
    _Limit(
        "hoodie.table.multiple.base.file.formats.enable",
        lambda config: config.multiple_base_file_formats,
        lambda config: not config.multiple_base_file_formats,
    ),
    _Limit(
        "hoodie.table.storage.layout",
        lambda config: config.storage_layout,
        lambda config: config.storage_layout == "DEFAULT",
    ),
    _Limit(
        "hoodie.bootstrap.base.path",
        lambda config: config.bootstrap_base_path,
        lambda config: config.bootstrap_base_path is None,
    ),
    _Limit(
        "hoodie.partition.metafile.use.base.format",
        lambda config: config.partition_metafile_use_base_format,
        lambda config: not config.partition_metafile_use_base_format,
    ),
    _Limit(
        "hoodie.datasource.write.drop.partition.columns",
        lambda config: config.drop_partition_columns,
        lambda config: not config.drop_partition_columns,
        f"the partition columns would be missing from the rows; {_WITH_HUDI}",
    ),
)

_WRITE_LIMITS = (
    _Limit(
        "hoodie.table.base.file.format",
        lambda config: config.base_file_format,
        lambda config: config.base_file_format in {"PARQUET", "HFILE"},
        f"pudi writes PARQUET and HFILE; {_WITH_HUDI}",
    ),
    _Limit("hoodie.table.cdc.enabled", lambda config: config.cdc_enabled, lambda config: not config.cdc_enabled),
    _Limit(
        "hoodie.populate.meta.fields",
        lambda config: config.populate_meta_fields,
        lambda config: config.populate_meta_fields,
    ),
    _Limit(
        "hoodie.table.keygenerator.type",
        lambda config: config.key_generator_type,
        lambda config: config.key_generator_type in WRITABLE_KEY_GENERATORS,
        f"pudi writes SIMPLE, COMPLEX, NON_PARTITION, TIMESTAMP and CUSTOM; {_WITH_HUDI}",
    ),
    _Limit(
        "hoodie.keygen.datetime.parser.class",
        lambda config: other_parser(config.raw),
        lambda config: other_parser(config.raw) is None,
        f"a class is never loaded by name; {_WITH_HUDI}",
    ),
    _Limit(
        f"{DELETE_FIELD} or {DELETE_MARKER}",
        lambda config: config.raw.get(DELETE_FIELD) or config.raw.get(DELETE_MARKER),
        lambda config: bool(config.raw.get(DELETE_FIELD)) == bool(config.raw.get(DELETE_MARKER)),
        "one is nothing without the other: Hudi refuses it too",
    ),
    _Limit(
        "hoodie.datasource.write.slash.separated.date.partitioning",
        lambda config: config.slash_separated_dates,
        lambda config: not config.slash_separated_dates,
    ),
)

_MERGE_LIMITS = (
    _Limit(
        "hoodie.compaction.payload.class",
        lambda config: config.payload_class,
        lambda config: merge_semantics(config).payload_class is None,
        f"the class is not known here, and none is loaded by name; {_WITH_HUDI}",
    ),
    _Limit(
        "hoodie.record.merge.mode",
        lambda config: f"{config.merge_mode} and hoodie.record.merge.strategy.id={config.merge_strategy_id}",
        lambda config: merge_semantics(config).is_known,
        f"the id is of no merger that could be registered; {_WITH_HUDI}",
    ),
    _Limit(
        "hoodie.table.partial.update.mode",
        lambda config: config.partial_update_mode,
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

    A table whose metadata table has partitions that can't be kept in step is written only with an option that takes
    them away, see `check_metadata_kept`.

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


def check_mergeable(config: TableConfig, table: str) -> None:
    """Refuse a table whose rule for versions of a record is not known here; what needs no merging can still be read.

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


def check_consistent(config: TableConfig, options: Options, table: str) -> None:
    """Refuse options that contradict what the table has persisted.

    Args:
        config: the table's configuration.
        options: the options of a verb or of a `Table`; those of scope TABLE are compared.
        table: location of the table's root, for messages.

    Raises:
        InvalidArgumentError: one differs; the message names both values.
    """
    for key, value in options.of_scope(Scope.TABLE).items():
        wanted, persisted = _normalised(key, value), _persisted(config, key)
        if persisted is not None and wanted != persisted:
            raise InvalidArgumentError(
                f"option {options.name_of(key)}={text_of(value)} contradicts the table, which has {persisted}: it is "
                "fixed when the table is made",
                table=table,
            )


def _hold(limits: Iterable[_Limit], config: TableConfig, table: str, done: str) -> None:
    for limit in limits:
        if not limit.held(config):
            said = limit.said(config)
            value = text_of(said) if isinstance(said, (str, bool, int, float)) else said
            raise NotSupportedError(
                f"a table with {limit.key}={value} can't be {done} yet: {limit.advice}", table=table
            )


def _normalised(key: str, value: Value) -> str:
    if key == "hoodie.table.keygenerator.class":
        return key_generators.type_of_class(str(value)).removesuffix("_AVRO")
    if key in {"hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"}:
        known = merging.payload(str(value))
        return str(value) if known is None else f"{known.mode} {known.partial_update}"
    if key == "hoodie.record.merge.strategy.id":
        mode = merging.mode_of_strategy(str(value))
        return str(value).lower() if mode == merging.CUSTOM else mode
    if key == "hoodie.table.partition.fields":
        return ",".join(name.split(":", 1)[0] for name in _names(str(value)))
    if key in {"hoodie.table.recordkey.fields", "hoodie.table.ordering.fields"}:
        return ",".join(_names(str(value)))
    return text_of(value).removesuffix("_AVRO") if key == "hoodie.table.keygenerator.type" else text_of(value)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _persisted(config: TableConfig, key: str) -> str | None:
    """What the table says about `key`, normalised; None where options have no say or the table none."""
    merges = merge_semantics(config)
    custom = config.merge_mode == merging.CUSTOM and config.merge_strategy_id is not None
    by_payload = merges.payload_class or f"{merges.mode} {merges.partial_update}"
    derived = {
        "hoodie.table.recordkey.fields": ",".join(config.record_key_fields),
        "hoodie.table.partition.fields": ",".join(config.partition_fields),
        "hoodie.table.ordering.fields": ",".join(config.ordering_fields),
        "hoodie.table.keygenerator.type": config.key_generator_type.removesuffix("_AVRO"),
        "hoodie.table.keygenerator.class": config.key_generator_type.removesuffix("_AVRO"),
        "hoodie.record.merge.mode": config.merge_mode,
        "hoodie.record.merge.strategy.id": str(config.merge_strategy_id).lower() if custom else config.merge_mode,
        "hoodie.compaction.payload.class": by_payload,
        "hoodie.table.legacy.payload.class": by_payload,
        "hoodie.table.version": str(config.version),
        "hoodie.table.initial.version": str(config.initial_version),
        "hoodie.timeline.layout.version": str(config.layout_version),
        "hoodie.database.name": config.database or None,
        "hoodie.table.checksum": None,
        "hoodie.table.create.schema": None,
        "hoodie.table.partition_extractor_class": None,
        DELETE_FIELD: config.raw.get(DELETE_FIELD, ""),
        DELETE_MARKER: config.raw.get(DELETE_MARKER, ""),
    }
    if key in (ZONE, INPUT_ZONE, OUTPUT_ZONE):
        return persisted_zone(config.raw, OUTPUT_ZONE if key == ZONE else key)
    if is_timebased(key) and not tells_type(config.raw):
        return None
    if key in derived:
        return derived[key]
    declared = option(key)
    if declared.is_family:
        return config.raw.get(key, "")
    text = next((config.raw[name] for name in (key, *declared.aliases) if name in config.raw), None)
    if text is not None:
        return text_of(declared.parse(text))
    return None if declared.default is None else text_of(declared.default)
