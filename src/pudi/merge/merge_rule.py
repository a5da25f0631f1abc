"""Rule for choosing and mixing the versions of a record, as one picklable value, made of a table's configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pudi.config import (
    MergeMode,
    MergeSemantics,
    Options,
    PartialUpdate,
    TableConfig,
    check_mergeable,
    merge_semantics,
)
from pudi.errors import MergerError, NotSupportedError
from pudi.merge.deletes import delete_columns, delete_mask
from pudi.merge.mergers import MergeContext, RecordMerger, registered_for_payload, registered_merger
from pudi.merge.ordering_values import comparable_columns, greater_and_equal, is_default, ordering_column, unordered
from pudi.schema import avro_to_arrow, field_at, roots_of, values_at, without_meta_fields


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Rule for merging two versions of one record (spec 'record mergers'; BufferedRecordMergerFactory).

    Attributes:
        mode: COMMIT_TIME: the newer version wins. EVENT_TIME: the newer wins unless its ordering value is lower.
            CUSTOM: `merger` says.
        ordering_fields: fields of the ordering value, compared in this order; `a.b` lies in the struct column `a`.
            Used by EVENT_TIME only.
        delete_marker: a column and the value that marks deletes; None without a marker.
        partial_update: how the winner is completed; None where it isn't, but for columns that it lacks.
        unavailable: the marker of FILL_UNAVAILABLE.
        defaults: for IGNORE_DEFAULTS, columns with a default that isn't null: a number, a truth value or a text.
        merger: the user's rule, for CUSTOM.
        properties: properties handed to it, by key.
        columns: all columns of the table: mergers see them even where versions lack some.
        key_fields: columns that make the record key, which a merger leaves as they are.
        batches_by_order: versions within one batch are decided by ordering value all the same: `preCombine` of payload
            classes that else go by commit time.
        deletes_win: outside batches a delete wins regardless of its ordering value, and the version that beats a record
            is rewritten with the meta fields of the losing one: PartialUpdateAvroPayload below version 9.
        binlog: the ordering field holds texts `file.position` of MySQL's log, see `comparable_columns`.
    """

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    delete_marker: tuple[str, str] | None = None
    partial_update: PartialUpdate | None = None
    unavailable: str | None = None
    defaults: tuple[tuple[str, bool | int | float | str], ...] = ()
    merger: RecordMerger | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    columns: pa.Schema | None = None
    key_fields: tuple[str, ...] = ()
    batches_by_order: bool = False
    deletes_win: bool = False
    binlog: bool = False

    def marks_deletes(self, rows: pa.Table) -> bool:
        """Whether records of this kind can mark themselves as deletes."""
        return bool(delete_columns(rows, self.delete_marker))

    def deletes(self, rows: pa.Table) -> np.ndarray:
        """Return a mask of the records that mark themselves as deletes."""
        return delete_mask(rows, self.delete_marker)

    @property
    def compares(self) -> bool:
        """Whether ordering values decide anything."""
        return self.mode.compares and bool(self.ordering_fields)

    @property
    def orders_deletes(self) -> bool:
        """Whether a delete's ordering values count: they decide, or a merger of the user's sees them."""
        return bool(self.ordering_fields) and (self.compares or self.merger is not None)

    @property
    def fills(self) -> bool:
        """Whether columns of a winner are completed from the loser even if both have all columns."""
        return self.partial_update in {PartialUpdate.IGNORE_DEFAULTS, PartialUpdate.FILL_UNAVAILABLE}

    @property
    def mixes(self) -> bool:
        """Return whether merging two whole versions can yield a record that equals neither."""
        return self.fills or self.merger is not None

    @property
    def in_batches(self) -> MergeRule:
        """The rule among records of one batch, before they meet those that are stored (pre-combine)."""
        if not self.batches_by_order:
            return replace(self, deletes_win=False)
        return replace(self, mode=MergeMode.EVENT_TIME, partial_update=None, batches_by_order=False)

    def newer_wins(self, older: pa.Table, newer: pa.Table) -> np.ndarray:
        """Return a mask of the rows whose newer version wins; the tables are aligned row by row.

        Equal values let the newer win. Null is 0 among ints, as Hudi 1.2.0 has it, and lower than any other value of
        other types, on which Hudi fails. -0.0 is lower than 0.0, and NaN greater than any number (`Double.compareTo`).
        """
        if not self.compares:
            return np.ones(newer.num_rows, dtype=bool)
        older_wins = np.zeros(newer.num_rows, dtype=bool)
        undecided = np.ones(newer.num_rows, dtype=bool)
        pairs = zip(self.order_of(older), self.order_of(newer), strict=True)
        for old, new in pairs:
            old_greater, equal = greater_and_equal(old.cast(new.type) if old.type != new.type else old, new)
            older_wins |= undecided & old_greater
            undecided &= equal
        return ~older_wins

    @property
    def ordering_columns(self) -> tuple[str, ...]:
        """Columns that hold the ordering fields: what must be there of a record to compare it."""
        return roots_of(self.ordering_fields)

    def ordering_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return those of some columns that hold ordering fields, in the order of the ordering fields."""
        return pa.schema([schema.field(name) for name in self.ordering_columns if name in schema.names])

    def ordering_types(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """Return the types of the ordering fields that a table has."""
        found = {name: field_at(schema, name) for name in self.ordering_fields}
        return {name: field.type for name, field in found.items() if field is not None}

    def ordering_values(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return the values of the ordering fields that some rows have, as they are."""
        return [values for name in self.ordering_fields if (values := values_at(rows, name)) is not None]

    def order_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Columns that order as the rows' ordering values do, see `comparable_columns`."""
        return comparable_columns(rows, self.ordering_fields, binlog=self.binlog)

    def unconditional(self, rows: pa.Table, deleted: np.ndarray) -> np.ndarray:
        """Select deletes that beat every older version, regardless of ordering values, and lose to every newer one.

        They have no ordering value, or the one that stands for none (BufferedRecord.isCommitTimeOrderingDelete); a
        tuple of several fields is always one. To a merger of the user's a delete is a version like others.
        """
        if self.deletes_win:
            return deleted
        if self.merger is not None or len(self.ordering_fields) > 1 or not deleted.any():
            return np.zeros(rows.num_rows, dtype=bool)
        if not self.ordering_fields:
            return deleted
        found: np.ndarray = deleted & is_default(ordering_column(rows, self.ordering_fields[0]))
        return found

    def context(self, schema: pa.Schema) -> MergeContext:
        """The context for the merger.

        Args:
            schema: the table's columns.
        """
        return MergeContext(schema, self.ordering_fields, dict(self.properties))


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
        NotSupportedError: the table names a payload class that pudi doesn't know, and no merger is registered for it;
            or an ordering field has no order.
        MergerError: no merger is registered with the table's strategy id.
    """
    check_mergeable(config, table)
    merges = merge_semantics(config)
    schema = avro_schema or config.create_schema
    if schema and (merges.mode.compares or merges.batches_by_order):
        _check_ordering(merges.ordering_fields, avro_to_arrow(schema), table)
    merger = None
    if merges.mode is MergeMode.CUSTOM:
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
        merges.mode,
        merges.ordering_fields,
        config.delete_marker,
        partial_update=merges.partial_update,
        unavailable=merges.unavailable,
        defaults=_defaults(config, merges, schema),
        merger=merger,
        properties=merges.properties,
        columns=None if merger is None else _columns(schema),
        key_fields=tuple(name for name in config.record_key_fields if "." not in name),
        batches_by_order=merges.batches_by_order,
        deletes_win=merges.deletes_win,
        binlog=merges.binlog,
    )


def _check_ordering(fields: Sequence[str], schema: pa.Schema, table: str) -> None:
    fault = next(unordered(fields, schema, new=False), None)
    if fault is not None:
        raise NotSupportedError(f"{TableConfig.ordering} names {fault}", table=table or None)


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
    if merges.partial_update is not PartialUpdate.IGNORE_DEFAULTS or not avro_schema:
        return ()
    by_payload = config.version < 9
    if by_payload and merges.mode is MergeMode.EVENT_TIME:
        return ()
    found = []
    for declared in json.loads(avro_schema).get("fields", ()):
        default, kinds = (
            declared.get("default"),
            declared["type"] if isinstance(declared["type"], list) else [declared["type"]],
        )
        plain = kinds[0] in {"int", "long", "boolean"} or (by_payload and kinds[0] in {"float", "double", "string"})
        if plain and default is not None and (by_payload or default in {True, False} or default in _CACHED):
            found.append((declared["name"], default))
    return tuple(found)
