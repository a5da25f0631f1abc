"""Functions of texts, LIKE, and regular expressions: Java's patterns as DuckDB's (RE2's), where both match the same."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError
from pudi.statement.translate.casts import cast
from pudi.statement.translate.signatures import (
    Function,
    Rule,
    argument,
    constant_int,
    constant_text,
    from_zero,
    function,
    given,
)
from pudi.statement.translate.typed_values import (
    BINARY,
    BOOLEAN,
    INT,
    TEXT,
    Value,
    fails,
    misfit,
    refused,
    text,
    widest,
)

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


def _java_regex(pattern: Value, what: str, group: int = 0) -> str:
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


def _matches_nothing(pattern: Value) -> bool:
    """Return whether a constant pattern matches an empty text, where engines replace and split differently."""
    try:
        return re.search(str(pattern.literal), "") is not None
    except re.error:
        return True


class _Regex:
    """Reads a pattern from left to right, and counts its groups.

    Args:
        pattern: the pattern.
        what: the function, for messages.
    """

    def __init__(self, pattern: str, what: str) -> None:
        self._pattern, self._what, self._at, self.groups = pattern, what, 0, 0

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
        self.groups += character == "("
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


def rlike(name: str, args: Sequence[Value]) -> Value:
    """Translate RLIKE."""
    value, translated = argument(name, args[0], "text"), _java_regex(args[1], "RLIKE")
    return Value(f"regexp_matches({value.sql}, {text(translated)})", BOOLEAN)


def _extracted(name: str, args: Sequence[Value]) -> Value:
    """Translate regexp_extract: an empty text where nothing matches."""
    value, group = argument(name, args[0], "text"), args[2].literal if len(args) > 2 else 1
    if not isinstance(group, int) or group < 0:
        raise refused("regexp_extract of a group that is no constant")
    translated = _java_regex(args[1], "regexp_extract", group)
    if "\\z" in translated:
        raise refused("$ in the pattern of regexp_extract", _ADVICE)
    return Value(f"regexp_extract({value.sql}, {text(translated)}, {group})", TEXT)


def _substituted(name: str, args: Sequence[Value]) -> Value:
    """Translate regexp_replace of all matches; `$1` is a group."""
    value, pattern, new = argument(name, args[0], "text"), args[1], args[2]
    translated = _java_regex(pattern, "regexp_replace")
    if "\\z" in translated or _matches_nothing(pattern):
        raise refused("regexp_replace with $, or with a pattern that matches an empty text", _ADVICE)
    if not isinstance(new.literal, str) or re.search(r"\\|\$(?!\d(?!\d))", new.literal):
        raise refused("regexp_replace by a text that is no constant, or has \\ or a $ that is no group of one digit")
    by = re.sub(r"\$(\d)", r"\\\1", new.literal)
    return Value(f"regexp_replace({value.sql}, {text(translated)}, {text(by)}, 'g')", TEXT)


_LONGER = (
    "\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96\u1e97\u1e98\u1e99\u1e9a\u1f50\u1f52\u1f54\u1f56"
    "\u1fb6\u1fc6\u1fd2\u1fd3\u1fd6\u1fd7\u1fe2\u1fe3\u1fe4\u1fe6\u1fe7\u1ff6"
    "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06\ufb13\ufb14\ufb15\ufb16\ufb17"
)
"""Letters whose upper case is several letters, which DuckDB doesn't know (Unicode's SpecialCasing)."""
_IOTA = "\u1f80-\u1faf\u1fb2-\u1fb4\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc7\u1fcc\u1ff2-\u1ff4\u1ff7\u1ffc"
"""Greek letters with an iota below, whose upper case is another letter and an iota."""


def _upper(name: str, args: Sequence[Value]) -> Value:
    sql = argument(name, args[0], "text").sql
    made = sql
    for letter in _LONGER:
        made = f"replace({made}, {text(letter)}, {text(letter.upper())})"
    greek = fails("upper() of Greek letters with an iota subscript")
    longer = f"CASE WHEN regexp_matches({sql}, '[{_IOTA}]') THEN {greek} ELSE upper({made}) END"
    return Value(f"CASE WHEN regexp_matches({sql}, '[{_LONGER}{_IOTA}]') THEN {longer} ELSE upper({sql}) END", TEXT)


def _lower(name: str, args: Sequence[Value]) -> Value:
    sql = argument(name, args[0], "text").sql
    dotted = f"lower(replace({sql}, '\u0130', 'i\u0307'))"
    sigma = fails("lower() of a Greek capital sigma, which depends on its place in the word")
    return Value(f"CASE WHEN contains({sql}, '\u03a3') THEN {sigma} ELSE {dotted} END", TEXT)


def _initials(name: str, args: Sequence[Value]) -> Value:
    """INITCAP: a word begins behind a blank alone."""
    given = argument(name, args[0], "text")
    made = f"(' ' || {_lower(name, [given]).sql})"
    for letter in string.ascii_lowercase:
        made = f"replace({made}, ' {letter}', ' {letter.upper()}')"
    wrong = fails("initcap() of words that begin with a letter beyond ASCII")
    begins = f"regexp_matches({given.sql}, '(^| )[^\\x00-\\x7F]')"
    return Value(f"CASE WHEN {begins} THEN {wrong} ELSE substring({made}, 2) END", TEXT)


def _length(name: str, args: Sequence[Value]) -> Value:
    if args[0].kind == BINARY:
        return Value(f"CAST(octet_length({args[0].sql}) AS INTEGER)", INT)
    return Value(f"CAST(length({argument(name, args[0], 'text').sql}) AS INTEGER)", INT)


def _bytes(times: int) -> Rule:
    def rule(name: str, args: Sequence[Value]) -> Value:
        sql = args[0].sql if args[0].kind == BINARY else f"encode({argument(name, args[0], 'text').sql})"
        return Value(f"CAST(octet_length({sql}) * {times} AS INTEGER)", INT)

    return rule


def substring(name: str, args: Sequence[Value]) -> Value:
    """Translate substring: from 1, from the end if negative; what lies before the text counts for the length."""
    sql, start = argument(name, args[0], "text").sql, argument(name, args[1], "int").sql
    from_end = f"WHEN {start} < 0 THEN length({sql}) + {start}"
    begin = f"(CASE WHEN {start} > 0 THEN {start} - 1 {from_end} WHEN {start} = 0 THEN 0 END)"
    if isinstance(args[1].literal, int):
        number = args[1].literal
        begin = str(number - 1) if number > 0 else "0" if number == 0 else f"(length({sql}) - {-number})"
    first = from_zero(begin)
    if len(args) == 2:
        return Value(f"substring({sql}, {first} + 1)", TEXT)
    length = f"CAST({argument(name, args[2], 'int').sql} AS BIGINT)"
    return Value(f"substring({sql}, {first} + 1, {from_zero(f'({begin} + {length} - {first})')})", TEXT)


def _concat(name: str, args: Sequence[Value]) -> Value:
    if args and all(each.kind == BINARY for each in args):
        return Value(f"({' || '.join(each.sql for each in args)})", BINARY)
    if any(pt.is_list(each.kind) for each in args):
        kind = widest(each.kind for each in args)
        if kind is None or not pt.is_list(kind):
            raise misfit(name, *(each.kind for each in args))
        parts = [cast(each, kind).sql for each in args]
        joined = parts[0]
        for part in parts[1:]:
            joined = f"list_concat({joined}, {part})"
        nulls = " OR ".join(f"{part} IS NULL" for part in parts)
        return Value(f"CASE WHEN {nulls} THEN NULL ELSE {joined} END", kind)
    parts = [argument(name, each, "text").sql for each in args]
    return Value(f"({' || '.join(parts or [text('')])})", TEXT)


def _concat_ws(name: str, args: Sequence[Value]) -> Value:
    parts = [argument(name, each, "text").sql for each in args]
    return Value(f"concat_ws({', '.join((*parts, 'NULL'))})", TEXT)


def _trim(called: str) -> Function:
    """The function of a text, or of the characters that it loses and a text."""
    return function(given("text", TEXT, called + "({0}, ' ')"), given("text text", TEXT, called + "({1}, {0})"))


def trim(value: Value, characters: Value | None, side: str) -> Value:
    """Translate `TRIM(BOTH 'ab' FROM text)`."""
    called = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side.upper(), "trim")
    return TEXTS[called]("trim", [value] if characters is None else [characters, value])


def _padded(name: str, args: Sequence[Value]) -> Value:
    sql, size = argument(name, args[0], "text").sql, argument(name, args[1], "int").sql
    pad = argument(name, args[2], "text").sql if len(args) > 2 else "' '"
    return Value(
        f"CASE WHEN {size} <= 0 AND {pad} IS NOT NULL AND {sql} IS NOT NULL THEN '' "
        f"WHEN {pad} = '' THEN left({sql}, {size}) ELSE {name}({sql}, {size}, {pad}) END",
        TEXT,
    )


def _side(called: str) -> Function:
    return function(given("text int", TEXT, f"{called}({{0}}, {from_zero('{1}')})"))


_FOUND = "strpos(substring({1}, {2}), {0})"
_LOCATED_FROM = (
    "CAST(CASE WHEN {2} IS NULL THEN 0 WHEN {1} IS NULL OR {0} IS NULL THEN NULL WHEN {2} < 1 THEN 0 "
    f"WHEN {{0}} = '' THEN 1 WHEN {_FOUND} = 0 THEN 0 ELSE {_FOUND} + {{2}} - 1 END AS INTEGER)"
)


def _reversed(name: str, args: Sequence[Value]) -> Value:
    if pt.is_list(args[0].kind):
        return Value(f"list_reverse({args[0].sql})", args[0].kind)
    sql = argument(name, args[0], "text").sql
    plain = f"strlen({sql}) = length({sql})"
    wrong = fails("reverse() of letters beyond ASCII")
    return Value(f"CASE WHEN {plain} THEN reverse({sql}) WHEN {sql} IS NOT NULL THEN {wrong} END", TEXT)


def _split(name: str, args: Sequence[Value]) -> Value:
    if len(args) > 2 and constant_int(name, args[2]) > 0:
        raise refused("split with a limit")
    value, translated = argument(name, args[0], "text"), _java_regex(args[1], "split")
    if "\\z" in translated or _matches_nothing(args[1]):
        raise refused("split by $, or by a pattern that matches an empty text", _ADVICE)
    return Value(f"string_split_regex({value.sql}, {text(translated)})", pa.list_(TEXT))


def _split_part(name: str, args: Sequence[Value]) -> Value:
    sql, by = argument(name, args[0], "text").sql, constant_text(name, args[1])
    number = constant_int(name, args[2])
    if not by or not number:
        raise refused("split_part by an empty text, or of part 0")
    return Value(f"split_part({sql}, {text(by)}, {number})", TEXT)


def _substring_index(name: str, args: Sequence[Value]) -> Value:
    sql, by = argument(name, args[0], "text").sql, constant_text(name, args[1])
    number = constant_int(name, args[2])
    if not by or not number:
        return Value(f"CASE WHEN {sql} IS NOT NULL THEN '' END", TEXT)
    kept = f"[1:{number}]" if number > 0 else f"[{number}:]"
    return Value(f"array_to_string(string_split({sql}, {text(by)}){kept}, {text(by)})", TEXT)


def _sha2(name: str, args: Sequence[Value]) -> Value:
    if constant_int(name, args[1]) not in {0, 256}:
        raise refused("sha2 of other than 256 bits")
    return Value(f"sha256({_hashed(name, args[0])})", TEXT)


def _hashed(name: str, value: Value) -> str:
    return value.sql if value.kind == BINARY else argument(name, value, "text").sql


def _hash(called: str) -> Function:
    return function(of_1=lambda name, args: Value(f"{called}({_hashed(name, args[0])})", TEXT))


def _predicate(called: str) -> Function:
    return function(given("text text", BOOLEAN, called + "({0}, {1})"))


_LENGTH = function(of_1=_length)
_SUBSTRING = function(of_2=substring, of_3=substring)
_LOCATE = function(
    given("text text", INT, "CAST(strpos({1}, {0}) AS INTEGER)"), given("text text int", INT, _LOCATED_FROM)
)
_MATCHES = function(of_2=rlike)
_CHARACTER = function(given("long", TEXT, "CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END"))

TEXTS: Mapping[str, Function] = {
    "upper": function(of_1=_upper),
    "ucase": function(of_1=_upper),
    "lower": function(of_1=_lower),
    "lcase": function(of_1=_lower),
    "initcap": function(of_1=_initials),
    "length": _LENGTH,
    "len": _LENGTH,
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "octet_length": function(of_1=_bytes(1)),
    "bit_length": function(of_1=_bytes(8)),
    "substring": _SUBSTRING,
    "substr": _SUBSTRING,
    "left": _side("left"),
    "right": _side("right"),
    "concat": function(of_any=_concat),
    "concat_ws": function(of_any=_concat_ws),
    "trim": _trim("trim"),
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "btrim": function(given("text", TEXT, "trim({0}, ' ')"), given("text text", TEXT, "trim({0}, {1})")),
    "lpad": function(of_2=_padded, of_3=_padded),
    "rpad": function(of_2=_padded, of_3=_padded),
    "instr": function(given("text text", INT, "CAST(strpos({0}, {1}) AS INTEGER)")),
    "locate": _LOCATE,
    "position": _LOCATE,
    "replace": function(
        given("text text", TEXT, "replace({0}, {1}, '')"), given("text text text", TEXT, "replace({0}, {1}, {2})")
    ),
    "reverse": function(of_1=_reversed),
    "repeat": function(given("text int", TEXT, "repeat({0}, {1})")),
    "space": function(given("int", TEXT, "repeat(' ', {0})")),
    "split": function(of_2=_split, of_3=_split),
    "split_part": function(of_3=_split_part),
    "substring_index": function(of_3=_substring_index),
    "translate": function(given("text text text", TEXT, "translate({0}, {1}, {2})")),
    "ascii": function(given("text", INT, "CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END")),
    "chr": _CHARACTER,
    "char": _CHARACTER,
    "md5": _hash("md5"),
    "sha": _hash("sha1"),
    "sha1": _hash("sha1"),
    "sha2": function(of_2=_sha2),
    "startswith": _predicate("starts_with"),
    "endswith": _predicate("ends_with"),
    "contains": _predicate("contains"),
    "regexp": _MATCHES,
    "regexp_like": _MATCHES,
    "rlike": _MATCHES,
    "regexp_extract": function(of_2=_extracted, of_3=_extracted),
    "regexp_replace": function(of_3=_substituted),
}
"""Functions of texts by name."""
