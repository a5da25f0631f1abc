"""Joda-Time's date patterns, as Hudi's timestamp key generator uses them: texts to moments and back, in Arrow.

pudi accepts only patterns that mean the same on every machine. It refuses letters that depend on the JVM's language
(names of months and days, AM and PM, eras) or on the current day (two-digit years when parsing).
Source: org.joda.time.format.DateTimeFormat, compared with the version that Hudi 1.2.0 uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError, NotSupportedError

MILLISECOND, SECOND, MINUTE, HOUR, DAY = 1, 1_000, 60_000, 3_600_000, 86_400_000
"""Spans in milliseconds."""

FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000, 253_402_300_799_999
"""Local milliseconds since 1970 of the first and last moment of the years 1 to 9999, which all writers print alike."""

_LETTERS = "GCYxwedEyDMahHkKmsSzZ"
_WIDEST = 20
_NUMERIC = "CYxwedyDMhHkKmsS"
_PRECISION = {"S": MILLISECOND, "s": SECOND, "m": MINUTE, "H": HOUR, "k": HOUR, "h": HOUR, "K": HOUR}
_READ = "yYMdDHkmsSZ"
_RANGES = {"M": (1, 12), "d": (1, 31), "D": (1, 366), "H": (0, 23), "k": (1, 24), "m": (0, 59), "s": (0, 59)}


@dataclass(frozen=True, slots=True)
class Token:
    """A run of one pattern letter, or literal text.

    Attributes:
        letter: the letter; empty for a literal.
        width: how many of it.
        text: the literal.
    """

    letter: str
    width: int = 0
    text: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it stands for digits."""
        return bool(self.letter) and self.letter in _NUMERIC and not (self.letter == "M" and self.width > 2)


@cache
def tokens(pattern: str) -> tuple[Token, ...]:
    """The parts of a pattern (DateTimeFormat.parseToken).

    Raises:
        InvalidArgumentError: a letter that Joda-Time doesn't know, or too many of one.
    """
    found: list[Token] = []
    for match in re.finditer(r"([A-Za-z])\1*|(?:'(?:[^']|'')*(?:'|$)|[^A-Za-z'])+", pattern):
        text = match[0]
        if match[1] is None:
            found.append(Token("", text=_unquoted(text)))
        elif len(text) > _WIDEST:
            raise InvalidArgumentError(f"date pattern with {len(text)} times {match[1]!r}: {_WIDEST} are enough")
        elif match[1] in _LETTERS:
            found.append(Token(match[1], len(text)))
        else:
            raise InvalidArgumentError(f"date pattern {pattern!r}: there is no pattern letter {match[1]!r}")
    return tuple(found)


def _unquoted(text: str) -> str:
    return text.replace("''", "\0").replace("'", "").replace("\0", "'")


def check_output(pattern: str) -> None:
    """Refuse a pattern that `format_moments` can't print as every JVM does.

    Raises:
        InvalidArgumentError: it is empty or no pattern.
        NotSupportedError: a part's text depends on language or time zone.
    """
    if not tokens(pattern):
        raise InvalidArgumentError("the date pattern of the partition path is empty")
    for token in tokens(pattern):
        if token.letter and not (token.is_number or (token.letter == "Z" and token.width <= 2)):
            raise NotSupportedError(
                f"date pattern {pattern!r}: {token.letter * token.width} prints a text that depends on the JVM's "
                "language or zone; use numbers"
            )


def states_offset(pattern: str) -> bool:
    """Whether texts of the pattern state the zone's offset."""
    return any(token.letter == "Z" for token in tokens(pattern))


def precision(pattern: str) -> int:
    """The largest of the spans above that the printed text is the same all through."""
    return min((_PRECISION.get(token.letter, DAY) for token in tokens(pattern) if token.letter), default=DAY)


def folders(pattern: str) -> int:
    """Number of folders in a path that the pattern prints."""
    return 1 + sum(token.text.count("/") for token in tokens(pattern))


