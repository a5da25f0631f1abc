"""Convert LIKE patterns: to a regular expression, a prefix, or the spelling with another escape character."""

from __future__ import annotations

import re
from enum import Enum

from pudi.errors import InvalidArgumentError

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Wildcard(Enum):
    """The wildcards of a pattern."""

    ANY = "%"
    ONE = "_"


def pattern_parts(pattern: str, escape: str) -> tuple[str | Wildcard, ...]:
    """Split a pattern into text and wildcards.

    As in Spark, the escape character may only stand before %, _ or itself.

    Raises:
        InvalidArgumentError: a misplaced escape character, or an escape that is not one character.
    """
    if len(escape) != 1 or escape in "%_":
        raise InvalidArgumentError(f"ESCAPE takes one character other than % and _, not {escape!r}")
    parts: list[str | Wildcard] = []
    text: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", escape):
                raise InvalidArgumentError(
                    f"in the LIKE pattern {pattern!r} the escape character {escape!r} must stand before %, _ or itself"
                )
            text.append(pattern[position])
        elif char in "%_":
            if text:
                parts.append("".join(text))
                text = []
            parts.append(Wildcard(char))
        else:
            text.append(char)
        position += 1
    if text:
        parts.append("".join(text))
    return tuple(parts)


def to_regex(pattern: str, escape: str) -> str:
    r"""Return a regular expression (RE2) for the whole value; `_` matches one code point, including line ends."""
    body = "".join(
        ".*" if part is Wildcard.ANY else "." if part is Wildcard.ONE else _quote(str(part))
        for part in pattern_parts(pattern, escape)
    )
    return rf"(?s)\A{body}\z"


def _quote(text: str) -> str:
    # RE2 accepts any ASCII punctuation after a backslash, and every other character unchanged.
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text).replace("\0", r"\x00")


def with_backslash(pattern: str, escape: str) -> str:
    """Return the pattern with the backslash as its escape character, Spark's default."""
    spelt = (
        part.value if isinstance(part, Wildcard) else re.sub(r"([%_\\])", r"\\\1", part)
        for part in pattern_parts(pattern, escape)
    )
    return "".join(spelt)


def prefix_range(pattern: str, escape: str) -> tuple[str, str | None]:
    """Return bounds of matching values: `low <= value < high` by UTF-8 bytes; no upper bound if high is None."""
    parts = pattern_parts(pattern, escape)
    first = parts[0] if parts else ""
    prefix = "" if isinstance(first, Wildcard) else first
    if not any(isinstance(part, Wildcard) for part in parts):
        # Without a wildcard only the text itself matches; nothing sorts between it and the text plus NUL.
        return prefix, prefix + "\0"
    for length in range(len(prefix), 0, -1):
        code = ord(prefix[length - 1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE_POINT:
            return prefix, prefix[: length - 1] + chr(code)
    return prefix, None
