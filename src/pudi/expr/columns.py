"""Find columns by the names in an expression."""

from __future__ import annotations

import difflib

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError
from pudi.expr.tree import Column


def find_column(path: tuple[str, ...], schema: pa.Schema) -> Column:
    """Return the column, or the field inside a struct, of a path of names in any case.

    Raises:
        InvalidArgumentError: there is none, or there are several.
    """
    fields: list[pa.Field] = list(schema)
    names: list[str] = []
    for position, wanted in enumerate(path):
        where = f"struct column {'.'.join(names)}" if names else "table"
        matches = [field for field in fields if field.name.lower() == wanted.lower()]
        if not matches:
            known = [field.name for field in fields]
            folded = {name.lower(): name for name in known}
            near = difflib.get_close_matches(wanted.lower(), folded, n=1, cutoff=0.0)
            hint = f"; the nearest is {folded[near[0]]!r}" if near else ""
            raise InvalidArgumentError(f"the {where} has no column {wanted!r} named in where{hint}")
        if len(matches) > 1:
            raise InvalidArgumentError(f"column {wanted!r} in where is ambiguous: {[field.name for field in matches]}")
        found = matches[0]
        names.append(found.name)
        if position + 1 < len(path):
            if not pt.is_struct(found.type):
                raise InvalidArgumentError(
                    f"column {'.'.join(names)!r} is {found.type}, so it has no {path[position + 1]!r}"
                )
            fields = [found.type.field(i) for i in range(found.type.num_fields)]
    return Column(tuple(names), found.type)