def format_moments(moments: pa.Array, pattern: str, offset: int = 0) -> pa.Array:
    """Print local moments.

    Args:
        moments: `timestamp("ms")` without a zone, without nulls, in the years 1 to 9999.
        pattern: one that `check_output` takes.
        offset: the zone's offset in milliseconds, where the pattern prints it.
    """
    parts: list[Any] = []
    for token in tokens(pattern):
        if not token.letter:
            parts.append(token.text)
        elif token.letter == "Z":
            parts.append(_offset_text(offset, ":" if token.width == 2 else ""))
        else:
            parts.append(_digits(moments, token))
    if not any(isinstance(part, (pa.Array, pa.ChunkedArray)) for part in parts):
        return pa.array(["".join(parts)] * len(moments), pa.string())
    return pc.binary_join_element_wise(*parts, "")


def _digits(moments: pa.Array, token: Token) -> pa.Array:
    letter, width = token.letter, token.width
    if letter == "S":
        millis = pc.utf8_lpad(pc.cast(pc.millisecond(moments), pa.string()), 3, "0")
        return pc.utf8_slice_codeunits(pc.utf8_rpad(millis, max(width, 3), "0"), 0, width)
    value = _NUMBERS[letter](moments)
    if letter in "yYx" and width == 2:
        value = _modulo(value, 100)
    return pc.utf8_lpad(pc.cast(value, pa.string()), width, "0")


def _modulo(values: pa.Array, by: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(pc.divide(values, by), by))


def _with_last(values: pa.Array, last: int) -> pa.Array:
    """Return numbers with the last one in place of 0: hours that begin with 1 count so."""
    return pc.if_else(pc.equal(values, 0), last, values)


_NUMBERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "y": pc.year,
    "Y": pc.year,
    "C": lambda moments: pc.divide(pc.year(moments), 100),
    "x": pc.iso_year,
    "w": pc.iso_week,
    "e": lambda moments: pc.day_of_week(moments, count_from_zero=False),
    "M": pc.month,
    "D": pc.day_of_year,
    "d": pc.day,
    "H": pc.hour,
    "k": lambda moments: _with_last(pc.hour(moments), 24),
    "K": lambda moments: _modulo(pc.hour(moments), 12),
    "h": lambda moments: _with_last(_modulo(pc.hour(moments), 12), 12),
    "m": pc.minute,
    "s": pc.second,
}


def _offset_text(offset: int, colon: str) -> str:
    minutes = abs(offset) // MINUTE
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}{colon}{minutes % 60:02d}"


def check_input(pattern: str) -> None:
    """Refuse a pattern that `parse_texts` can't read as every JVM does.

    Raises:
        InvalidArgumentError: it is no pattern.
        NotSupportedError: a part can't be read, comes twice, or leaves the year or the place of digits open.
    """
    parts = tokens(pattern)
    letters = ["y" if token.letter == "Y" else token.letter for token in parts if token.letter]
    for token in parts:
        readable = token.letter in _READ and (token.is_number or (token.letter == "Z" and token.width <= 2))
        if token.letter and not readable:
            raise NotSupportedError(f"date pattern {pattern!r}: {token.letter * token.width} can't be read")
        if token.letter in "yY" and token.letter and token.width == 2:
            raise NotSupportedError(
                f"date pattern {pattern!r}: which century a year of two digits is in changes by time"
            )
    hours = [letter for letter in letters if letter in "Hk"]
    days = {letter for letter in letters if letter in "MdD"}
    if len(set(letters)) < len(letters) or len(hours) > 1 or ("D" in days and len(days) > 1):
        raise NotSupportedError(f"date pattern {pattern!r} names a part twice")
    if "y" not in letters:
        raise NotSupportedError(f"date pattern {pattern!r} has no year")
    for token, after in pairwise(parts):
        if token.is_number and after.text[:1].isdigit():
            raise NotSupportedError(f"date pattern {pattern!r}: digits follow a number")


