"""The typed view of `hoodie.properties`: text in, `TableConfig` out, and back without losing a key.

`merge_semantics` reads from it the rule that decides between versions of a record, in every version of the table and
every form of declaration: mode, payload class, or merger id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pudi.config import key_generators, merging
from pudi.config.new_table import NewTable, new_properties
from pudi.config.option import Option, Options, Value, names_in
from pudi.config.table_options import MergeMode, OtherTableOptions, PartialUpdate, TableOptions
from pudi.errors import CorruptError, InvalidArgumentError

PROPERTIES_FILE = "hoodie.properties"

_REQUIRED = {TableOptions.table_name.key, TableOptions.layout_version.key}
"""Properties that every table has. Without the layout's version, Hudi sees no table at all (HoodieTableMetaClient)."""
_READS_METADATA = 6
_FOLDERS = {TableOptions.timeline_path.key, TableOptions.history_path.key, TableOptions.archive_path.key}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig(TableOptions):
    """Properties of a table, as a value: changing a property makes a new one.

    Guarantees: `name` is not empty; `timeline_path`, `history_path` and `archive_path` are relative and stay
    below their folder;
    `raw` holds every property the table has, the unknown ones too.

    Attributes:
        record_key_fields: columns of the record key; empty where keys are generated.
        partition_fields: columns of the partition path, without a custom generator's `:type`; empty for none.
        ordering_fields: columns that say which version of a record is newer.
        key_generator_type: name of the key generator, by type, by class, or inferred from the columns.
        merge_mode: the merge mode, explicit or inferred.
        payload_class: payload class, present or legacy, where the table names one.
        metadata_partitions: partitions of the metadata table that are ready; none below version 6, whose metadata
            tables have records of other kinds, so that folders are listed.
        metadata_partitions_inflight: those that are being built.
        metadata_partitions_to_rebuild: those that were deleted and are to be rebuilt.
        raw: all properties.
    """

    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    key_generator_type: str
    merge_mode: MergeMode
    payload_class: str | None
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    metadata_partitions_to_rebuild: tuple[str, ...]
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
    def new(cls, new: NewTable, options: Options, *, table: str) -> TableConfig:
        """The configuration of a new table, with the properties that Apache Hudi 1.2 gives one of its version.

        It may still be one that this release doesn't write: `check_writable` says.

        Args:
            new: the table.
            options: those of scope TABLE are taken into the properties.
            table: location of the table's root, for messages.

        Raises:
            InvalidArgumentError: names are empty or repeated, or two settings contradict each other.
            NotSupportedError: a key generator or payload class is not one of the known plain ones.
        """
        return _parse(new_properties(new, options), table)

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

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table_name or ""

    @property
    def initial_version(self) -> int:
        """Version that the table was made with; `version` where it doesn't say."""
        return self.first_version if TableOptions.first_version.key in self.given else self.version

    @property
    def storage_layout(self) -> str:
        """Storage layout of file groups."""
        return self.layout_type.upper()

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.partition_fields)

    @property
    def merge_properties(self) -> dict[str, str]:
        """The properties handed to the merger, by key without the beginning that they have in common."""
        prefix = OtherTableOptions.merge_property.prefix
        return {key.removeprefix(prefix): value for key, value in self.raw.items() if key.startswith(prefix)}

    @property
    def delete_marker(self) -> tuple[str, str] | None:
        """Return the column and value that mark deletes (DeleteContext); None without a marker.

        Below version 9 it comes with the payload classes of change streams (`getTableMergeProperties`).
        """
        known = merging.payload(self.payload_class) if self.payload_class and self.version < 9 else None
        if known is not None and known.delete_marker is not None:
            return known.delete_marker
        column = self.raw.get(OtherTableOptions.delete_field.key, "")
        marker = self.raw.get(OtherTableOptions.delete_marker.key, "")
        return (column, marker) if column and marker else None

    def has_partitioning(self, wanted: Sequence[str]) -> bool:
        """Return whether these are the table's partition columns, as `column` or `column:TYPE` of a custom key."""
        parts = [[part.strip() for part in name.partition(":")[::2]] for name in wanted]
        if tuple(name for name, _ in parts) != tuple(self.partition_fields):
            return False
        return all(kind.upper() in {"", own} for (_, kind), own in zip(parts, self.partition_types, strict=False))

    @property
    def partition_types(self) -> tuple[str, ...]:
        """Return how a custom key generator treats each partition column, in upper case; empty if not stated."""
        return tuple(name.partition(":")[2].strip().upper() for name in names_in(self.partition_by))


def _parse(properties: Mapping[str, str], table: str) -> TableConfig:
    said = TableOptions(_parsed(properties, table))
    keys, partitions, ordering = names_in(said.record_key), names_in(said.partition_by), names_in(said.ordering)
    payload = said.compaction_payload_class or said.legacy_payload_class
    inferred = merging.inferred_mode(
        payload=payload, strategy_id=said.merge_strategy_id, has_ordering=bool(ordering), version=said.version
    )
    return TableConfig(
        given=said.given,
        record_key_fields=keys,
        partition_fields=tuple(name.split(":", 1)[0] for name in partitions),
        ordering_fields=ordering,
        key_generator_type=_key_generator_type(said, keys, partitions),
        merge_mode=MergeMode(said.record_merge_mode) if said.record_merge_mode else inferred,
        payload_class=payload,
        metadata_partitions=names_in(said.ready_partitions if said.version >= _READS_METADATA else None),
        metadata_partitions_inflight=names_in(said.inflight_partitions if said.version >= _READS_METADATA else None),
        metadata_partitions_to_rebuild=names_in(said.rebuild_partitions),
        raw=dict(properties),
    )


