"""The properties of a table in another table version: the same rules, as that version says them.

Source: SevenToEightUpgradeHandler, EightToNineUpgradeHandler, NineToEightDowngradeHandler,
EightToSevenDowngradeHandler.
Each step starts from the properties that the step before made; Hudi 1.2 gives all of them those of the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pudi.config import TableConfig, key_generators, merging
from pudi.config.checks import SAYS_ITS_KEYS
from pudi.config.new_table import NOT_BEFORE_8, with_older_names
from pudi.config.option import Option, Value, names_in, text_of
from pudi.config.table_options import (
    MERGE_ON_READ,
    TABLE_VERSIONS,
    MergeMode,
    OtherTableOptions,
    TableOptions,
    layout_of_version,
)
from pudi.errors import InvalidArgumentError, NotSupportedError

_Properties = dict[str, str]

_MODE, _STRATEGY = TableOptions.record_merge_mode, TableOptions.merge_strategy_id
_PAYLOAD, _LEGACY = TableOptions.compaction_payload_class, TableOptions.legacy_payload_class
_PARTIAL = TableOptions.partial_update_mode
_ORDERING = TableOptions.ordering.key
_PRECOMBINE = TableOptions.ordering.aliases[0]
_GENERATOR, _GENERATOR_CLASS = TableOptions.key_generator.key, TableOptions.key_generator_class.key
_MARKER = (OtherTableOptions.delete_field.key, OtherTableOptions.delete_marker.key)


def with_version(config: TableConfig, version: int, columns: Collection[str], table: str) -> TableConfig:
    """The table in another version.

    Args:
        config: the table's properties.
        version: 6, 8 or 9.
        columns: names of the table's columns; a rule may need one that it hasn't.
        table: location of the table's root, for messages.

    Raises:
        InvalidArgumentError: there's no such version.
        NotSupportedError: that version can't say what the table does.
    """
    if version not in TABLE_VERSIONS:
        raise InvalidArgumentError(f"version {version!r}: pudi writes tables of versions 6, 8 and 9", table=table)
    properties = config.to_properties()
    for step in _steps(config.version, version):
        properties = step(properties, columns, table)
    properties[TableOptions.version.key] = str(version)
    properties[TableOptions.layout_version.key] = str(layout_of_version(version))
    return TableConfig.parse(with_older_names(properties), table=table)


_BY_WRITERS: tuple[Option[Any], ...] = (
    TableOptions.record_key,
    TableOptions.partition_by,
    TableOptions.ordering,
    TableOptions.hive_style,
    TableOptions.url_encode,
    TableOptions.key_generator,
    TableOptions.key_generator_class,
)


def as_version_6(config: TableConfig, given: Mapping[str, Value], table: str) -> TableConfig:
    """The table of an earlier version, or of 7, in version 6: the steps of Hudi's handlers as far as properties go.

    Its metadata table is gone: that of version 2 isn't up to date, later ones are rebuilt.

    Args:
        config: the table's properties.
        given: options of the caller, by which tables of versions 1 and 2 get what later ones say: columns of the record
            key and of partitions, style of folders, key generator (OneToTwoUpgradeHandler, TwoToThreeUpgradeHandler).
        table: location of the table's root, for messages.

    Raises:
        InvalidArgumentError: options must say the record key, and don't.
    """
    properties = config.to_properties()
    if config.version < SAYS_ITS_KEYS:
        said = {option.key for option in _BY_WRITERS if {option.key, *option.aliases} & properties.keys()}
        more = {option.key for option in _BY_WRITERS} & given.keys() - said
        properties |= {key: text_of(given[key]) for key in more}
        if not TableConfig.parse(properties, table=table).record_key_fields:
            raise InvalidArgumentError(
                f"a table of version {config.version} doesn't say which columns its record keys are made of: give the "
                f"options of its writers, {TableOptions.record_key}, {TableOptions.partition_by} and the like",
                table=table,
            )
    dropped = (TableOptions.ready_partitions, TableOptions.inflight_partitions)
    properties = {key: value for key, value in properties.items() if key not in {each.key for each in dropped}}
    return TableConfig.parse(with_older_names({**properties, TableOptions.version.key: "6"}), table=table)


_Step = Callable[[_Properties, Collection[str], str], _Properties]


def _steps(old: int, new: int) -> list[_Step]:
    if old < new:
        return [step for above, step in ((8, _to_8), (9, _to_9)) if old < above <= new]
    return [step for below, step in ((8, _back_to_8), (6, _back_to_6)) if new <= below < old]


def _to_8(old: _Properties, columns: Collection[str], table: str) -> _Properties:
    """From version 6 (SevenToEightUpgradeHandler)."""
    config = TableConfig.parse(old, table=table)
    payload = config.compaction_payload_class
    if payload and merging.mode_of_payload(payload) is MergeMode.CUSTOM:
        mode, strategy = MergeMode.CUSTOM, merging.PAYLOAD_BASED
    else:
        # a merge-on-read table with ordering fields goes by them from version 8 on, whatever its payload class said
        by_order = config.table_type == MERGE_ON_READ and config.ordering_fields
        mode = MergeMode.EVENT_TIME if by_order else config.merge_mode
        payload, strategy = merging.payload_of_mode(mode), merging.strategy_of_mode(mode)
    new = {
        **old,
        TableOptions.timeline_path.key: str(TableOptions.timeline_path.default),
        TableOptions.first_version.key: str(config.version),
        _PAYLOAD.key: payload,
        _MODE.key: mode.value,
        _STRATEGY.key: strategy,
    }
    named = old.get(_GENERATOR_CLASS) or key_generators.class_of_type(old.get(_GENERATOR, ""))
    if named and key_generators.type_of_class(named) != "USER_PROVIDED":
        new |= {_GENERATOR_CLASS: named, _GENERATOR: key_generators.type_of_class(named)}
    return new


def _to_9(old: _Properties, columns: Collection[str], table: str) -> _Properties:
    """From version 8 (EightToNineUpgradeHandler)."""
    config = TableConfig.parse(old, table=table)
    named = config.compaction_payload_class
    known = merging.payload(named) if named else None
    if named and known is None:
        return _ordered_newly(old, config.ordering_fields)  # by a class that Hudi goes on loading
    if config.merge_mode is MergeMode.CUSTOM and known is None:
        return _ordered_newly(old, config.ordering_fields)  # by a merger
    if config.merge_mode is MergeMode.CUSTOM and named and merging.goes_with_a_mode(named):
        kept = {key: value for key, value in old.items() if key != _PAYLOAD.key}
        return _ordered_newly({**kept, _LEGACY.key: named}, config.ordering_fields)  # by a merger too
    new = {**old, _MODE.key: config.merge_mode.value}
    for name in (_STRATEGY.key, *_STRATEGY.aliases, _PAYLOAD.key):
        new.pop(name, None)
    if known is not None and config.merge_mode is MergeMode.CUSTOM:
        new |= {_MODE.key: known.mode.value, _STRATEGY.key: merging.strategy_of_mode(known.mode)}
    if known is not None:
        new |= {_LEGACY.key: str(named), **known.properties()}
    return _ordered_newly(new, names_in(new.get(_ORDERING)) if known and known.ordering else config.ordering_fields)


def _ordered_newly(properties: _Properties, fields: Collection[str]) -> _Properties:
    new = {key: value for key, value in properties.items() if key not in {_ORDERING, _PRECOMBINE}}
    return {**new, _ORDERING: ",".join(fields)} if fields else new


def _back_to_8(old: _Properties, columns: Collection[str], table: str) -> _Properties:
    """From version 9 (NineToEightDowngradeHandler)."""
    config = TableConfig.parse(old, table=table)
    named = config.legacy_payload_class
    known = merging.payload(named) if named else None
    if config.partial_update_mode and (known is None or known.partial_update != config.partial_update_mode):
        raise NotSupportedError(
            f"{_PARTIAL}={config.partial_update_mode} without a payload class that does so: no version below 9 can say "
            "it, and records would merge otherwise",
            table=table,
        )
    new = {key: value for key, value in old.items() if key not in {_PARTIAL.key, _ORDERING, _PRECOMBINE}}
    fields: Collection[str] = config.ordering_fields
    if config.merge_mode is not MergeMode.CUSTOM:
        new[_STRATEGY.key] = merging.strategy_of_mode(config.merge_mode)
    if named and known is not None:
        del new[_LEGACY.key]
        new[_PAYLOAD.key] = named
        if not merging.is_plain(named):
            new |= {_MODE.key: MergeMode.CUSTOM.value, _STRATEGY.key: merging.PAYLOAD_BASED}
        gone = {*_MARKER} if known.delete_marker else set()
        gone |= {OtherTableOptions.merge_property.prefix + merging.UNAVAILABLE} if known.unavailable else set()
        new = {key: value for key, value in new.items() if key not in gone}
        fields = known.older_ordering or fields
        _check_columns(fields, columns, named, table)
    return {**new, _PRECOMBINE: ",".join(fields)} if fields else new


def _check_columns(fields: Collection[str], columns: Collection[str], payload: str, table: str) -> None:
    for name in fields:
        if name not in columns:
            raise NotSupportedError(
                f"below version 9 {payload} orders by the column {name}, which the table hasn't", table=table
            )


def _back_to_6(old: _Properties, columns: Collection[str], table: str) -> _Properties:
    """From version 8 (EightToSevenDowngradeHandler)."""
    config = TableConfig.parse(old, table=table)
    new = {key: value for key, value in old.items() if key not in NOT_BEFORE_8}
    if not config.compaction_payload_class:
        if config.merge_mode is MergeMode.CUSTOM:
            raise NotSupportedError(
                "the table merges by a record merger, and version 6 knows payload classes only", table=table
            )
        new[_PAYLOAD.key] = merging.payload_of_mode(config.merge_mode)
    for name in (_STRATEGY.key, *_STRATEGY.aliases):
        new.pop(name, None)
    of_type = key_generators.class_of_type(config.key_generator_type)
    if of_type is not None:
        new[_GENERATOR_CLASS] = of_type
        new.pop(_GENERATOR, None)
    return new


def describe_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Describe the differences between two maps of properties, one line each, by key."""
    keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return [
        f"{key}: {old[key]} -> {new[key]}"
        if key in old and key in new
        else f"{key}={new[key]}"
        if key in new
        else f"{key} goes (was {old[key]})"
        for key in keys
    ]
