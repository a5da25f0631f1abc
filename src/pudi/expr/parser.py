"""Parse the text of a `where`: sqlglot reads Spark's SQL, and only the syntax named here is accepted.

Importing this module loads sqlglot; `pudi.expr.binder` imports it when it parses the first text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa
import sqlglot.errors
from sqlglot import Token, TokenType, exp
from sqlglot.dialects import Spark

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr.literals import number_literal
from pudi.expr.sqltypes import NAMED_TYPES
from pudi.expr.table import ARITHMETIC, COMPARISONS, FUNCTIONS
from pudi.expr.tree import And, Arith, Call, Case, Cast, Column, Compare, Expr, In, IsNull, Like, Literal, Neg, Not, Or

_MAX_DEPTH = 48
_ESCAPES = frozenset("\\'\"nrt%_")
_LENGTH_TYPES = frozenset({"CHAR", "VARCHAR", "CHARACTER", "NCHAR", "NVARCHAR"})

_COMPARISONS: dict[type[exp.Expression], str] = {getattr(exp, rule.node): op for op, rule in COMPARISONS.items()}
_ARITHMETIC: dict[type[exp.Expression], str] = {getattr(exp, rule.node): op for op, rule in ARITHMETIC.items()}
# An operand of these kinds needs parentheses: SQL dialects group chains of them differently.
_PREDICATES = (*_COMPARISONS, exp.Is, exp.In, exp.Between, exp.Like, exp.Escape)
_TYPES: dict[str, pa.DataType] = NAMED_TYPES | {
    "TEXT": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}
_FUNCTIONS = {given.upper(): name for name, rule in FUNCTIONS.items() for given in (name, *rule.aliases)}


class _Parser(Spark.Parser):  # type: ignore[misc]  # sqlglot doesn't tell its type
    """Keeps functions as they are written: sqlglot would convert formats to Python's."""

    FUNCTIONS = {name: make for name, make in Spark.Parser.FUNCTIONS.items() if name not in _FUNCTIONS}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: read for name, read in Spark.Parser.FUNCTION_PARSERS.items() if name not in _FUNCTIONS
    }


def read_sql(sql: str) -> Expr:
    """Parse a text into a tree; errors as of `pudi.expr.parse`."""
    try:
        text = _join_quotes(sql, _tokens(sql))
        tokens = _tokens(text)
        _check_tokens(text, tokens)
        found = _Parser(dialect=Spark()).parse_into(exp.Condition, tokens, text)
        if len(found) != 1 or found[0] is None:
            raise InvalidArgumentError(f"where must be one SQL expression: {_clip(sql)}")
        return _convert(found[0], 0)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgumentError(f"where is not a SQL expression: {_reason(error, sql)}") from error
    except RecursionError as error:
        raise InvalidArgumentError("where is nested too deeply") from error


def _tokens(sql: str) -> list[Token]:
    return list(Spark().tokenize(sql))


def _reason(error: sqlglot.errors.SqlglotError, sql: str) -> str:
    details = error.errors[0] if isinstance(error, sqlglot.errors.ParseError) and error.errors else {}
    mark = details.get("highlight")
    if not mark:
        return f"{_clip(sql)} ({_clip(str(error))})"
    hint = "; a column named like a keyword goes in `back-quotes`"
    what = str(details.get("description"))
    what = "a value is missing" if what.startswith("Required keyword") else what  # which names sqlglot's classes
    return f"{_clip(sql)}, at column {details.get('col')} near {mark!r}: {what}{hint}"


def _clip(sql: str) -> str:
    return repr(sql) if len(sql) <= 200 else f"{sql[:200]!r}…"


def _shown(node: exp.Expression) -> str:
    sql = node.sql("spark")
    return sql if len(sql) <= 200 else sql[:200] + "…"


def _join_quotes(sql: str, tokens: Sequence[Token]) -> str:
    # 'it''s' arrives as two adjacent texts. Spark 3.5 would join them to "its", Spark 4 reads "it's".
    pieces: list[str] = []
    start = 0
    for before, after in itertools.pairwise(tokens):
        if before.token_type == after.token_type == TokenType.STRING:
            quote = sql[after.start]
            if before.end + 1 != after.start or sql[before.end] != quote:
                raise NotSupportedError(f"adjacent texts in where ({before.text!r} {after.text!r}): write one text")
            pieces.append(sql[start : before.end] + "\\" + quote)
            start = after.start + 1
    return "".join(pieces) + sql[start:]


