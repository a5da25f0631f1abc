"""Partition values that are hard to store, and the model's own rule of those that no table takes."""

from __future__ import annotations

import re

NAMES: tuple[str | None, ...] = (
    "nyc",
    "são paulo",
    "é",
    "e\u0301",
    "東京",
    "🙂",
    "👩‍👩‍👧",
    "مرحبا",
    "ß",
    "a b",
    " lead",
    "trail ",
    "a+b",
    "50%",
    "%20",
    "a%2Fb",
    "a%",
    "a=b",
    "p=x",
    "=",
    "a,b",
    "a;b",
    "a&b",
    "a?b",
    "a#b",
    "a*b",
    "a|b",
    "a~b",
    "a@b",
    "a'b",
    'a"b',
    "(a)",
    "[a]",
    "{a}",
    "a<b>",
    "$a",
    "^",
    "1.5",
    "v1.2.3",
    "a.",
    ".dot",
    "_under",
    "__x",
    "default",
    "null",
    "__HIVE_DEFAULT_PARTITION__",
    "2024-01-01",
    "2024/01/01",
    "-1",
    "x" * 180,
    "🙂" * 40,
    "",
    None,
    "a:b",
    "back\\slash",
    "tab\tbed",
    "..",
    ".hoodie",
    "a//b",
    "/a",
    "a/",
    "a/../b",
)
"""Values of the partition column. Some share a folder, some no table takes, see `is_refused`."""

PLAIN: tuple[str, ...] = ("nyc", "rome", "oslo")
_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
NO_VALUE = ("", _DEFAULT)
"""Values that a table stores as null, whose folder they share."""
_ENCODED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def folder(value: str | None, *, hive_style: bool, url_encode: bool) -> str:
    """Return the folder of a value of the partition column `p`."""
    text = value or _DEFAULT
    if url_encode:
        text = _ENCODED.sub(lambda found: f"%{ord(found[0]):02X}", text)
    return f"p={text}" if hive_style else text


def is_refused(value: str | None, *, hive_style: bool, url_encode: bool) -> bool:
    """Return whether a value can't be a folder below the table's root."""
    path = folder(value, hive_style=hive_style, url_encode=url_encode)
    text = path[2:] if hive_style else path
    parts, values = path.split("/"), text.split("/")
    return (
        any(part in {"", ".", ".."} or part.lower().startswith(".hoodie") for part in [*parts, *values[1:]])
        or "" in values
        or re.search(r"[\x00-\x1f\x7f\\]", path) is not None
        or ":" in parts[0]
    )
