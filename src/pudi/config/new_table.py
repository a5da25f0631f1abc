"""The properties of a new table: those that Apache Hudi 1.2 writes for one of its version, without a metadata table."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.config import key_generators, merging
from pudi.config.option import Scope, Status, text_of
from pudi.config.resolve import Options, option
from pudi.config.table_registry import (
    NEWEST_VERSION,
    TABLE_VERSIONS,
    layout_of_version,
)
from pudi.config.timebased import zone_defaults
from pudi.errors import InvalidArgumentError, NotSupportedError

_FIXED = {
    "hoodie.archivelog.folder": "history",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.partition.metafile.use.base.format": "false",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.table.format": "native",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.timeline.history.path": "history",
    "hoodie.timeline.path": "timeline",
}
_SINCE_8 = {"hoodie.table.multiple.base.file.formats.enable": "false"}
_NOT_BEFORE_8 = {"hoodie.record.merge.mode", "hoodie.table.initial.version", *_SINCE_8}
"""Those that Hudi drops from tables of earlier versions (HoodieTableConfig.dropInvalidConfigs)."""
_MERGING = (
    "hoodie.record.merge.mode",
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.strategy.id",
)
# These decide about others and are not stored as they come.
_DECIDING = {
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.strategy.id",
    "hoodie.table.keygenerator.class",
    "hoodie.table.legacy.payload.class",
}


def new_properties(
    *,
    name: str,
    create_schema: str,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    ordering: Sequence[str],
    table_type: str,
    options: Options,
) -> dict[str, str]:
    """The properties of a new table, without the checksum, which is the writer's of the file.

    The arguments are those of `TableConfig.new`.

    Raises:
        InvalidArgumentError: names are empty or repeated, or two settings contradict each other.
        NotSupportedError: a key generator or payload class is not one of the known plain ones.
    """
    keys = _columns("record_key", record_key, "hoodie.table.recordkey.fields", options)
    partitions = _columns("partition_by", partition_by, "hoodie.table.partition.fields", options)
    orderings = _columns("ordering", ordering, "hoodie.table.ordering.fields", options)
    given = {
        key: text_of(value)
        for key, value in options.of_scope(Scope.TABLE).items()
        if key not in _DECIDING and option(key).status is not Status.HARMLESS
    }
    properties = {**_FIXED, **_versions(options), **given}
    if int(properties["hoodie.table.version"]) < 8:
        properties = {key: value for key, value in properties.items() if key not in _NOT_BEFORE_8}
    properties["hoodie.table.name"] = _agreed("name", name, "hoodie.table.name", options)
    properties["hoodie.table.type"] = _agreed("table_type", table_type, "hoodie.table.type", options)
    properties["hoodie.table.create.schema"] = create_schema
    properties["hoodie.table.partition.fields"] = ",".join(partitions)
    if keys:
        properties["hoodie.table.recordkey.fields"] = ",".join(keys)
    if orderings:
        properties["hoodie.table.ordering.fields"] = ",".join(orderings)
    properties["hoodie.table.keygenerator.type"] = _key_generator(keys, partitions, options)
    if properties["hoodie.table.keygenerator.type"].startswith(("TIMESTAMP", "CUSTOM")):
        properties.update(zone_defaults(properties))
    hive_style = properties["hoodie.datasource.write.hive_style_partitioning"] == "true"
    extractor = key_generators.partition_extractor(partitions, hive_style=hive_style)
    properties.setdefault("hoodie.table.partition_extractor_class", extractor)
    wanted = merging.Wanted(*(options.optional_text(key) for key in _MERGING))
    properties.update(wanted.stored(orderings, int(properties["hoodie.table.version"])))
    return properties


def _versions(options: Options) -> dict[str, str]:
    """The properties that say of which version a table is, and those that only tables of that version have."""
    version = options.given.get("hoodie.table.version", NEWEST_VERSION)
    if version not in TABLE_VERSIONS:
        raise NotSupportedError(f"hoodie.table.version={version}: pudi writes tables of versions 6, 8 and 9")
    layout = layout_of_version(int(version))
    for key, value in (("hoodie.timeline.layout.version", layout), ("hoodie.table.initial.version", version)):
        if options.given.get(key, value) != value:
            raise InvalidArgumentError(
                f"option {options.name_of(key)}={options.given[key]}: a new table of version {version} has {value}; "
                "leave it out"
            )
    said = {"hoodie.table.version": str(version), "hoodie.timeline.layout.version": str(layout)}
    return said if version < 8 else {**said, "hoodie.table.initial.version": str(version), **_SINCE_8}


def _columns(argument: str, names: Sequence[str], key: str, options: Options) -> tuple[str, ...]:
    from_option = options.optional_text(key)
    listed = tuple(part.strip() for part in from_option.split(",") if part.strip()) if from_option else ()
    if names and from_option is not None and tuple(names) != listed:
        raise InvalidArgumentError(f"{argument}={list(names)} and option {key}={from_option} contradict each other")
    columns = tuple(names) or listed
    if any(not name or "," in name for name in columns):
        raise InvalidArgumentError(f"{argument}={list(columns)}: a column's name is not empty and has no comma")
    if len(set(columns)) < len(columns):
        raise InvalidArgumentError(f"{argument}={list(columns)} names a column twice")
    return columns


def _agreed(argument: str, value: str, key: str, options: Options) -> str:
    from_option = options.given.get(key)
    if from_option is not None and from_option != value:
        raise InvalidArgumentError(f"{argument}={value} and option {key}={from_option} contradict each other")
    if not value:
        raise InvalidArgumentError(f"{argument} is empty")
    return value


def _key_generator(keys: Sequence[str], partitions: Sequence[str], options: Options) -> str:
    named = options.optional_text("hoodie.table.keygenerator.type")
    class_name = options.optional_text("hoodie.table.keygenerator.class")
    by_class = key_generators.type_of_class(class_name) if class_name else None
    if by_class == "USER_PROVIDED":
        raise NotSupportedError(f"option hoodie.table.keygenerator.class={class_name}: a class is never loaded by name")
    if named and by_class and named != by_class:
        raise InvalidArgumentError(
            f"hoodie.table.keygenerator.type={named} and class {class_name} contradict each other"
        )
    if by_class:
        option("hoodie.table.keygenerator.type").refuse_unsupported(by_class)
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
