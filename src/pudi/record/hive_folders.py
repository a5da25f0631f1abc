"""Columns that Hive-style folders tell (`city=nyc/day=3`): paths of files in, values and their types out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

import pyarrow as pa

from pudi.errors import InvalidArgumentError
from pudi.record.partition_path import DEFAULT_PARTITION

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_INT32 = 2**31

FolderValues = tuple[tuple[str, "str | None"], ...]
"""Columns with their values as text, None for null, in the order of the folders."""


def folder_values(path: str) -> FolderValues:
    """Return the columns that the folders of a file tell; none if they aren't named `column=value`.

    Args:
        path: path of the file.
    """
    found = []
    for folder in path.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if name and equals:
            found.append((_decoded(name), None if text == DEFAULT_PARTITION else _decoded(text)))
    return tuple(found)


def _decoded(text: str) -> str:
    """Return a name or a value that Spark, pyarrow, pandas or DuckDB has encoded for a folder.

    Spark encodes single characters of ASCII, the others all bytes of UTF-8 but those of letters, digits and few more.
    All of them encode the percent sign, so that `%` with two hex digits never stands for itself.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def check_same_columns(values: Iterable[tuple[str, FolderValues]], table: str) -> tuple[str, ...]:
    """Return the columns that the folders of all files tell.

    Args:
        values: path and columns of each file.
        table: location of the folder, for errors.

    Raises:
        InvalidArgumentError: the folders of two files tell other columns.
    """
    names: tuple[str, ...] | None = None
    first = ""
    for path, known in values:
        own = tuple(name for name, _ in known)
        if names is None:
            names, first = own, path
        if own != names or len(set(own)) != len(own):
            raise InvalidArgumentError(
                f"{path} lies in folders of the columns {list(own)}, and {first} in those of {list(names)}: import "
                "each kind of folder by itself",
                table=table,
            )
    return names or ()


def folder_type(texts: Sequence[str | None]) -> pa.DataType:
    """Return the type of a column by its values: an integer if all are written like one, else text."""
    present = [text for text in texts if text is not None]
    if not present or not all(map(_INTEGER.fullmatch, present)):
        return pa.string()
    return pa.int32() if all(-_INT32 <= int(text) < _INT32 for text in present) else pa.int64()