def parse_texts(texts: pa.Array, patterns: Sequence[str]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Read texts by the first pattern that each of them has the form of.

    Args:
        texts: strings without nulls.
        patterns: each one that `check_input` takes.

    Returns:
        Local moments, `timestamp("ms")`; for each text whether it could be read; and its offset in milliseconds, NaN
        where it doesn't say one. What could not be read is 1970.
    """
    local = np.zeros(len(texts), np.int64)
    readable = np.zeros(len(texts), bool)
    offsets = np.full(len(texts), np.nan)
    left = np.arange(len(texts))
    for pattern in patterns:
        found = pc.extract_regex(texts.take(pa.array(left)), _regex(pattern))
        hit = np.asarray(found.is_valid())
        places = left[hit]
        moments, good, offset = _moments(found.filter(found.is_valid()))
        local[places], readable[places], offsets[places] = moments, good, offset
        left = left[~hit]
        if not len(left):
            break
    return pa.array(local).cast(pa.timestamp("ms")), readable, offsets


@cache
def _regex(pattern: str) -> str:
    """The form of a pattern's texts: Joda-Time takes as many digits as it can and never goes back."""
    parts = [*tokens(pattern), Token("")]
    form = ""
    for token, after in pairwise(parts):
        if not token.letter:
            form += f"(?i:{re.escape(token.text)})"
        elif token.letter == "Z":
            form += r"(?P<Z>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
        else:
            form += _number_form(token, crowded=after.is_number)
    return f"^(?:{form})\\z"


def _number_form(token: Token, *, crowded: bool) -> str:
    letter = "y" if token.letter == "Y" else token.letter
    most = {"y": token.width if crowded else 9, "D": max(3, token.width), "S": token.width}
    digits = most.get(letter, max(2, token.width))
    if crowded:
        return f"(?P<{letter}>[0-9]{{{digits}}})"
    sign = r"\+?" if token.letter == "y" else ""
    return f"{sign}(?P<{letter}>[0-9]{{1,{digits}}})"


def _moments(found: pa.StructArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return local milliseconds, whether that time exists, and offsets, for the parts of texts."""
    names = {field.name for field in found.type}

    def number(letter: str, default: int) -> np.ndarray:
        if letter not in names:
            return np.full(len(found), default, np.int64)
        values: np.ndarray = np.asarray(pc.cast(found.field(letter), pa.int64()))
        return values

    good = np.ones(len(found), bool)
    for letter in names & set(_RANGES):
        low, high = _RANGES[letter]
        good &= (number(letter, low) >= low) & (number(letter, low) <= high)
    years = number("y", 1970)
    good &= (years >= 1) & (years <= 9999)
    months = np.where(good, (years - 1970) * 12 + number("M", 1) - 1, 0).astype("M8[M]")
    first = months.astype("M8[D]").astype(np.int64)
    days = first + np.where(good, number("D", 1) + number("d", 1) - 2, 0)
    after = (months + 1 if "D" not in names else months + 12).astype("M8[D]").astype(np.int64)
    good &= days < after
    hours = number("H", 0) if "k" not in names else number("k", 24) % 24
    rest = hours * HOUR + number("m", 0) * MINUTE + number("s", 0) * SECOND
    if "S" in names:
        rest = rest + np.asarray(
            pc.cast(pc.utf8_slice_codeunits(pc.utf8_rpad(found.field("S"), 3, "0"), 0, 3), pa.int64())
        )
    return days * DAY + rest, good, _offsets(found, names)


def _offsets(found: pa.StructArray, names: set[str]) -> np.ndarray:
    if "Z" not in names:
        return np.full(len(found), np.nan)
    text = found.field("Z")
    sign = np.where(np.asarray(pc.starts_with(text, "-").to_numpy(zero_copy_only=False)), -1.0, 1.0)
    digits = pc.utf8_rpad(pc.replace_substring_regex(text, "[^0-9]", ""), 4, "0")
    value = np.asarray(pc.cast(digits, pa.int64()))
    offsets: np.ndarray = sign * ((value // 100) * HOUR + (value % 100) * MINUTE)
    return offsets
