"""Partition paths: the text between table root and file, made of values, checked, and read back as values."""

from __future__ import annotations

import re
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError
from pudi.record.key_text import refusal

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Folder of rows whose partition value is null or empty (PartitionPathEncodeUtils.DEFAULT_PARTITION_PATH)."""

_OLD_DEFAULT = "default"
"""What stood for it before Hudi 0.12."""

_ESCAPED = "".join(map(chr, range(0x20))) + "\x7f\"#%'*/:=?\\{[]^"
SPECIAL = r"[\x00-\x1f\x22\x23\x25\x27\x2a\x2f\x3a\x3d\x3f\x5b-\x5e\x7b\x7f]"
"""Finds a character that `escape` replaces; for Arrow and for Spark, without quotes."""
_ESCAPE = re.compile(r"%([0-9A-F]{2})")

EMPTY_SEGMENT = r"(^|/)(/|\z)"
"""Finds a value that begins or ends with a slash, or has two in a row: Hudi loses such rows."""

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
    """The value that `escape` turned into the text; None if there is none."""
    value = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    again = "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)
    return value if again == text else None


def check_values(values: pa.Array, name: str) -> None:
    """Refuse values that would make empty folders.

    Raises:
        InvalidArgumentError: names the column and the first such value.
    """
    _refuse(values, EMPTY_SEGMENT, f"partition column {name!r}", "a folder without a name")


def check_paths(paths: pa.Array) -> None:
    """Refuse partition paths that leave the table's root, meet Hudi's own files, or can't be stored.

    Raises:
        InvalidArgumentError: names the first such path.
    """
    _refuse(paths, UNSAFE_PATH, "the partition path", "what can't be a folder of the table")


def _refuse(texts: pa.Array, pattern: str, what: str, why: str) -> None:
    bad = texts.filter(pc.match_substring_regex(texts, pattern))
    if len(bad):
        raise InvalidArgumentError(
            f"{what} would be {bad[0].as_py()!r}, {why}; change the value, "
            "or make the table with hoodie.datasource.write.partitionpath.urlencode=true"
        )


def segments(path: str, fields: tuple[str, ...], depths: tuple[int, ...], *, hive_style: bool) -> list[str] | None:
    """The text of each partition column in a path; None where that can't be told.

    With one column all of the path is its text, slashes included; with several a slash in a value
    could stand anywhere, unless there are exactly as many folders as the columns make at least.

    Args:
        path: the path.
        fields: the partition columns.
        depths: how many folders each of them makes at least.
        hive_style: whether folders begin with the column's name.
    """
    folders = path.split("/")
    if "" in folders or (len(fields) > 1 and len(folders) != sum(depths)):
        return None
    ends = list(accumulate(depths)) if len(fields) > 1 else [len(folders)]
    parts = ["/".join(folders[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    if not hive_style:
        return parts
    heads = [f"{name}=" for name in fields]
    if not all(part.startswith(head) for part, head in zip(parts, heads, strict=True)):
        return None
    return [part[len(head) :] for part, head in zip(parts, heads, strict=True)]


def typed_value(text: str, kind: pa.DataType, *, url_encode: bool) -> object | None:
    """The one value of the type that Hudi writes as this text; None when there is none or it can't be told."""
    value = unescape(text) if url_encode else text
    if value is None or value in {"", DEFAULT_PARTITION, _OLD_DEFAULT} or refusal(kind, partition=True) is not None:
        return None
    if kind == pa.string():
        return value
    try:
        typed = pa.array([value]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    # Other spellings of the value ("+5", "05") are none of Hudi's.
    same = typed.cast(pa.string())[0].as_py() == value
    result: object = typed[0].as_py()
    return result if same else None
