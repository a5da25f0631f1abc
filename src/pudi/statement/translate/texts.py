"""Functions of texts."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from pudi.statement.translate import patterns
from pudi.statement.translate.casts import cast
from pudi.statement.translate.kinds import BINARY, BOOLEAN, INT, TEXT, widest
from pudi.statement.translate.signatures import (
    Function,
    Rule,
    argument,
    at_least,
    constant_int,
    constant_text,
    function,
    given,
)
from pudi.statement.translate.values import Value, fails, misfit, refused, text

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
    first = at_least(begin, "0")
    if len(args) == 2:
        return Value(f"substring({sql}, {first} + 1)", TEXT)
    length = f"CAST({argument(name, args[2], 'int').sql} AS BIGINT)"
    return Value(f"substring({sql}, {first} + 1, {at_least(f'({begin} + {length} - {first})', '0')})", TEXT)


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
    def rule(name: str, args: Sequence[Value]) -> Value:
        sql = argument(name, args[0], "text").sql
        characters = argument(name, args[1], "text").sql if len(args) > 1 else "' '"
        return Value(f"{called}({sql}, {characters})", TEXT)

    def turned(name: str, args: Sequence[Value]) -> Value:
        return rule(name, args[::-1])

    return function(of_1=rule, of_2=turned)


def trim(value: Value, characters: Value | None, side: str) -> Value:
    """Translate `TRIM(BOTH 'ab' FROM text)`."""
    called = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side.upper(), "trim")
    args = [value] if characters is None else [value, characters]
    sql = [argument("trim", each, "text").sql for each in args]
    return Value(f"{called}({sql[0]}, {sql[1] if len(sql) > 1 else text(' ')})", TEXT)


def _between(name: str, args: Sequence[Value]) -> Value:
    """BTRIM."""
    return trim(args[0], args[1] if len(args) > 1 else None, "BOTH")


def _padded(name: str, args: Sequence[Value]) -> Value:
    sql, size = argument(name, args[0], "text").sql, argument(name, args[1], "int").sql
    pad = argument(name, args[2], "text").sql if len(args) > 2 else "' '"
    return Value(
        f"CASE WHEN {size} <= 0 AND {pad} IS NOT NULL AND {sql} IS NOT NULL THEN '' "
        f"WHEN {pad} = '' THEN left({sql}, {size}) ELSE {name}({sql}, {size}, {pad}) END",
        TEXT,
    )


def _side(name: str, args: Sequence[Value]) -> Value:
    sql, size = argument(name, args[0], "text").sql, argument(name, args[1], "int").sql
    return Value(f"{name}({sql}, {at_least(size, '0')})", TEXT)


def _located(name: str, args: Sequence[Value]) -> Value:
    part, sql = (argument(name, each, "text").sql for each in args[:2])
    if len(args) == 2:
        return Value(f"CAST(strpos({sql}, {part}) AS INTEGER)", INT)
    start = argument(name, args[2], "int").sql
    found = f"strpos(substring({sql}, {start}), {part})"
    return Value(
        f"CAST(CASE WHEN {start} IS NULL THEN 0 WHEN {sql} IS NULL OR {part} IS NULL THEN NULL WHEN {start} < 1 THEN 0 "
        f"WHEN {part} = '' THEN 1 WHEN {found} = 0 THEN 0 ELSE {found} + {start} - 1 END AS INTEGER)",
        INT,
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
    return Value(patterns.split(argument(name, args[0], "text"), args[1]), pa.list_(TEXT))


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


def _pattern(rule: str) -> Rule:
    def made(name: str, args: Sequence[Value]) -> Value:
        value = argument(name, args[0], "text")
        if rule == "extract":
            group = args[2] if len(args) > 2 else Value("1", INT, 1)
            return patterns.regexp_extract(value, args[1], group)
        if rule == "replace":
            return patterns.regexp_replace(value, args[1], args[2])
        return patterns.rlike(value, args[1])

    return made


def _predicate(called: str) -> Function:
    return function(given("text text", BOOLEAN, called + "({0}, {1})"))


_LENGTH = function(of_1=_length)
_SUBSTRING = function(of_2=substring, of_3=substring)
_LOCATE = function(of_2=_located, of_3=_located)
_MATCHES = function(of_2=_pattern("matches"))
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
    "left": function(of_2=_side),
    "right": function(of_2=_side),
    "concat": function(of_any=_concat),
    "concat_ws": function(of_any=_concat_ws),
    "trim": _trim("trim"),
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "btrim": function(of_1=_between, of_2=_between),
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
    "regexp_extract": function(of_2=_pattern("extract"), of_3=_pattern("extract")),
    "regexp_replace": function(of_3=_pattern("replace")),
}
"""Functions of texts by name."""
