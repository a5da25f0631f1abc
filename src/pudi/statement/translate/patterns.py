"""LIKE and regular expressions: Java's patterns as DuckDB's (RE2's), where both match the same."""

from __future__ import annotations

import re

from pudi.errors import InvalidArgumentError
from pudi.statement.translate.kinds import BOOLEAN, TEXT
from pudi.statement.translate.values import Value, fails, refused, text

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_CLASSES = {
    "d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\x{0B}\f\r", "t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f",
}  # fmt: skip
_NEGATED = {"D": "d", "W": "w", "S": "s"}
_ADVICE = "write it with characters, classes, groups, | and quantifiers, or run the statement on Spark"


def like(value: Value, pattern: Value, escape: str = "\\") -> Value:
    """Translate LIKE: a backslash escapes, and escapes nothing but `_`, `%` and itself.

    Raises:
        InvalidArgumentError: the pattern escapes something else, as Spark says too.
    """
    quoted = text(escape)
    matched = f"({value.sql} LIKE {pattern.sql} ESCAPE {quoted})"
    if isinstance(pattern.literal, str):
        _check(pattern.literal, escape)
    else:
        sign = re.escape(escape)
        fine = f"regexp_full_match({pattern.sql}, {text(f'(?s)([^{sign}]|{sign}[_%{sign}])*')})"
        wrong = fails("a LIKE pattern that escapes another character than _ or %, which is an error in Spark")
        matched = f"CASE WHEN NOT {fine} AND {value.sql} IS NOT NULL THEN {wrong} ELSE {matched} END"
    return Value(matched, BOOLEAN)


def _check(pattern: str, escape: str) -> None:
    rest = iter(pattern)
    for character in rest:
        if character == escape and next(rest, "") not in {"_", "%", escape}:
            raise InvalidArgumentError(
                f"SQL: in the LIKE pattern {pattern!r}, {escape} stands before another character than _, % or {escape}"
            )


def java_regex(pattern: Value, what: str, group: int = 0) -> str:
    """Return DuckDB's form of a constant regular expression of Java's.

    Args:
        pattern: the pattern.
        what: the function, for messages.
        group: the number of a group that it must have.

    Raises:
        NotSupportedError: the pattern isn't constant, or has a part that RE2 lacks or reads differently.
    """
    if not isinstance(pattern.literal, str):
        raise refused(f"{what} with a pattern that is no constant", "write the pattern as a text in quotes")
    found = _Regex(pattern.literal, what)
    translated = found.translated()
    if found.groups < group:
        raise InvalidArgumentError(f"SQL: the pattern {pattern.literal!r} of {what} has no group {group}")
    return translated


def matches_nothing(pattern: Value) -> bool:
    """Return whether a constant pattern matches an empty text, where engines replace and split differently."""
    try:
        return re.search(str(pattern.literal), "") is not None
    except re.error:
        return True


class _Regex:
    """Reads a pattern from left to right.

    Args:
        pattern: the pattern.
        what: the function, for messages.
    """

    def __init__(self, pattern: str, what: str) -> None:
        self._pattern, self._what, self._at, self._groups = pattern, what, 0, 0

    @property
    def groups(self) -> int:
        """The number of groups, once the pattern has been translated."""
        return self._groups

    def translated(self) -> str:
        """Return the pattern for RE2."""
        found = []
        while self._at < len(self._pattern):
            found.append(self._piece())
        return "".join(found)

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1 : self._at]

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _refused(self, piece: str) -> Exception:
        return refused(f"{piece} in the pattern {self._pattern!r} of {self._what}", _ADVICE)

    def _piece(self) -> str:
        character = self._next()
        if character == "\\":
            return self._escaped(inside=False)
        if character == "[":
            return self._class()
        if character == ".":
            return f"[^{_LINE_ENDS}]"
        if character == "$":
            if self._at < len(self._pattern) and self._peek() not in {")", "|"}:
                raise self._refused("$ before the end")
            return r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
        if character == "(" and self._peek() == "?":
            if self._pattern[self._at : self._at + 2] != "?:":
                raise self._refused(f"({self._pattern[self._at : self._at + 2]}")
            return character
        self._groups += character == "("
        if character in "*+?}" and self._peek() == "+":
            raise self._refused(f"{character}+")
        if character == "{" and not re.match(r"\d{1,3}(,\d{0,3})?\}", self._pattern[self._at :]):
            raise self._refused("{")
        return character

    def _escaped(self, *, inside: bool) -> str:
        character = self._next()
        if character in _NEGATED and not inside:
            return f"[^{_CLASSES[_NEGATED[character]]}]"
        if character in _CLASSES:
            return _CLASSES[character] if inside else f"[{_CLASSES[character]}]"
        if not character or character.isalnum():
            raise self._refused(f"\\{character}")
        return "\\" + character if character.isascii() else character

    def _class(self) -> str:
        found = ["["]
        if self._peek() == "^":
            found.append(self._next())
        if self._peek() == "]":
            raise self._refused("[]")
        while True:
            character = self._next()
            if character == "":
                raise self._refused("[ without ]")
            if character == "]":
                return "".join((*found, "]"))
            if character == "[" or (character == "&" and self._peek() == "&"):
                raise self._refused(f"{character} in [ ]")
            found.append(self._escaped(inside=True) if character == "\\" else character)


def rlike(value: Value, pattern: Value) -> Value:
    """Translate RLIKE."""
    return Value(f"regexp_matches({value.sql}, {text(java_regex(pattern, 'RLIKE'))})", BOOLEAN)


def regexp_extract(value: Value, pattern: Value, group: Value) -> Value:
    """Translate regexp_extract: an empty text where nothing matches."""
    if not isinstance(group.literal, int) or group.literal < 0:
        raise refused("regexp_extract of a group that is no constant")
    translated = java_regex(pattern, "regexp_extract", group.literal)
    if "\\z" in translated:
        raise refused("$ in the pattern of regexp_extract", _ADVICE)
    return Value(f"regexp_extract({value.sql}, {text(translated)}, {group.literal})", TEXT)


def regexp_replace(value: Value, pattern: Value, new: Value) -> Value:
    """Translate regexp_replace of all matches; `$1` is a group."""
    translated = java_regex(pattern, "regexp_replace")
    if "\\z" in translated or matches_nothing(pattern):
        raise refused("regexp_replace with $, or with a pattern that matches an empty text", _ADVICE)
    if not isinstance(new.literal, str) or re.search(r"\\|\$(?!\d(?!\d))", new.literal):
        raise refused("regexp_replace by a text that is no constant, or has \\ or a $ that is no group of one digit")
    by = re.sub(r"\$(\d)", r"\\\1", new.literal)
    return Value(f"regexp_replace({value.sql}, {text(translated)}, {text(by)}, 'g')", TEXT)


def split(value: Value, pattern: Value) -> str:
    """Return the parts of a text between matches of a pattern."""
    translated = java_regex(pattern, "split")
    if "\\z" in translated or matches_nothing(pattern):
        raise refused("split by $, or by a pattern that matches an empty text", _ADVICE)
    return f"string_split_regex({value.sql}, {text(translated)})"
