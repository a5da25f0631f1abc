"""Partition paths: the text between table root and file, made of values, checked, and read back as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TableConfig
from pudi.errors import InvalidArgumentError
from pudi.record.key_text import refusal
from pudi.schema import convert_where_possible
from pudi.schema.java_numbers import numbers_of_texts

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Folder for null or empty partition values (PartitionPathEncodeUtils.DEFAULT_PARTITION_PATH)."""

EMPTY_TEXTS = ("", DEFAULT_PARTITION)
"""Texts of which Hudi reads null back from their folder."""

_OLD_DEFAULT = "default"
"""Name of the default partition before Hudi 0.12."""

_ESCAPED = "".join(map(chr, range(0x20))) + "\x7f\"#%'*/:=?\\{[]^"
SPECIAL = r"[\x00-\x1f\x22\x23\x25\x27\x2a\x2f\x3a\x3d\x3f\x5b-\x5e\x7b\x7f]"
"""Finds a character that `escape` replaces; for Arrow and for Spark, without quotes."""
_ESCAPE = re.compile(r"%([0-9A-F]{2})")

_EMPTY_FOLDER = r"^(/|\z)|//|/\z"

EMPTY_SEGMENT = r"(^|/)(/|\z)"
"""Matches values with leading, trailing or double slashes: Hudi loses rows with them."""

UNSAFE_PATH = r"(^|/)\.{0,2}(/|\z)|(^|/)\.[hH][oO][oO][dD][iI][eE]|[\x00-\x1f\x7f\\]|^[^/]*:"
"""Finds a path that is no folder of its own below the root, meets Hudi's own files, or that storages or Hadoop refuse.

Folders named '.' or '..' or nothing; `.hoodie`, `.hoodie_partition_metadata`; control characters
and backslashes; a colon in the first folder, which Hadoop takes for a scheme.
"""


def escaped_characters() -> list[str]:
    """The characters that are replaced, the one that replacements begin with first."""
    return ["%", *(char for char in _ESCAPED if char != "%")]


def escape(values: pa.Array) -> pa.Array:
    """The values with %XX for the characters that Hive escapes (PartitionPathEncodeUtils.escapePathName)."""
    if not pc.any(pc.match_substring_regex(values, SPECIAL)).as_py():
        return values
    for char in escaped_characters():
        values = pc.replace_substring(values, char, f"%{ord(char):02X}")
    return values


def unescape(text: str) -> str | None:
    """Return the value that `escape` encoded as the text; None if no value encodes to it."""
    value = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    again = "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)
    return value if again == text else None


def check_values(values: pa.Array, name: str) -> None:
    """Refuse values that would make empty folders.

    Raises:
        InvalidArgumentError: with the column and the first invalid value.
    """
    _refuse(values, EMPTY_SEGMENT, f"partition column {name!r}", "a folder without a name")


def check_paths(paths: pa.Array) -> None:
    """Refuse partition paths that leave the table's root, meet Hudi's own files, or can't be stored.

    Raises:
        InvalidArgumentError: with the first invalid path.
    """
    _refuse(paths, UNSAFE_PATH, "the partition path", "which can't be a folder of the table")


def _refuse(texts: pa.Array, pattern: str, what: str, why: str) -> None:
    bad = texts.filter(pc.match_substring_regex(texts, pattern))
    if len(bad):
        raise InvalidArgumentError(
            f"{what} would be {bad[0].as_py()!r}, {why}; change the value, "
            f"or make the table with {TableConfig.url_encode}=true"
        )


