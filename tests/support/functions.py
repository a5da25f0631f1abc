"""Calls of every function that `where` has, made from the table of functions."""

from __future__ import annotations

import pyarrow as pa

from pudi.errors import NotSupportedError
from pudi.expr import Call, bind, parse, walk
from pudi.expr.table import FUNCTIONS

_FORMATS = ("'yyyy-MM-dd'", "'yyyyMM'", "'dd.MM.yyyy HH:mm:ss'", "'yyyy''T''HH'", "'yyyy'")
CONSTANTS = {
    "substring": ("1, 2", "2, 1", "0, 3", "2, 0", "9, 9"),
    "date_format": (*_FORMATS, "'HH:mm'"),
    "from_unixtime": ("", *_FORMATS, "'HH:mm'"),
}
"""The constants to try behind the value, for functions that have some."""


def every_call(schema: pa.Schema) -> dict[str, Call]:
    """Return each function, by each of its names, of each column that it takes: bound, by its SQL.

    Fails if a function of the table takes no column, so that none is left out.
    """
    calls: dict[str, Call] = {}
    for name, function in FUNCTIONS.items():
        before = len(calls)
        for column in schema.names:
            for constants in CONSTANTS.get(name, ("",)):
                for written in (name, *function.aliases):
                    sql = f"{written}(`{column}`{', ' if constants else ''}{constants})"
                    try:
                        bound = bind(parse(f"{sql} IS NULL"), schema)
                    except NotSupportedError:
                        continue
                    calls[sql] = next(node for node in walk(bound) if isinstance(node, Call))
        assert len(calls) > before, f"{name} takes no column with the constants {CONSTANTS.get(name, 'none')}"
    return calls
