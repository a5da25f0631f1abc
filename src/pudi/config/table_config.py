"""The typed view of `hoodie.properties`: text in, `TableConfig` out, and back without losing a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, cast

from pudi.config import key_generators, merging
from pudi.config.new_table import new_properties
from pudi.config.option import Option, Value
from pudi.config.resolve import Options, option
from pudi.config.table_registry import COPY_ON_WRITE, DELETE_FIELD, DELETE_MARKER
from pudi.errors import CorruptError, InvalidArgumentError

TimeZone: TypeAlias = Literal["LOCAL", "UTC"]

PROPERTIES_FILE = "hoodie.properties"

_V = TypeVar("_V", str, int, bool)


@dataclass(frozen=True, slots=True)
class TableConfig:
    """What a table is. A value: changing a property makes a new one.

    Guarantees: `name` is not empty; `timeline_path`, `history_path` and `archive_path` are relative and stay
    below their folder;
    `raw` holds every property the table has, the unknown ones too.

    Attributes:
        name: the table's name.
        database: its database; empty for none.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        version: version of the table's format; 9 where the table doesn't say.
        initial_version: version that it was made with; `version` where the table doesn't say.
        layout_version: version of the timeline's layout.
        record_key_fields: columns of the record key; empty where keys are generated.
        partition_fields: columns of the partition path, without a custom generator's `:type`; empty for none.
        ordering_fields: columns that say which version of a record is newer.
        key_generator_type: name of the key generator, by type, by class, or inferred from the columns.
        hive_style: whether partition folders are `column=value`.
        url_encode: whether partition values are percent-encoded.
        slash_separated_dates: whether a date partition is three folders.
        populate_meta_fields: whether records carry the five meta fields.
        base_file_format: PARQUET, ORC, HFILE or LANCE.
        multiple_base_file_formats: whether base files of several formats may be mixed.
        merge_mode: COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING or CUSTOM, explicit or inferred.
        merge_strategy_id: id of the merge strategy, where the table names one.
        payload_class: payload class, present or legacy, where the table names one.
        partial_update_mode: how partly filled records are completed, where the table says.
        timezone: zone of instant times, LOCAL or UTC.
        create_schema: Avro schema as JSON that the table was made with.
        metadata_partitions: partitions of the metadata table that are ready.
        metadata_partitions_inflight: those that are being built.
        cdc_enabled: whether writers log changes.
        drop_partition_columns: whether data files lack the partition columns.
        partition_metafile_use_base_format: whether a partition's metafile is a base file.
        timeline_path: folder of the timeline, below the table's metadata folder.
        history_path: folder of the archived timeline, below the timeline's.
        archive_path: folder of the archived timeline of layout 1, below the table's metadata folder.
        table_format: format of the table's own metadata; `native` is Hudi's.
        storage_layout: how file groups are laid out.
        bootstrap_base_path: table of plain files that this one was bootstrapped from.
        raw: all properties.
    """

    name: str
    database: str
    table_type: str
    version: int
    initial_version: int
    layout_version: int
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    key_generator_type: str
    hive_style: bool
    url_encode: bool
    slash_separated_dates: bool
    populate_meta_fields: bool
    base_file_format: str
    multiple_base_file_formats: bool
    merge_mode: str
    merge_strategy_id: str | None
    payload_class: str | None
    partial_update_mode: str | None
    timezone: TimeZone
    create_schema: str | None
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    cdc_enabled: bool
    drop_partition_columns: bool
    partition_metafile_use_base_format: bool
    timeline_path: str
    history_path: str
    archive_path: str
    table_format: str
    storage_layout: str
    bootstrap_base_path: str | None
    raw: Mapping[str, str] = field(repr=False, hash=False)

    @classmethod
    def parse(cls, properties: Mapping[str, str], *, table: str) -> TableConfig:
        """The typed view of a table's properties.

        Args:
            properties: keys and values as read; the checksum is checked where they are read.
            table: location of the table's root, for messages.

        Raises:
            CorruptError: a property that every table has is missing, or a value does not parse.
        """
        return _parse(properties, table)

    @classmethod
    def new(
        cls,
        *,
        name: str,
        create_schema: str,
        record_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        ordering: Sequence[str] = (),
        table_type: str = COPY_ON_WRITE,
        options: Options | None = None,
        table: str,
    ) -> TableConfig:
        """The configuration of a new table, with the properties that Apache Hudi 1.2 gives one of its version.

        It may still be one that this release doesn't write: `check_writable` says.

        Args:
            name: the table's name.
            create_schema: Avro schema as JSON, without meta fields.
            record_key: columns of the record key; empty for generated keys.
            partition_by: columns of the partition path; empty for none.
            ordering: columns that say which version of a record is newer.
            table_type: COPY_ON_WRITE or MERGE_ON_READ.
            options: those of scope TABLE are taken into the properties.
            table: location of the table's root, for messages.

        Raises:
            InvalidArgumentError: names are empty or repeated, or two settings contradict each other.
            NotSupportedError: a key generator or payload class is not one of the known plain ones.
        """
        properties = new_properties(
            name=name,
            create_schema=create_schema,
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            options=options or Options(),
        )
        return _parse(properties, table)

    def to_properties(self) -> dict[str, str]:
        """All properties, as they are to be written; unknown ones are kept."""
        return dict(self.raw)

    def with_properties(self, changes: Mapping[str, str | None], *, table: str) -> TableConfig:
        """The table with some properties changed; None removes one.

        Raises:
            CorruptError: a changed value does not parse.
        """
        kept = {key: value for key, value in self.raw.items() if key not in changes}
        new = {key: value for key, value in changes.items() if value is not None}
        return _parse({**kept, **new}, table)

    def without_metadata_table(self, *, table: str) -> TableConfig:
        """The table with its metadata table switched off (as `HoodieTableConfig.clearMetadataPartitions` does)."""
        keys = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")
        return self.with_properties(dict.fromkeys(keys, ""), table=table)

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.partition_fields)

    @property
    def merge_properties(self) -> dict[str, str]:
        """The properties handed to the merger, by key without `hoodie.record.merge.property.`."""
        prefix = merging.MERGE_PROPERTY
        return {key.removeprefix(prefix): value for key, value in self.raw.items() if key.startswith(prefix)}

    @property
    def delete_marker(self) -> tuple[str, str] | None:
        """Column and text by which a record says that it's a delete (DeleteContext); None where there are none.

        Below version 9 it comes with the payload classes of change streams (`getTableMergeProperties`).
        """
        known = merging.payload(self.payload_class) if self.payload_class and self.version < 9 else None
        if known is not None and known.delete_marker is not None:
            return known.delete_marker
        column, marker = self.raw.get(DELETE_FIELD, ""), self.raw.get(DELETE_MARKER, "")
        return (column, marker) if column and marker else None

    @property
    def partition_types(self) -> tuple[str, ...]:
        """For each partition column what a custom key generator does with it, in upper case; empty where not said."""
        typed = self.raw.get("hoodie.table.partition.fields", "").split(",")
        return tuple(name.partition(":")[2].strip().upper() for name in typed if name.strip())


class _Reader:
    """Looks options up in a table's properties, by key and alias, and parses them."""

    def __init__(self, properties: Mapping[str, str], table: str) -> None:
        self._properties = properties
        self._table = table

    def fail(self, message: str) -> CorruptError:
        return CorruptError(
            f"{message}; restore the file from its backup or mend the property", table=self._table, path=PROPERTIES_FILE
        )

    def value(self, key: str) -> Value | None:
        declared = option(key)
        given = self._given(declared)
        if given is None:
            return cast("Value | None", declared.default)
        name, text = given
        try:
            return declared.parse(text, key=name)
        except InvalidArgumentError as error:
            raise self.fail(f"the table's properties do not parse: {error.message}") from error

    def _given(self, declared: Option[Any]) -> tuple[str, str] | None:
        keys = (declared.key, *declared.aliases)
        return next(((key, self._properties[key]) for key in keys if key in self._properties), None)

    def typed(self, key: str, kind: type[_V]) -> _V:
        value = self.value(key)
        if value is None or value == "" or not isinstance(value, kind):
            raise self.fail(f"the table's properties lack {key}")
        return value

    def optional(self, key: str) -> str | None:
        value = self.value(key)
        return None if value is None or value == "" else str(value)

    def names(self, key: str) -> tuple[str, ...]:
        text = self.optional(key) or ""
        return tuple(name for part in text.split(",") if (name := part.strip()))

    def folder(self, key: str) -> str:
        path = self.typed(key, str)
        if any(part in {"", ".", ".."} for part in path.split("/")) or "\\" in path or ":" in path:
            raise self.fail(f"{key}={path!r} is not a relative path below the table's root")
        return path


