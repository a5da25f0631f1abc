"""Types by Spark's names for them: `double`, `decimal(10,2)`, `array<int>`, `struct<x: int, y: string>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pudi.errors import SchemaError
from pudi.schema.types import LOCAL_TIMESTAMP, MAX_DEPTH, TIMESTAMP, list_of, map_of

_NAMES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int32(),
    "byte": pa.int32(),
    "smallint": pa.int32(),
    "short": pa.int32(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
    "void": pa.null(),
}
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|(\w+)|(.))", re.DOTALL)
_DECIMALS = {"decimal", "dec", "numeric"}
_TEXTS = {"char", "varchar"}


def type_of_name(text: str, column: str) -> pa.DataType:
    """The Arrow type of Spark's name of it; small integers become int32, char and varchar string, as in Hudi.

    Args:
        text: the name, in any case.
        column: the column, for messages.

    Raises:
        SchemaError: there is no such type, or a table can't hold it.
    """
    reader = _Reader(text, column)
    kind = reader.type(0)
    if reader.next() or pa.types.is_null(kind):
        raise reader.wrong()
    return kind


class _Reader:
    """Reads a type from left to right."""

    def __init__(self, text: str, column: str) -> None:
        self._text, self._column = text, column
        self._tokens = [match.groups() for match in _TOKEN.finditer(text) if match.group().strip()]
        self._at = 0

    def wrong(self) -> SchemaError:
        return SchemaError(
            f"column {self._column!r}: {self._text!r} is no type of a Hudi table; there are "
            f"{', '.join(name for name in _NAMES if name != 'void')}, decimal(p,s), array<…>, map<string,…>, struct<…>"
        )

    def next(self) -> str:
        """The next word or sign in lower case; empty at the end."""
        if self._at >= len(self._tokens):
            return ""
        quoted, text, word, sign = self._tokens[self._at]
        return quoted or text or (word or sign).lower()

    def _take(self, *wanted: str) -> str:
        found = self.next()
        if not found or (wanted and found not in wanted):
            raise self.wrong()
        self._at += 1
        return found

    def _name(self) -> str:
        quoted, _, word, _ = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", "", "")
        if not quoted and not word:
            raise self.wrong()
        self._at += 1
        return str(quoted).replace("``", "`") if quoted else str(word)

    def type(self, depth: int) -> pa.DataType:
        if depth > MAX_DEPTH:
            raise SchemaError(f"column {self._column!r}: the type is nested deeper than {MAX_DEPTH} levels")
        name = self._take()
        if name == "array":
            self._take("<")
            inner = self.type(depth + 1)
            self._take(">")
            return list_of(inner, nullable=True)
        if name == "map":
            self._take("<")
            key = self.type(depth + 1)
            self._take(",")
            value = self.type(depth + 1)
            self._take(">")
            if key != pa.string():
                raise SchemaError(f"column {self._column!r}: Hudi's maps have string keys")
            return map_of(value, nullable=True)
        if name == "struct":
            return self._struct(depth)
        if name in _DECIMALS:
            return self._decimal()
        if name in _TEXTS:
            self._numbers()
            return pa.string()
        kind = _NAMES.get(name)
        if kind is None:
            raise self.wrong()
        return kind

    def _struct(self, depth: int) -> pa.DataType:
        self._take("<")
        fields: list[pa.Field] = []
        while not fields or self._take(",", ">") == ",":
            name = self._name()
            if self.next() == ":":
                self._at += 1
            kind, nullable = self.type(depth + 1), True
            if self.next() == "not":
                self._at += 1
                self._take("null")
                nullable = False
            if self.next() == "comment":
                self._at += 2
            fields.append(pa.field(name, kind, nullable))
        return pa.struct(fields)

    def _decimal(self) -> pa.DataType:
        given = self._numbers()
        precision, scale = given if len(given) == 2 else ((given or [10])[0], 0)
        if not 1 <= precision <= 38 or scale > precision or len(given) > 2:
            raise self.wrong()
        return pa.decimal128(precision, scale)

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if self.next() != "(":
            return found
        while self._take("(", ",", ")") != ")":
            if not self.next().isdecimal():
                raise self.wrong()
            found.append(int(self._take()))
        return found