def _parsed(properties: Mapping[str, str], table: str) -> dict[str, Value]:
    """The values of a table's properties by canonical key, those left out that are empty.

    An empty folder of the archive means that of the timeline, as Hudi's clients for Java and Flink had it before 0.9.
    Version 0, of releases before 0.6, isn't said; with the layout of version 8 Hudi takes the newest for it.
    """

    def fail(message: str) -> CorruptError:
        return CorruptError(
            f"{message}; restore the file from its backup or mend the property", table=table, path=PROPERTIES_FILE
        )

    values: dict[str, Value] = {}
    if TableOptions.version.key not in properties and properties.get(TableOptions.layout_version.key) == "1":
        properties = {**properties, TableOptions.version.key: "0"}
    for declared in TableOptions.declared:
        try:
            value = _value(declared, properties)
        except InvalidArgumentError as error:
            raise fail(f"the table's properties do not parse: {error.message}") from error
        if value == "" and declared.key == TableOptions.archive_path.key:
            values[declared.key] = value
            continue
        if value is None or value == "":
            if declared.key in _REQUIRED or (value == "" and declared.default):
                raise fail(f"the table's properties lack {declared}")
            continue
        if declared.key in _FOLDERS and not _is_below(str(value)):
            raise fail(f"{declared}={value!r} is not a relative path below the table's root")
        values[declared.key] = value
    return values


def _value(declared: Option[Any], properties: Mapping[str, str]) -> Value | None:
    text = ((key, properties[key]) for key in (declared.key, *declared.aliases) if key in properties)
    found = next(text, None)
    return None if found is None else declared.parse(found[1], key=found[0])


def _is_below(path: str) -> bool:
    return not any(part in {"", ".", ".."} for part in path.split("/")) and "\\" not in path and ":" not in path


def _key_generator_type(said: TableOptions, keys: tuple[str, ...], partitions: tuple[str, ...]) -> str:
    if said.key_generator is not None:
        return said.key_generator
    named = said.key_generator_class
    return key_generators.type_of_class(named) if named else key_generators.inferred_type(keys, partitions)


@dataclass(frozen=True, slots=True)
class MergeSemantics:
    """Rule that decides between versions of a record, as version 9 states it.

    Attributes:
        mode: the merge mode.
        ordering_fields: columns that the ordering value is of.
        partial_update: how winners are completed, where they are.
        unavailable: the marker of FILL_UNAVAILABLE.
        strategy_id: for CUSTOM, the id of the merger that is to be registered; None where no merger can be.
        payload_class: a payload class that pudi doesn't know, for which a merger is to be registered.
        batches_by_order: whether versions in one batch are decided by ordering value where the rest isn't.
        deletes_win: whether deletes win regardless of their ordering value.
        binlog: whether the ordering field holds texts `file.position`.
        properties: properties passed to a merger, by key.
    """

    mode: MergeMode
    ordering_fields: tuple[str, ...]
    partial_update: PartialUpdate | None = None
    unavailable: str | None = None
    strategy_id: str | None = None
    payload_class: str | None = None
    batches_by_order: bool = False
    deletes_win: bool = False
    binlog: bool = False
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def compares(self) -> bool:
        """Whether ordering values decide anything."""
        return self.mode.compares and bool(self.ordering_fields)

    @property
    def is_known(self) -> bool:
        """Whether the rule is one of Hudi's that pudi has, or one that a user may register."""
        return self.mode is not MergeMode.CUSTOM or self.payload_class is not None or self.strategy_id is not None

    @property
    def lacks_merger(self) -> bool:
        """Whether no merger is registered for its payload class."""
        return self.payload_class is not None and not merging.has_merger(self.payload_class)


def merge_semantics(config: TableConfig) -> MergeSemantics:
    """Return the rule by which a table merges records.

    Versions 6 and 8 name payload classes; version 9 stores the equivalent rules instead. The delete markers of change
    streams come with the class (`HoodieTableConfig.getTableMergeProperties`).
    """
    properties = config.merge_properties
    named = config.compaction_payload_class if config.version >= 9 else config.payload_class
    strategy_id = config.merge_strategy_id
    custom_id = strategy_id if strategy_id and not merging.is_own_strategy(strategy_id) else None
    by_id = config.merge_mode is MergeMode.CUSTOM and custom_id is not None and (config.version >= 8 or not named)
    if not by_id and named and merging.mode_of_payload(named) is MergeMode.CUSTOM:
        known = merging.payload(named)
        if known is None:
            return MergeSemantics(MergeMode.CUSTOM, config.ordering_fields, payload_class=named, properties=properties)
        return MergeSemantics(
            known.mode,
            known.older_ordering or config.ordering_fields,
            partial_update=known.partial_update,
            unavailable=known.unavailable,
            batches_by_order=known.batches_by_order,
            deletes_win=known.older_deletes_win,
            binlog=known.older_ordering == merging.BINLOG_ORDER,
            properties=properties,
        )
    partial = config.partial_update_mode if config.version >= 9 else None
    return MergeSemantics(
        config.merge_mode,
        config.ordering_fields,
        partial_update=PartialUpdate(partial) if partial else None,
        unavailable=properties.get(merging.UNAVAILABLE),
        strategy_id=custom_id,
        properties=properties,
    )
