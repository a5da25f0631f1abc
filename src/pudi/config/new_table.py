"""The properties of a new table: those that Apache Hudi writes for one of its version, without a metadata table.

Hudi 1.2 renamed the ordering fields for all versions, and states a key generator by its type alone. Releases that know
version 6 (0.14, 0.15) or 8 (1.0) look for the old names only: without them they merge as if there were no ordering.

Source: HoodieTableConfig of 0.15.0 and 1.0.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pudi.config import key_generators, merging
from pudi.config.key_generators import zone_defaults
from pudi.config.option import Option, Options, Scope, Status, names_in, text_of
from pudi.config.resolve import option, options_of_scope
from pudi.config.table_options import (
    COPY_ON_WRITE,
    TABLE_VERSIONS,
    MergeMode,
    OtherTableOptions,
    PartialUpdate,
    TableOptions,
    layout_of_version,
)
from pudi.errors import InvalidArgumentError, NotSupportedError

_VERSION = TableOptions.version.key
_ORDERING = TableOptions.ordering.key
_PRECOMBINE = TableOptions.ordering.aliases[0]
_GENERATOR, _GENERATOR_CLASS = TableOptions.key_generator.key, TableOptions.key_generator_class.key
_PRECOMBINED = frozenset({6, 8})
"""Versions whose first releases know the ordering fields as the precombine field."""
_BY_CLASS = frozenset({6})
"""Versions whose releases know key generators by class only."""


def missing_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a table lacks for the releases of its version, by their old names; empty if none.

    Args:
        properties: all properties of a table, or of its metadata table.
    """
    version = int(properties.get(_VERSION, "9"))
    missing: dict[str, str] = {}
    if version in _PRECOMBINED and properties.get(_ORDERING):
        missing[_PRECOMBINE] = properties[_ORDERING]
    of_type = key_generators.class_of_type(properties.get(_GENERATOR, ""))
    if version in _BY_CLASS and of_type is not None:
        missing[_GENERATOR_CLASS] = of_type
    return {key: value for key, value in missing.items() if key not in properties}


def with_older_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with those that `missing_names` finds."""
    return {**properties, **missing_names(properties)}


_FIXED = {
    TableOptions.archive_path.key: "history",
    TableOptions.drop_partition_columns.key: "false",
    TableOptions.hive_style.key: "false",
    TableOptions.url_encode.key: "false",
    TableOptions.partition_metafile_use_base_format.key: "false",
    TableOptions.populate_meta_fields.key: "true",
    TableOptions.base_file_format.key: "PARQUET",
    TableOptions.cdc_enabled.key: "false",
    TableOptions.table_format.key: "native",
    TableOptions.timezone.key: "UTC",
    TableOptions.history_path.key: "history",
    TableOptions.timeline_path.key: "timeline",
}
_SINCE_8 = {TableOptions.multiple_base_file_formats.key: "false"}
NOT_BEFORE_8 = {TableOptions.record_merge_mode.key, TableOptions.first_version.key, *_SINCE_8}
"""Properties that Hudi drops from tables of earlier versions (HoodieTableConfig.dropInvalidConfigs)."""
# These decide about others and are not stored as they come.
_DECIDING = {
    TableOptions.compaction_payload_class.key,
    TableOptions.merge_strategy_id.key,
    TableOptions.key_generator_class.key,
    TableOptions.legacy_payload_class.key,
    TableOptions.unavailable_value.key,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """Name, schema, columns and type of a table that is to be made.

    Attributes:
        name: the table's name.
        create_schema: Avro schema as JSON, without meta fields.
        record_key: columns of the record key; empty for generated keys.
        partition_by: columns of the partition path; empty for none.
        ordering: columns that say which version of a record is newer.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
    """

    name: str
    create_schema: str
    record_key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    ordering: Sequence[str] = ()
    table_type: str = COPY_ON_WRITE


def new_properties(new: NewTable, options: Options) -> dict[str, str]:
    """The properties of a new table, without the checksum, which is the writer's of the file.

    Args:
        new: the table.
        options: those of scope TABLE are taken into the properties.

    Raises:
        InvalidArgumentError: names are empty or repeated, or two settings contradict each other.
        NotSupportedError: a key generator or payload class is not one of the known plain ones.
    """
    keys = _columns("record_key", new.record_key, TableOptions.record_key, options)
    partitions = _columns("partition_by", new.partition_by, TableOptions.partition_by, options)
    orderings = _columns("ordering", new.ordering, TableOptions.ordering, options)
    given = {
        key: text_of(value)
        for key, value in options_of_scope(options, Scope.TABLE).items()
        if key not in _DECIDING and option(key).status is not Status.HARMLESS
    }
    properties = {**_FIXED, **_versions(options), **given}
    if int(properties[TableOptions.version.key]) < 8:
        properties = {key: value for key, value in properties.items() if key not in NOT_BEFORE_8}
    properties[TableOptions.table_name.key] = _agreed("name", new.name, TableOptions.table_name, options)
    properties[TableOptions.table_type.key] = _agreed("table_type", new.table_type, TableOptions.table_type, options)
    properties[TableOptions.create_schema.key] = new.create_schema
    properties[TableOptions.partition_by.key] = ",".join(partitions)
    if keys:
        properties[TableOptions.record_key.key] = ",".join(keys)
    if orderings:
        properties[TableOptions.ordering.key] = ",".join(orderings)
    properties[TableOptions.key_generator.key] = _key_generator(keys, partitions, options)
    if properties[TableOptions.key_generator.key].startswith(("TIMESTAMP", "CUSTOM")):
        properties.update(zone_defaults(properties))
    hive_style = properties[TableOptions.hive_style.key] == "true"
    extractor = key_generators.partition_extractor(partitions, hive_style=hive_style)
    properties.setdefault(OtherTableOptions.partition_extractor.key, extractor)
    mode = options[TableOptions.record_merge_mode]
    wanted = merging.RequestedMerging(
        MergeMode(mode) if mode else None,
        options[TableOptions.compaction_payload_class],
        options[TableOptions.merge_strategy_id],
    )
    properties.update(wanted.stored(orderings, int(properties[TableOptions.version.key])))
    marker = options[TableOptions.unavailable_value]
    if marker is not None and properties.get(TableOptions.partial_update_mode.key) == PartialUpdate.FILL_UNAVAILABLE:
        properties[OtherTableOptions.merge_property.prefix + merging.UNAVAILABLE] = marker
    return with_older_names(properties)


def _versions(options: Options) -> dict[str, str]:
    """Return the properties of the table's version, and the properties that only this version has."""
    version = options[TableOptions.version]
    if version not in TABLE_VERSIONS:
        raise NotSupportedError(f"{TableOptions.version}={version}: pudi writes tables of versions 6, 8 and 9")
    layout = layout_of_version(version)
    for fixed, value in ((TableOptions.layout_version, layout), (TableOptions.first_version, version)):
        given = options.explicit(fixed)
        if given not in {None, value}:
            raise InvalidArgumentError(
                f"option {options.name_of(fixed)}={given}: a new table of version {version} has {value}; leave it out"
            )
    said = {TableOptions.version.key: str(version), TableOptions.layout_version.key: str(layout)}
    return said if version < 8 else {**said, TableOptions.first_version.key: str(version), **_SINCE_8}