def _check_tokens(sql: str, tokens: Sequence[Token]) -> None:
    depth = run = 0
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        raw = sql[token.start : token.end + 1]
        if before == TokenType.BETWEEN and raw.upper() in ("SYMMETRIC", "ASYMMETRIC"):
            raise NotSupportedError(f"BETWEEN with {raw.upper()} in where")
        before = kind
        if kind == TokenType.L_PAREN:
            depth += 1
        elif kind == TokenType.R_PAREN:
            depth -= 1
        run = run + 1 if kind in (TokenType.NOT, TokenType.DASH, TokenType.PLUS) else 0
        if depth > _MAX_DEPTH or run > _MAX_DEPTH:
            raise InvalidArgumentError(f"where is nested more than {_MAX_DEPTH} levels deep")
        if kind == TokenType.STRING:
            _check_escapes(raw)
        elif kind == TokenType.HEX_STRING and not raw.upper().startswith("X'"):
            raise NotSupportedError(f"hexadecimal number {raw} in where")
        elif kind == TokenType.NOT and raw == "!":
            raise NotSupportedError("the operator ! in where: write NOT")
        elif raw.upper() in _LENGTH_TYPES and sql[token.end + 1 :].lstrip().startswith("("):
            raise NotSupportedError(f"the type {raw.upper()}(n) in where: use STRING")


def _check_escapes(raw: str) -> None:
    position = raw.find("\\")
    while position >= 0:
        if raw[position + 1] not in _ESCAPES:
            raise NotSupportedError(f"the escape \\{raw[position + 1]} in the text {raw} in where")
        position = raw.find("\\", position + 2)


def _convert(node: exp.Expression, depth: int) -> Expr:
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError(f"where is nested more than {_MAX_DEPTH} levels deep")
    kind = type(node)
    if kind in _COMPARISONS:
        _only(node, "this", "expression")
        left, right = _operand(node.this, depth), _operand(node.expression, depth)
        return Compare(_COMPARISONS[kind], left, right)
    if kind in _ARITHMETIC:
        _only(node, "this", "expression", "typed", "safe")
        return Arith(_ARITHMETIC[kind], _convert(node.this, depth + 1), _convert(node.expression, depth + 1))
    if kind in (exp.And, exp.Or):
        args = tuple(_convert(part, depth + 1) for part in _flatten(node))
        return And(args) if kind is exp.And else Or(args)
    convert = _CONVERTERS.get(kind)
    if convert is None:
        raise NotSupportedError(
            f"{_name(node)} in where: {_shown(node)}; pudi.sql and pudi.spark.sql compute more expressions"
        )
    return convert(node, depth)


def _name(node: exp.Expression) -> str:
    if type(node) is exp.Anonymous:
        return f"the function {node.name.upper()}"
    if exp.Func in type(node).__mro__ and type(node) not in (exp.Case, exp.If):
        return f"the function {node.key.upper()}"
    return f"the SQL construct {node.key.upper()}"


def _only(node: exp.Expression, *names: str) -> None:
    # sqlglot keeps modifiers as arguments: ignoring one would drop it silently.
    extra = [name for name, value in node.args.items() if value and name not in names and not name.startswith("_")]
    if extra:
        raise NotSupportedError(f"{node.key.upper()} with {', '.join(extra).upper()} in where: {_shown(node)}")


def _flatten(node: exp.Expression) -> list[exp.Expression]:
    # Long chains are nested to the left; this loop keeps the depth of the tree equal to that of the parentheses.
    parts: list[exp.Expression] = []
    current: exp.Expression = node
    while type(current) is type(node):
        _only(current, "this", "expression")
        parts.append(current.expression)
        current = current.this
    return [current, *reversed(parts)]


def _operand(node: exp.Expression, depth: int) -> Expr:
    if isinstance(node, _PREDICATES):
        raise NotSupportedError(f"a comparison of a comparison without parentheses in where: {_shown(node)}")
    return _convert(node, depth + 1)


def _column(node: exp.Expression, _: int) -> Expr:
    return Column(_path(node))


def _path(node: exp.Expression) -> tuple[str, ...]:
    if isinstance(node, exp.Identifier):
        return (str(node.this),)
    if isinstance(node, exp.Dot):
        return (*_path(node.this), *_path(node.expression))
    if isinstance(node, exp.Column):
        _only(node, "this", "table", "db", "catalog")
        parts = [part for part in (node.args.get(key) for key in ("catalog", "db", "table", "this")) if part]
        return tuple(name for part in parts for name in _path(part))
    raise NotSupportedError(f"{_name(node)} in where")