def segments(paths: pa.Array, fields: tuple[str, ...], depths: tuple[int, ...], *, hive_style: bool) -> list[pa.Array]:
    """Split partition paths into the text of each partition column.

    With one column all of the path is its text, slashes included; with several a slash in a value
    could stand anywhere, unless there are exactly as many folders as the columns make at least.

    Args:
        paths: the paths.
        fields: the partition columns.
        depths: how many folders each of them makes at least.
        hive_style: whether folders begin with the column's name.

    Returns:
        For each column one text per path; all columns are NULL for a path that can't be split.
    """
    folders = pc.split_pattern(paths, "/")
    known = pc.invert(pc.match_substring_regex(paths, _EMPTY_FOLDER))
    parts = [paths]
    if len(fields) > 1:
        known = pc.and_(known, pc.equal(pc.list_value_length(folders), sum(depths)))
        places = pc.if_else(known, pa.array(np.arange(len(paths))), pa.scalar(None, pa.int64()))
        folders, starts = folders.take(places), [0, *accumulate(depths)]
        levels = [pc.list_element(folders.drop_null(), level) for level in range(sum(depths))]
        joined = (pc.binary_join_element_wise(*levels[a:b], "/") for a, b in pairwise(starts))
        slots = pc.index_in(places, value_set=places.drop_null())
        parts = [part.take(slots) for part in joined]
    if hive_style:
        heads = [f"{name}=" for name in fields]
        for part, head in zip(parts, heads, strict=True):
            known = pc.and_(known, pc.fill_null(pc.starts_with(part, head), False))
        parts = [pc.utf8_slice_codeunits(part, len(head)) for part, head in zip(parts, heads, strict=True)]
    return [pc.if_else(known, part, pa.scalar(None, pa.string())) for part in parts]


def column_texts(parts: Sequence[pa.Array], *, url_encode: bool) -> list[str | None] | None:
    """Return the values of text columns in one path, None for null; None if a part is no value's text.

    Args:
        parts: the text of each column in the path.
        url_encode: whether special characters of values are encoded.
    """
    values = [_unescaped(part) if url_encode else part for part in parts]
    if any(part.null_count for part in values):
        return None
    texts = [part[0].as_py() for part in values]
    return [None if text in EMPTY_TEXTS else text for text in texts]


def typed_values(texts: pa.Array, kind: pa.DataType, *, url_encode: bool) -> pa.Array:
    """Parse each text as the only value of the type that Hudi writes that way; NULL if no value or several fit."""
    values = _unescaped(texts) if url_encode else texts
    if refusal(kind, partition=True) is not None:
        return pa.nulls(len(texts), kind)
    unclear = pc.is_in(values, value_set=pa.array([*EMPTY_TEXTS, _OLD_DEFAULT]))
    values = pc.if_else(unclear, pa.scalar(None, pa.string()), values)
    if kind == pa.string():
        return values
    if pa.types.is_timestamp(kind):  # in the zone of a JVM that the table doesn't state
        return pa.nulls(len(texts), kind)
    if pa.types.is_floating(kind):
        return numbers_of_texts(values, kind)
    typed = convert_where_possible(lambda part: part.cast(kind), values, kind)
    # Hudi never writes other spellings of the value ("+5", "05").
    return pc.if_else(pc.equal(typed.cast(pa.string()), values), typed, pa.scalar(None, kind))


def _unescaped(texts: pa.Array) -> pa.Array:
    """Return the values that `escape` encoded as the texts; NULL where no value encodes to one."""
    special = pc.fill_null(pc.match_substring_regex(texts, SPECIAL), False)
    if not pc.any(special).as_py():
        return texts
    distinct = texts.filter(special).unique()
    values = pa.array(map(unescape, distinct.to_pylist()), pa.string())
    return pc.if_else(special, values.take(pc.index_in(texts, value_set=distinct)), texts)


def matching_paths(wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the partition paths that some texts name, `*` in them standing for any text.

    Source: HoodieSparkSqlWriter.resolvePartitionWildcards.

    Args:
        wanted: paths and patterns.
        known: the paths of the table's partitions.
    """
    patterns = [re.compile(".*".join(map(re.escape, re.split(r"\*|%2A", name)))) for name in wanted]
    return [path for path in known if any(pattern.fullmatch(path) for pattern in patterns)]


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