def _columns(argument: str, names: Sequence[str], option: Option[str | None], options: Options) -> tuple[str, ...]:
    from_option = options[option]
    listed = names_in(from_option)
    if names and from_option is not None and tuple(names) != listed:
        raise InvalidArgumentError(f"{argument}={list(names)} and option {option}={from_option} contradict each other")
    columns = tuple(names) or listed
    if any(not name or "," in name for name in columns):
        raise InvalidArgumentError(f"{argument}={list(columns)}: a column's name is not empty and has no comma")
    if len(set(columns)) < len(columns):
        raise InvalidArgumentError(f"{argument}={list(columns)} names a column twice")
    return columns


def _agreed(argument: str, value: str, option: Option[Any], options: Options) -> str:
    from_option = options.explicit(option)
    if from_option is not None and from_option != value:
        raise InvalidArgumentError(f"{argument}={value} and option {option}={from_option} contradict each other")
    if not value:
        raise InvalidArgumentError(f"{argument} is empty")
    return value


def _key_generator(keys: Sequence[str], partitions: Sequence[str], options: Options) -> str:
    named = options[TableOptions.key_generator]
    class_name = options[TableOptions.key_generator_class]
    by_class = key_generators.type_of_class(class_name) if class_name else None
    if by_class == "USER_PROVIDED":
        raise NotSupportedError(
            f"option {TableOptions.key_generator_class}={class_name}: a class is never loaded by name"
        )
    if named and by_class and named != by_class:
        raise InvalidArgumentError(f"{TableOptions.key_generator}={named} and class {class_name} contradict each other")
    if by_class:
        TableOptions.key_generator.refuse_unsupported(by_class)
    kind = named or by_class or key_generators.inferred_type(keys, partitions)
    family = kind.removesuffix("_AVRO")
    if family in {"SIMPLE", "TIMESTAMP"} and (len(keys) > 1 or len(partitions) != 1):
        raise InvalidArgumentError(
            f"key generator {kind} takes one key column and one partition column, not {len(keys)} and "
            f"{len(partitions)}: leave it out, or name COMPLEX or NON_PARTITION"
        )
    if family != "CUSTOM" and any(":" in name for name in partitions):
        raise InvalidArgumentError(f"key generator {kind} takes plain column names, not {','.join(partitions)}")
    if family == "NON_PARTITION" and partitions:
        raise InvalidArgumentError(f"key generator {kind} takes no partition columns, not {','.join(partitions)}")
    return kind