def _paren(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this")
    return _convert(node.this, depth + 1)


def _not(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this")
    return Not(_convert(node.this, depth + 1))


def _negated(node: exp.Expression, result: Expr) -> Expr:
    # Newer releases of sqlglot mark NOT LIKE by an argument, older ones by a Not around it.
    return Not(result) if node.args.get("negate") else result


def _neg(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this")
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number_literal("-" + str(node.this.this))
    return Neg(_convert(node.this, depth + 1))


def _literal(node: exp.Expression, _: int) -> Expr:
    if node.args.get("is_string") or isinstance(node, exp.RawString):
        return Literal(str(node.this), pa.string())
    return number_literal(str(node.this))


def _is(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "expression", "negate")
    if not isinstance(node.expression, exp.Null):
        raise NotSupportedError(f"IS {_shown(node.expression)} in where: only IS NULL and IS NOT NULL")
    return _negated(node, IsNull(_operand(node.this, depth)))


def _in(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "expressions", "negate")
    values = node.args.get("expressions") or []
    if not values:
        raise InvalidArgumentError(f"IN needs at least one value in where: {_shown(node)}")
    arg = _operand(node.this, depth)
    return _negated(node, In(arg, tuple(_convert(value, depth + 1) for value in values)))


def _between(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "low", "high", "negate")
    arg = _operand(node.this, depth)
    low, high = (_operand(node.args[name], depth) for name in ("low", "high"))
    return _negated(node, And((Compare(">=", arg, low), Compare("<=", arg, high))))


def _like(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "expression", "negate")
    escape = "\\"
    like = node
    if isinstance(node, exp.Escape):
        like = node.this
        if not isinstance(like, exp.Like):
            raise NotSupportedError(f"{_name(like)} in where: {_shown(node)}")
        _only(like, "this", "expression", "negate")
        escape = _text(node.expression, "ESCAPE")
    result = Like(_operand(like.this, depth), _text(like.expression, "LIKE"), escape)
    return _negated(like, _negated(node, result) if like is not node else result)


def _text(node: exp.Expression, what: str) -> str:
    if isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this)
    raise NotSupportedError(f"{what} with anything but a text in quotes in where: {_shown(node)}")


def _cast(node: exp.Expression, depth: int) -> Expr:
    if node.args.get("safe"):
        raise NotSupportedError(f"TRY_CAST in where: {_shown(node)}")
    _only(node, "this", "to")
    return Cast(_convert(node.this, depth + 1), _type(node.args["to"]))


def _type(node: exp.Expression) -> pa.DataType:
    name = getattr(node.this, "name", str(node.this))
    params = node.args.get("expressions") or []
    if name == "DECIMAL":
        numbers = [str(param.this.this) for param in params]
        if all(number.isdecimal() for number in numbers) and len(numbers) <= 2:
            precision, scale = (*map(int, numbers), *(10, 0)[len(numbers) :])
            if 1 <= precision <= 38 and scale <= precision:
                return pa.decimal128(precision, scale)
        raise InvalidArgumentError(f"{_shown(node)} is not a decimal type of 1 to 38 digits")
    if params or name not in _TYPES:
        raise NotSupportedError(f"CAST to {_shown(node)} in where")
    return _TYPES[name]


def _bytes(node: exp.Expression, _: int) -> Expr:
    digits = str(node.this)
    try:
        return Literal(bytes.fromhex("0" * (len(digits) % 2) + digits), pa.binary())
    except ValueError as error:
        raise InvalidArgumentError(f"X'{digits}' is not hexadecimal") from error


def _call(node: exp.Expression, depth: int) -> Expr:
    name = _FUNCTIONS.get(str(node.this).upper())
    given = node.args.get("expressions") or []
    if name is None or not given:
        raise NotSupportedError(f"{_name(node)} in where: {_shown(node)}")
    _only(node, "this", "expressions")
    value, *others = (_convert(each, depth + 1) for each in given)
    constants = [each.value for each in others if isinstance(each, Literal) and isinstance(each.value, str | int)]
    if len(constants) < len(others):
        raise NotSupportedError(f"{_name(node)} with anything but constants behind its value in where: {_shown(node)}")
    return Call(name, value, tuple(constants))


def _case(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "ifs", "default")
    conditions, values = [], []
    for branch in node.args["ifs"]:
        compared = exp.EQ(this=node.this, expression=branch.this) if node.this else branch.this
        conditions.append(_convert(compared, depth + 1))
        values.append(_convert(branch.args["true"], depth + 1))
    return Case(tuple(conditions), (*values, _or_null(node.args.get("default"), depth)))


def _if(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "true", "false")
    value = _convert(node.args["true"], depth + 1)
    return Case((_convert(node.this, depth + 1),), (value, _or_null(node.args.get("false"), depth)))


def _or_null(node: exp.Expression | None, depth: int) -> Expr:
    return Literal(None, pa.null()) if node is None else _convert(node, depth + 1)


def _coalesce(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "expressions", "is_nvl", "is_null")
    values = tuple(_convert(each, depth + 1) for each in (node.this, *node.expressions))
    return Case(tuple(Not(IsNull(value)) for value in values[:-1]), values) if len(values) > 1 else values[0]


def _nullif(node: exp.Expression, depth: int) -> Expr:
    _only(node, "this", "expression")
    left = _operand(node.this, depth)
    return Case((Compare("=", left, _operand(node.expression, depth)),), (Literal(None, pa.null()), left))


_CONVERTERS: dict[type[exp.Expression], Callable[[exp.Expression, int], Expr]] = {
    exp.Column: _column,
    exp.Dot: _column,
    exp.Paren: _paren,
    exp.Not: _not,
    exp.Neg: _neg,
    exp.Literal: _literal,
    exp.RawString: _literal,
    exp.HexString: _bytes,
    exp.Boolean: lambda node, _: Literal(bool(node.this), pa.bool_()),
    exp.Null: lambda *_: Literal(None, pa.null()),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Escape: _like,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _call,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
}
