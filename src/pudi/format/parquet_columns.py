"""Top-level columns of Parquet schemas, for files whose column chunks come from files of several writers.

Source: parquet-format, src/main/thrift/parquet.thrift: SchemaElement, ColumnOrder, Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pudi.errors import CorruptError
from pudi.format.parquet_chunks import ColumnChunk, ParquetFooter
from pudi.format.thrift_compact import BINARY, LIST, STRUCT, Items, Struct

Elements: TypeAlias = "tuple[Struct, ...]"
"""The schema elements of one top-level column: itself, and what it encloses, depth first."""

_NAME, _REPETITION, _CHILDREN, _FIELD_ID = 4, 3, 5, 9
_CREATED_BY, _SCHEMA, _ORDERS = 6, 2, 7
_STATISTICS, _BY_ORDER = 12, {3, 4, 5, 6, 7, 8}
"""Statistics of a chunk; of these the fields that follow column orders. The deprecated bounds follow none."""


def schema_columns(footer: ParquetFooter, *, path: str | None = None) -> dict[str, Elements]:
    """Return the elements of each top-level column, by name, in their order.

    Args:
        footer: a footer.
        path: path of the file, for errors.

    Raises:
        CorruptError: the schema is no tree, or a name comes twice.
    """
    elements: list[Struct] = footer.fields[_SCHEMA][1].values[1:]
    found: dict[str, Elements] = {}
    at = 0
    while at < len(elements):
        end = _end(elements, at, path)
        name = elements[at][_NAME][1].decode("utf-8", "replace")
        if name in found:
            raise CorruptError(f"column {name!r} comes twice in a Parquet schema", path=path)
        found[name] = tuple(elements[at:end])
        at = end
    return found


def is_stored_alike(one: Elements, other: Elements) -> bool:
    """Return whether two columns are stored in the same types; one may be required where the other is optional."""
    return [_told(each, at) for at, each in enumerate(one)] == [_told(each, at) for at, each in enumerate(other)]


def with_columns(model: ParquetFooter, columns: Sequence[Elements], created_by: str) -> ParquetFooter:
    """Return a footer without row groups for other columns, as if another program had written the file.

    Args:
        model: footer of a file with as many leaf columns.
        columns: the columns in their order.
        created_by: the program, by which readers judge statistics and pages.
    """
    root = model.fields[_SCHEMA][1].values[0]
    elements = [each for own in columns for each in without_field_ids(own)]
    changed: Struct = {
        _SCHEMA: (LIST, Items(STRUCT, [root, *elements])),
        _CREATED_BY: (BINARY, created_by.encode()),
    }
    return replace(model, fields=model.fields | changed, groups=())


def renamed(column: Elements, name: str) -> Elements:
    """Return a column without children under another name."""
    return ({**column[0], _NAME: (BINARY, name.encode())},)


def without_field_ids(column: Elements) -> Elements:
    """Return a column's elements without the ids that some writers give columns."""
    return tuple({number: value for number, value in each.items() if number != _FIELD_ID} for each in column)


def has_column_orders(footer: ParquetFooter) -> bool:
    """Return whether the file says by which order its bounds were found; without it they mean nothing."""
    return _ORDERS in footer.fields


def with_known_bounds(chunk: ColumnChunk, *, ordered: bool) -> ColumnChunk:
    """Return a chunk with only those statistics whose meaning is certain.

    Args:
        chunk: a chunk of any writer.
        ordered: whether its file has column orders.
    """
    kind, known = chunk.metadata.get(_STATISTICS, (STRUCT, {}))
    kept = {number: value for number, value in known.items() if number in _BY_ORDER} if kind == STRUCT else {}
    if not ordered:
        kept = {number: value for number, value in kept.items() if number in {3, 4}}
    metadata = {number: value for number, value in chunk.metadata.items() if number != _STATISTICS}
    if kept:
        metadata[_STATISTICS] = (STRUCT, kept)
    return replace(chunk, metadata=dict(sorted(metadata.items())))


def _told(element: Struct, at: int) -> Mapping[int, object]:
    """Return what an element says of stored values; of the top-level column without its name's and rows' freedom."""
    skipped = {_FIELD_ID, _REPETITION} if at == 0 and element.get(_REPETITION, (0, 0))[1] in {0, 1} else {_FIELD_ID}
    return {number: value for number, value in element.items() if number not in skipped}


def _end(elements: Sequence[Struct], at: int, path: str | None) -> int:
    """Return the place after a column's elements."""
    left = 1
    while left:
        if at >= len(elements):
            raise CorruptError("a Parquet schema ends within a column", path=path)
        left += elements[at].get(_CHILDREN, (0, 0))[1] - 1
        at += 1
    return at
