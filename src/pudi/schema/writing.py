"""Derive a table's new schema from its schema and the schema of written data.

Rules as Hudi 1.2 has them by default: `HoodieSchemaUtils.deduceWriterSchema`, that is, data of a narrower type is
turned into the table's (`SchemaChangeUtils.shouldPromoteType`), and the table takes on a wider type that can read what
is there (`HoodieSchemaCompatibilityChecker`). tests/interop asks real Hudi about every pair of types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pudi.config import WriteOptions
from pudi.errors import SchemaError
from pudi.schema.fields import META_FIELDS, check_no_repeats
from pudi.schema.types import TIMESTAMP, is_any_list, list_of, map_of, normalise_type


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedColumns:
    """Columns of a table that keep their type, whatever is written: `conform` casts the data's values to it.

    Hudi widens these columns like any other column.

    Attributes:
        keys: record key fields, `a.b` for one in a struct.
        partitions: partition fields, alike.
        ordering: ordering fields.
    """

    keys: Collection[str] = ()
    partitions: Collection[str] = ()
    ordering: Collection[str] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """Why a column keeps its type, by dotted name."""
        return {
            **dict.fromkeys(self.ordering, "it orders records"),
            **dict.fromkeys(self.partitions, "it is part of the partition path"),
            **dict.fromkeys(self.keys, _OF_KEY),
        }


_NONE_FIXED = FixedColumns()


def written_schema(
    table: pa.Schema, data: pa.Schema, fixed: FixedColumns = _NONE_FIXED, *, fill_missing: bool
) -> pa.Schema:
    """Return the table's columns after a write of data with these columns.

    The table's columns keep their order; columns that only the data has follow, nullable. A column is nullable if it is
    nullable in the table or the data, except for record keys.

    Args:
        table: the table's columns in pudi's types, without meta fields.
        data: the data's columns, of any Arrow types; meta fields among them don't count.
        fixed: the columns that keep their type.
        fill_missing: whether columns that the data lacks become null instead of an error
            (HoodieCommonConfig.SET_NULL_FOR_MISSING_COLUMNS).

    Raises:
        SchemaError: a column is missing, or its type can neither be converted to the table's type nor replace it;
            columns that keep their type must be convertible. Names the column and both types.
    """
    given = [field for field in data if field.name not in META_FIELDS or field.name in table.names]
    check_no_repeats((field.name for field in given), None)
    merged = _Merge(fill_missing, fixed.reasons).fields(list(table), [_incoming(f, table) for f in given], "")
    required = {name for name in fixed.keys if name in table.names and not table.field(name).nullable}
    return pa.schema([f.with_nullable(False) if f.name in required else f for f in merged])


def retyped(before: pa.Schema, after: pa.Schema) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    """Return the columns of primitive types that a write changes: dotted name, old and new type."""
    known = set(after.names)
    for name in before.names:
        if name in known:
            yield from _retyped(before.field(name).type, after.field(name).type, name)


def _retyped(old: pa.DataType, new: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    types = pa.types
    if types.is_struct(old) and types.is_struct(new):
        names = {each.name for each in new}
        for each in old:
            if each.name in names:
                yield from _retyped(each.type, new.field(each.name).type, f"{path}.{each.name}")
    elif is_any_list(old) and is_any_list(new):
        yield from _retyped(old.value_type, new.value_type, f"{path}.element")
    elif types.is_map(old) and types.is_map(new):
        yield from _retyped(old.item_type, new.item_type, f"{path}.value")
    elif not old.equals(new):
        yield path, old, new


def may_promote(data: pa.DataType, table: pa.DataType) -> bool:
    """Whether values of one plain type are turned into another (SchemaChangeUtils.isTypeUpdateAllow)."""
    types = pa.types
    number = types.is_integer(data) or types.is_floating(data)
    if types.is_decimal(table):
        return bool(number or data == pa.string() or (types.is_decimal(data) and _decimal_fits(data, table)))
    if table == pa.string():
        return bool(number or types.is_decimal(data) or data in {pa.date32(), pa.binary()})
    if data == pa.string():
        return table in {pa.date32(), pa.binary()}
    return _widens(data, table)


def _can_read(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether a column may change to a new primitive type: readers must be able to convert stored values.

    Hudi's checker lets a long become a local timestamp too, and then its reader fails on the old files: not here.
    """
    types = pa.types
    if types.is_decimal(old) and types.is_decimal(new):
        return bool(new.precision - new.scale >= old.precision - old.scale and new.scale >= old.scale)
    if new == pa.string():
        return bool(types.is_integer(old) or types.is_floating(old) or types.is_decimal(old) or old == pa.binary())
    if new == pa.binary():
        return bool(old == pa.string())
    if new == TIMESTAMP:
        return bool(old == pa.int64())
    return _widens(old, new)


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    order = [pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    return old in order and new in order and order.index(old) < order.index(new)


def _decimal_fits(data: pa.DataType, table: pa.DataType) -> bool:
    whole = table.precision - table.scale >= data.precision - data.scale
    return bool(table.scale == data.scale and table.precision >= data.precision) or (
        bool(whole) and bool(table.scale > data.scale)
    )


def incoming(data: pa.Schema, table: pa.Schema) -> pa.Schema:
    """Return the data's columns in pudi's types; in the table's where they or fields inside have none (nulls, uint64).

    Raises:
        SchemaError: pudi has no such type.
    """
    return pa.schema([_incoming(field, table) for field in data])


def _incoming(field: pa.Field, table: pa.Schema) -> pa.Field:
    """The data's field in pudi's types; the table's type for what has none (nulls, uint64), which values decide on."""
    place = table.get_field_index(field.name)
    kind = field.type if place < 0 else _typed(field.type, table.field(place).type)
    return pa.field(field.name, normalise_type(kind, field.name), field.nullable)


def _typed(kind: pa.DataType, table: pa.DataType) -> pa.DataType:
    """Return a type of the data with the table's types in place of those that tables have not: null and uint64."""
    types = pa.types
    if types.is_null(kind) or types.is_uint64(kind):
        return table
    if types.is_struct(kind) and types.is_struct(table):
        known = {each.name: each.type for each in table}
        return pa.struct([each.with_type(_typed(each.type, known.get(each.name, each.type))) for each in kind])
    if is_any_list(kind) and is_any_list(table):
        return list_of(_typed(kind.value_type, table.value_type), nullable=kind.value_field.nullable)
    if types.is_map(kind) and types.is_map(table):
        key, value = kind.key_field, kind.item_field
        return pa.map_(key, value.with_type(_typed(value.type, table.item_type)))
    return kind


def is_untyped(kind: pa.DataType) -> bool:
    """Return whether a type, or one inside of it, is one that tables have not and that the table's type stands for."""
    types = pa.types
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return bool(types.is_null(kind) or types.is_uint64(kind)) or any(map(is_untyped, inner))


def _may_keep(data: pa.DataType, table: pa.DataType) -> bool:
    """Return whether a key, partition or ordering column accepts values of another type; only lossless values pass.

    Integers and decimals of other widths are cast value by value. A text is no number: decimals would round it.
    """
    types = pa.types
    if types.is_integer(data) and types.is_integer(table):
        return True
    if types.is_decimal(data) and types.is_decimal(table):
        return True
    return may_promote(data, table) and not (data == pa.string() and types.is_decimal(table))


_OF_KEY = "it is part of the record key"
"""Why a column of the record key keeps its type."""


@dataclass(frozen=True, slots=True)
class _Merge:
    fill_missing: bool
    kept: Mapping[str, str] = field(default_factory=dict)
    """Why a column keeps its type, by the dotted names of those that do."""

    def fields(self, old: list[pa.Field], new: list[pa.Field], path: str) -> list[pa.Field]:
        """The fields of a table or struct: the old ones in order, then those that only the data has."""
        given = {field.name: field for field in new}
        known = {field.name for field in old}
        added = [field for field in new if field.name not in known]
        missing = [field.name for field in old if field.name not in given]
        self._check_names(missing, added, known, path)
        kept = [self._field(f, given[f.name], path) if f.name in given else f.with_nullable(True) for f in old]
        return [*kept, *(field.with_nullable(True) for field in added)]

    def _field(self, old: pa.Field, new: pa.Field, path: str) -> pa.Field:
        kind = self.type(old.type, new.type, f"{path}.{old.name}" if path else old.name)
        return pa.field(old.name, kind, old.nullable or new.nullable)

    def type(self, old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
        """Return the new type of a column."""
        types = pa.types
        if old.equals(new):
            return old
        if path in self.kept:
            if _may_keep(new, old):
                return old
            raise SchemaError(
                f"column {path!r} has type {new} in the data and {old} in the table, which no write changes, since "
                f"{self.kept[path]}: cast the data to {old}"
            )
        if types.is_struct(old) and types.is_struct(new):
            return pa.struct(self.fields(list(old), list(new), path))
        if is_any_list(old) and is_any_list(new):
            item = self.type(old.value_type, new.value_type, f"{path}.element")
            return list_of(item, nullable=old.value_field.nullable or new.value_field.nullable)
        if types.is_map(old) and types.is_map(new):
            value = self.type(old.item_type, new.item_type, f"{path}.value")
            return map_of(value, nullable=old.item_field.nullable or new.item_field.nullable)
        if not types.is_nested(old) and not types.is_nested(new):
            if may_promote(new, old):
                return old
            if _can_read(old, new):
                return new
        raise SchemaError(
            f"column {path!r} has type {new} in the data and {old} in the table: neither becomes the other; cast the "
            "data, or change the column's type first"
        )

    def _check_names(self, missing: list[str], added: Iterable[pa.Field], known: set[str], path: str) -> None:
        by_case = {name.casefold(): name for name in known}
        prefix = f"{path}." if path else ""
        twins = [(f.name, by_case[f.name.casefold()]) for f in added if f.name.casefold() in by_case]
        parts = []
        if missing and not (self.fill_missing and not twins):
            parts.append(f"columns missing from the data: {', '.join(prefix + name for name in missing)}")
        if twins:
            parts.append(f"names differ in case: {', '.join(f'{new} for {prefix}{old}' for new, old in twins)}")
        if parts:
            advice = (
                f"rename or add them, or give option {WriteOptions.fill_missing}=true, which makes missing ones null"
            )
            if any(self.kept.get(prefix + name) == _OF_KEY for name in missing):
                advice = "rename or add them; each record needs its record key"
            raise SchemaError("; ".join([*parts, advice]))
