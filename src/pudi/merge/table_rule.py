"""The rule of a table: its configuration in, a `MergeRule` for writers and readers out."""

from __future__ import annotations

import json

import pyarrow as pa

from pudi.config import MergeSemantics, Options, TableConfig, check_mergeable, merge_semantics
from pudi.errors import MergerError
from pudi.merge.mergers import registered_for_payload, registered_merger
from pudi.merge.rule import MergeMode, MergeRule, PartialUpdate
from pudi.schema import avro_to_arrow, without_meta_fields


def merge_rule(
    config: TableConfig, resolved: Options | None = None, *, table: str = "", avro_schema: str | None = None
) -> MergeRule:
    """Return the rule by which writers, compactions and readers merge the table's records.

    Args:
        config: the table's configuration.
        resolved: options of the call; they never override the table's persisted settings.
        table: location of the table's root, for messages.
        avro_schema: the table's Avro schema as JSON: its columns are those that a merger sees, and its defaults count
            for IGNORE_DEFAULTS; where it isn't given, the one that the table was made with.

    Raises:
        NotSupportedError: the table names a payload class that pudi doesn't know, and no merger is registered for it.
        MergerError: no merger is registered with the table's strategy id.
    """
    check_mergeable(config, table)
    merges = merge_semantics(config)
    merger = None
    if merges.mode == MergeMode.CUSTOM.value:
        identifier = str(merges.strategy_id)
        by_class = merges.payload_class
        merger = registered_merger(identifier) if by_class is None else registered_for_payload(by_class)
        if merger is None:
            raise MergerError(
                f"the table's records are merged by the merger with strategy id {identifier}, which is not registered: "
                "call pudi.register_merger with it first",
                table=table or None,
            )
    return MergeRule(
        MergeMode(merges.mode),
        merges.ordering_fields,
        config.delete_marker,
        partial_update=None if merges.partial_update is None else PartialUpdate(merges.partial_update),
        unavailable=merges.unavailable,
        defaults=_defaults(config, merges, avro_schema or config.create_schema),
        merger=merger,
        properties=merges.properties,
        columns=None if merger is None else _columns(avro_schema or config.create_schema),
        key_fields=tuple(name for name in config.record_key_fields if "." not in name),
        batches_by_order=merges.batches_by_order,
        deletes_win=merges.deletes_win,
        binlog=merges.binlog,
    )


def _columns(avro_schema: str | None) -> pa.Schema | None:
    return without_meta_fields(avro_to_arrow(avro_schema)) if avro_schema else None


_CACHED = range(-128, 128)
"""Integers that Java caches as one object each."""


def _defaults(
    config: TableConfig, merges: MergeSemantics, avro_schema: str | None
) -> tuple[tuple[str, bool | int | float | str], ...]:
    """Defaults other than null that a value can equal, by column.

    Version 9 compares references (PartialUpdateHandler.reconcileDefaultValues): only small whole numbers and truth
    values are ever the same. Payload classes compare values (OverwriteWithLatestAvroPayload.overwriteField), but
    PartialUpdateAvroPayload, to which null alone is one.
    """
    if merges.partial_update != PartialUpdate.IGNORE_DEFAULTS.value or not avro_schema:
        return ()
    by_payload = config.version < 9
    if by_payload and merges.mode == MergeMode.EVENT_TIME.value:
        return ()
    found = []
    for field in json.loads(avro_schema).get("fields", ()):
        default, kinds = field.get("default"), field["type"] if isinstance(field["type"], list) else [field["type"]]
        plain = kinds[0] in {"int", "long", "boolean"} or (by_payload and kinds[0] in {"float", "double", "string"})
        if plain and default is not None and (by_payload or default in {True, False} or default in _CACHED):
            found.append((field["name"], default))
    return tuple(found)