def _parse(properties: Mapping[str, str], table: str) -> TableConfig:
    read = _Reader(properties, table)
    keys = read.names("hoodie.table.recordkey.fields")
    typed_partitions = read.names("hoodie.table.partition.fields")
    ordering = read.names("hoodie.table.ordering.fields")
    payload = read.optional("hoodie.compaction.payload.class") or read.optional("hoodie.table.legacy.payload.class")
    strategy_id = read.optional("hoodie.record.merge.strategy.id")
    version = read.typed("hoodie.table.version", int)
    return TableConfig(
        name=read.typed("hoodie.table.name", str),
        database=read.optional("hoodie.database.name") or "",
        table_type=read.typed("hoodie.table.type", str),
        version=version,
        initial_version=_initial_version(read, properties, version),
        layout_version=_layout_version(read, properties),
        record_key_fields=keys,
        partition_fields=tuple(name.split(":", 1)[0] for name in typed_partitions),
        ordering_fields=ordering,
        key_generator_type=_key_generator_type(read, keys, typed_partitions),
        hive_style=read.typed("hoodie.datasource.write.hive_style_partitioning", bool),
        url_encode=read.typed("hoodie.datasource.write.partitionpath.urlencode", bool),
        slash_separated_dates=read.typed("hoodie.datasource.write.slash.separated.date.partitioning", bool),
        populate_meta_fields=read.typed("hoodie.populate.meta.fields", bool),
        base_file_format=read.typed("hoodie.table.base.file.format", str),
        multiple_base_file_formats=read.typed("hoodie.table.multiple.base.file.formats.enable", bool),
        merge_mode=read.optional("hoodie.record.merge.mode")
        or merging.inferred_mode(
            payload=payload, strategy_id=strategy_id, has_ordering=bool(ordering), version=version
        ),
        merge_strategy_id=strategy_id,
        payload_class=payload,
        partial_update_mode=read.optional("hoodie.table.partial.update.mode"),
        timezone=cast(TimeZone, read.typed("hoodie.table.timeline.timezone", str)),
        create_schema=read.optional("hoodie.table.create.schema"),
        metadata_partitions=read.names("hoodie.table.metadata.partitions"),
        metadata_partitions_inflight=read.names("hoodie.table.metadata.partitions.inflight"),
        cdc_enabled=read.typed("hoodie.table.cdc.enabled", bool),
        drop_partition_columns=read.typed("hoodie.datasource.write.drop.partition.columns", bool),
        partition_metafile_use_base_format=read.typed("hoodie.partition.metafile.use.base.format", bool),
        timeline_path=read.folder("hoodie.timeline.path"),
        history_path=read.folder("hoodie.timeline.history.path"),
        archive_path=read.folder("hoodie.archivelog.folder"),
        table_format=read.typed("hoodie.table.format", str),
        storage_layout=read.typed("hoodie.table.storage.layout", str).upper(),
        bootstrap_base_path=read.optional("hoodie.bootstrap.base.path"),
        raw=dict(properties),
    )


def _initial_version(read: _Reader, properties: Mapping[str, str], version: int) -> int:
    key = "hoodie.table.initial.version"
    return read.typed(key, int) if key in properties else version


def _layout_version(read: _Reader, properties: Mapping[str, str]) -> int:
    # Hudi takes a table without it for no table at all (HoodieTableMetaClient).
    key = "hoodie.timeline.layout.version"
    if key not in properties:
        raise read.fail(f"the table's properties lack {key}")
    return read.typed(key, int)


def _key_generator_type(read: _Reader, keys: tuple[str, ...], partitions: tuple[str, ...]) -> str:
    named = read.optional("hoodie.table.keygenerator.type")
    if named is not None:
        return named
    by_class = read.optional("hoodie.table.keygenerator.class")
    return key_generators.type_of_class(by_class) if by_class else key_generators.inferred_type(keys, partitions)
