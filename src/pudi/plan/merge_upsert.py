"""Merges that are an upsert by key: their clauses make the same record of a source row, whether it matches or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pudi.expr import Expr, leaf_columns
from pudi.expr.tree import Column
from pudi.merge import DELETED
from pudi.plan.merge import SOURCE, MergeClause, MergeJoin, MergeKind


@dataclass(frozen=True, slots=True)
class MergeUpsert:
    """A merge whose source rows are looked up by key, as an upsert's, in place of a join with the table.

    It gives what the join gives as long as no two source rows share a key, and none has another partition than the row
    that it matches. For other sources the join decides.

    Attributes:
        schema: columns of the records, the table's.
        values: column of the table and bound expression over `SOURCE`; columns left out are null.
        updates: whether records whose key exists are written.
        inserts: whether records whose key is new are written.
        anywhere: whether a row matches in any partition, since the condition doesn't name the partition's columns.
        present: columns of the source; a row with a null in one of them matches nothing and is no record.
    """

    schema: pa.Schema
    values: tuple[tuple[str, Expr], ...]
    updates: bool
    inserts: bool
    anywhere: bool
    present: tuple[str, ...] = ()


def upsert_of(join: MergeJoin, source: pa.Schema) -> MergeUpsert | None:
    """Return the upsert that a merge is; None if only a join gives its records.

    Args:
        join: the merge.
        source: the source's columns.
    """
    pairs = dict(join.on)
    if not _matches_keys(join, pairs, source):
        return None
    clauses = [*join.matched, *join.not_matched]
    if not 0 < len(clauses) < 3 or any(
        c.condition is not None or c.kind is MergeKind.DELETE or c.computes_key for c in clauses
    ):
        return None
    if len(join.matched) == 1 and len(join.not_matched) == 1:
        values = _same_values(join, join.matched[0], join.not_matched[0], pairs)
    elif len(clauses) == 1 and join.read.merging is None:  # a key in a base file is a record only without log files
        values = _updated(join, clauses[0], pairs, source) if join.matched else _inserted(join, clauses[0], pairs)
    else:
        values = None
    if values is None:
        return None
    keys = join.generator.record_key_fields
    present: tuple[str, ...] = ()
    if not join.not_matched:
        present = tuple(s for t, s in join.on if not join.nulls_match or keys == (t,))
    anywhere = not pairs.keys() >= {*join.generator.partition_fields}
    return MergeUpsert(
        join.read.output_schema,
        tuple((name, values[name]) for name in join.read.output_schema.names if name in values),
        updates=bool(join.matched),
        inserts=bool(join.not_matched),
        anywhere=anywhere,
        present=present,
    )


def _matches_keys(join: MergeJoin, pairs: Mapping[str, str], source: pa.Schema) -> bool:
    """Whether rows match if, and only if, they have the same record key, and the same partition where it's named."""
    keys, folders = set(join.generator.record_key_fields), set(join.generator.partition_fields)
    table = join.read.output_schema
    plain = all(join.generator.moments_of(n) is None for n in range(len(join.generator.partition_fields)))
    whole = join.unsourced or join.condition is not None or join.computed is not None
    if not keys or not plain or whole or DELETED in table.names:
        return False
    if len(pairs) < len(join.on) or not keys <= pairs.keys() <= keys | folders or not keys | folders <= {*table.names}:
        return False
    return all(table.field(t).type == source.field(s).type and _is_exact(table.field(t).type) for t, s in join.on)


def _is_exact(kind: pa.DataType) -> bool:
    """Whether equal values of a type are equal texts in a record key."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind))


def _keeps_keys(join: MergeJoin, values: Mapping[str, Expr], pairs: Mapping[str, str]) -> bool:
    """Whether a record has the key that its source row is matched by."""
    return all(_is_of_source(values.get(target), source) for target, source in pairs.items())


def _is_of_source(value: Expr | None, name: str) -> bool:
    return isinstance(value, Column) and value.path == (SOURCE, name)


def _same_values(
    join: MergeJoin, update: MergeClause, insert: MergeClause, pairs: Mapping[str, str]
) -> dict[str, Expr] | None:
    """The values of both clauses; None if they differ, or an update keeps a value of the table."""
    new, changed = dict(insert.values), dict(update.values)
    fixed = {*join.generator.record_key_fields, *join.generator.partition_fields}
    names = join.read.output_schema.names
    same = all(name in new and (name in fixed or changed.get(name) == new[name]) for name in names)
    return new if same and _keeps_keys(join, new, pairs) else None


def _updated(
    join: MergeJoin, update: MergeClause, pairs: Mapping[str, str], source: pa.Schema
) -> dict[str, Expr] | None:
    """The values of a merge that only updates: all columns must come from the source, those that it can't set too."""
    values = dict(update.values)
    if any(column.path[0] != SOURCE for value in values.values() for column in leaf_columns(value)):
        return None
    for name in (*join.generator.record_key_fields, *join.generator.partition_fields):
        kind, given = join.read.output_schema.field(name).type, pairs.get(name, name)
        if given not in source.names or source.field(given).type != kind:
            return None
        values[name] = Column((SOURCE, given), kind)
    return values if all(name in values for name in join.read.output_schema.names) else None


def _inserted(join: MergeJoin, insert: MergeClause, pairs: Mapping[str, str]) -> dict[str, Expr] | None:
    """The values of a merge that only inserts; None where a null in the key of a stored row would match nothing."""
    values = dict(insert.values)
    whole = join.nulls_match or len(join.on) == len(join.generator.record_key_fields) == 1
    return values if whole and _keeps_keys(join, values, pairs) else None
