"""Fields of structs as columns of a scan: `place.x` is read with all of `place`, and chosen from its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError
from pudi.schema.spark_types import quote


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of a scan, top-level columns or fields of structs, under the names that the caller gave.

    Attributes:
        paths: by column, its name and those of the fields inside, from the outside in.
    """

    paths: tuple[tuple[str, ...], ...]

    def schema(self, read: pa.Schema) -> pa.Schema:
        """The columns, of the schema that is read."""
        found = []
        for name, *inner in self.paths:
            field = read.field(name)
            for each in inner:
                field = field.type.field(each).with_nullable(field.nullable or field.type.field(each).nullable)
            found.append(field.with_name(".".join((name, *inner))))
        return pa.schema(found)

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of some rows."""
        columns = [
            batch.column(name) if not inner else pc.struct_field(batch.column(name), inner)
            for name, *inner in self.paths
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch.schema))

    def of_frame(self, frame: Any) -> Any:
        """The columns of a Spark DataFrame."""
        texts = (f"{'.'.join(map(quote, path))} AS {quote('.'.join(path))}" for path in self.paths)
        return frame.selectExpr(*texts)


def chosen_columns(columns: Sequence[str] | None, schema: pa.Schema) -> tuple[Sequence[str] | None, Fields | None]:
    """Split what a user asks for into the columns to read, and the fields to choose from them; None if there are none.

    Args:
        columns: names of columns, or of fields with dots; None for all columns.
        schema: the table's columns.

    Raises:
        InvalidArgumentError: a column is named twice.
    """
    if columns is None or isinstance(columns, str) or not isinstance(columns, Iterable):
        return columns, None  # the plan refuses what is no list
    paths = [_path(name, schema) for name in columns]
    if all(len(path) == 1 for path in paths):
        return columns, None
    if len(set(paths)) < len(paths):
        raise InvalidArgumentError("a column is named twice in columns")
    return list(dict.fromkeys(path[0] for path in paths)), Fields(tuple(paths))


def _path(name: str, schema: pa.Schema) -> tuple[str, ...]:
    """The names from the outside in; a name of a column itself, or an unknown one, as it is."""
    if not isinstance(name, str) or name in schema.names or "." not in name:  # the plan refuses what is no text
        return (name,)
    first, *inner = name.split(".")
    if first not in schema.names:
        return (name,)
    kind = schema.field(first).type
    for position, each in enumerate(inner):
        if not pa.types.is_struct(kind) or kind.get_field_index(each) < 0:
            known = (
                [f"{'.'.join((first, *inner[:position]))}.{f.name}" for f in kind] if pa.types.is_struct(kind) else []
            )
            has = f"it has {', '.join(known)}" if known else f"it is {kind}"
            raise InvalidArgumentError(f"there is no column {name!r}: {'.'.join((first, *inner[:position]))}: {has}")
        kind = kind.field(each).type
    return (first, *inner)
