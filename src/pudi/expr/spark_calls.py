"""Translate functions of the `where` language to Spark SQL, with the same result in any session time zone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr.calls import FIRST_SECOND, LAST_SECOND, format_pieces
from pudi.expr.tree import Call, type_of

_DAY_SECONDS, _DAY_MICROS = 86_400, 86_400_000_000


def call_sql(call: Call, arg: str, text: Callable[[str], str], failure: str) -> str:
    """Return SQL for a function call.

    Args:
        call: the bound function.
        arg: its argument in SQL.
        text: formats a text as a literal.
        failure: the error message for a point in time outside the years 1 to 9999.
    """
    if call.name == "substring":
        return f"substring({arg}, {', '.join(map(str, call.options))})"
    if type_of(call.arg) in {pa.string(), pa.large_string()}:
        return f"{call.name}({arg})"
    moment = _Moment(arg, type_of(call.arg))
    if call.name in {"year", "month", "day"}:
        value, kind = f"{call.name}({moment.date})", "INT"
    elif call.name == "hour":
        value, kind = moment.field("HH"), "INT"
    elif call.name == "to_date":
        value, kind = moment.date, "DATE"
    else:
        parts = [moment.piece(piece, text) for piece in format_pieces(call.options[0]) or ()]
        value, kind = f"concat({', '.join(parts)})", "STRING"
    raised = f"CAST(raise_error({text(failure)}) AS {kind})"
    return f"CASE WHEN {arg} IS NULL THEN NULL WHEN {moment.in_range} THEN {value} ELSE {raised} END"


class _Moment:
    """A point in time as SQL: a timestamp, a date, or seconds since 1970.

    Args:
        arg: the value.
        kind: its type.
    """

    def __init__(self, arg: str, kind: pa.DataType) -> None:
        self._arg, self._kind = arg, kind
        self._zoned = pt.is_timestamp(kind) and kind.tz is not None
        self._number = f"unix_micros({arg})" if self._zoned else f"CAST({arg} AS BIGINT)"
        self._day = f"{_DAY_MICROS if self._zoned else _DAY_SECONDS}L"
        self._counted = self._zoned or pt.is_integer(kind)

    @property
    def date(self) -> str:
        """The date."""
        if not self._counted:
            return self._arg if pt.is_date32(self._kind) else f"CAST({self._arg} AS DATE)"
        days = f"(({self._number} - pmod({self._number}, {self._day})) div {self._day})"
        return f"date_add(DATE '1970-01-01', CAST({days} AS INT))"

    @property
    def in_range(self) -> str:
        """Whether the year is from 1 to 9999."""
        if not self._counted:
            return f"year({self.date}) BETWEEN 1 AND 9999"
        unit = 1_000_000 if self._zoned else 1
        return f"{self._number} BETWEEN {FIRST_SECOND * unit}L AND {LAST_SECOND * unit + unit - 1}L"

    def field(self, name: str) -> str:
        """Return a field of a format, as an integer."""
        if name in {"yyyy", "MM", "dd"}:
            return f"{({'yyyy': 'year', 'MM': 'month', 'dd': 'day'})[name]}({self.date})"
        if not self._counted:
            return f"{({'HH': 'hour', 'mm': 'minute', 'ss': 'second'})[name]}({self._arg})"
        seconds = f"pmod({self._number}, {self._day})"
        if self._zoned:
            seconds = f"({seconds} div 1000000L)"
        over, within = {"HH": (3600, 24), "mm": (60, 60), "ss": (1, 60)}[name]
        return f"CAST(pmod({seconds} div {over}L, {within}L) AS INT)"

    def piece(self, name: str, text: Callable[[str], str]) -> str:
        """Return a piece of a format, as text."""
        if name.startswith("'"):
            return text(name[1:-1])
        return f"lpad(CAST({self.field(name)} AS STRING), {len(name)}, '0')"
