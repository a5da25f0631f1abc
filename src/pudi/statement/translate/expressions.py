"""Expressions of Spark's SQL as expressions of DuckDB's with the same meaning, or refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow.types as pt
from sqlglot import exp

from pudi.expr.sqltypes import decimal, is_float, is_integer
from pudi.statement.translate import nested, numbers, texts, times
from pudi.statement.translate.aggregates import AGGREGATES, WINDOWS, Group
from pudi.statement.translate.casts import cast, try_cast
from pudi.statement.translate.nested import condition, equal
from pudi.statement.translate.scope import Columns, Scope
from pudi.statement.translate.signatures import Function, argument
from pudi.statement.translate.typed_values import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    KIND_BY_NAME,
    LONG,
    NULL,
    TEXT,
    TIME,
    Value,
    duckdb_name,
    fails,
    misfit,
    of_sql,
    quoted,
    refused,
    spark_name,
    text,
    wider,
)

_Node = Any
"""A node of sqlglot's tree, whose type has another name in each release."""
_LONGEST = 400_000
FUNCTIONS: Mapping[str, Function] = {
    **nested.ANY,
    **numbers.NUMBERS,
    **texts.TEXTS,
    **times.TIMES,
    **{name: nested.conversion(kind) for name, kind in KIND_BY_NAME.items() if name not in {"real", "integer"}},
}
"""The functions that mean the same on one machine as on Spark, by name."""


class Subqueries(Protocol):
    """Translates queries inside of expressions."""

    def subquery(self, node: _Node, outer: Scope) -> tuple[str, Columns]:
        """Return a query in DuckDB's SQL, and its columns."""


class Expressions:
    """Translates the expressions of one query.

    Args:
        scope: the columns that they may name.
        queries: translates the queries in them.
    """

    def __init__(self, scope: Scope, queries: Subqueries) -> None:
        self._scope, self._queries = scope, queries

    def value(self, node: _Node) -> Value:
        """Translate an expression.

        Raises:
            InvalidArgumentError: it names no column, or a function gets what Spark doesn't take either.
            NotSupportedError: it has no translation with Spark's meaning.
        """
        found = self._any(node)
        if found.kind == INTERVAL:
            raise refused(node.sql("spark"), "add it to a day or a point in time")
        if len(found.sql) > _LONGEST:
            raise refused("an expression that is nested this deeply", "compute parts of it in a query of its own")
        return found

    def _any(self, node: _Node) -> Value:
        rule = _RULES.get(type(node))
        given = {name for name, value in node.args.items() if value} - _USUAL - _ARGUMENTS.get(type(node), frozenset())
        if rule is None or given:
            raise refused(node.sql("spark"))
        found = rule(self, node)
        return replace(found, sql=f"(NOT {found.sql})") if node.args.get("negate") else found

    def condition(self, node: _Node) -> str:
        """Translate a condition."""
        return condition("a condition", self.value(node))

    def ordered(self, node: _Node, *, by_place: bool = False) -> str:
        """Translate one of the expressions of ORDER BY; nulls are less than any value.

        Args:
            node: the expression with its direction.
            by_place: whether a name of SELECT's columns becomes the column's place.
        """
        falls = bool(node.args.get("desc"))
        nulls = node.args.get("nulls_first")
        first = not falls if nulls is None else bool(nulls)
        value = self.value(node.this)
        if by_place and isinstance(node.this, exp.Column) and not node.this.table:
            place = self._scope.places.get(node.this.name.lower())
            value = value if place is None else replace(value, sql=str(place))
        if pt.is_map(value.kind) or pt.is_struct(value.kind):
            raise refused(f"an order by {spark_name(value.kind)}", "name its fields")
        return f"{value.sql} {'DESC' if falls else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"

    # Constants and columns

    def _literal(self, node: _Node) -> Value:
        found = str(node.this)
        return Value(text(found), TEXT, found) if node.is_string else number(found)

    def _adjacent(self, node: _Node) -> Value:
        """`'it' 's'`: texts side by side are one."""
        found = "".join(str(self.value(each).literal) for each in node.expressions)
        return Value(text(found), TEXT, found)

    def _raw(self, node: _Node) -> Value:
        return Value(text(str(node.this)), TEXT, str(node.this))

    def _bytes(self, node: _Node) -> Value:
        digits = str(node.this)
        return Value(f"unhex({text('0' * (len(digits) % 2) + digits)})", BINARY)

    def _boolean(self, node: _Node) -> Value:
        return Value("TRUE" if node.this else "FALSE", BOOLEAN, bool(node.this))

    def _null(self, node: _Node) -> Value:
        del node
        return Value("NULL", NULL)

    def _column(self, node: _Node) -> Value:
        parts = [node.args[key].name for key in ("catalog", "db", "table", "this") if node.args.get(key) is not None]
        return self._scope.column(parts)

    def _field(self, node: _Node) -> Value:
        if isinstance(node.expression, exp.Anonymous):
            raise refused(node.sql("spark"))
        return nested.field(self.value(node.this), node.expression.name)

    def _item(self, node: _Node) -> Value:
        if len(node.expressions) != 1:
            raise refused(node.sql("spark"))
        return nested.item(self.value(node.this), self.value(node.expressions[0]))

    def _parenthesis(self, node: _Node) -> Value:
        found = self.value(node.this)
        return replace(found, sql=f"({found.sql})")

    def _interval(self, node: _Node) -> Value:
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Literal) or not isinstance(unit, exp.Var):
            raise refused(node.sql("spark"), "write a whole number of one unit, such as INTERVAL 3 DAYS")
        return times.interval(str(node.this.this), unit.name)

    # Operators

    def _sides(self, node: _Node) -> tuple[Value, Value]:
        for side in (node.this, node.expression):
            if isinstance(side, exp.Any | exp.All | exp.Tuple):
                raise refused(node.sql("spark"), "compare single values, or write IN")
        return self.value(node.this), self.value(node.expression)

    def _sum(self, node: _Node) -> Value:
        sign = "+" if isinstance(node, exp.Add) else "-"
        left, right = self._any(node.this), self._any(node.expression)
        if right.kind == INTERVAL:
            return times.plus(left, right, sign)
        if left.kind == INTERVAL and sign == "+":
            return times.plus(right, left, sign)
        if left.kind == DATE and is_integer(right.kind):
            return times.days(left, right, sign)
        if {left.kind, right.kind} & {DATE, TIME, INTERVAL}:
            raise refused(node.sql("spark"), "use datediff, or the difference of unix_seconds")
        return numbers.arithmetic(sign, left, right)

    def _arithmetic(self, node: _Node) -> Value:
        return numbers.arithmetic(_ARITHMETIC[type(node)], *self._sides(node))

    def _bitwise(self, node: _Node) -> Value:
        if _BINDING.get(type(node.this), 3) < _BINDING[type(node)]:  # sqlglot reads them from left to right
            raise refused(node.sql("spark"), _PARENTHESES)
        return numbers.bitwise(_BITWISE[type(node)], *self._sides(node))

    def _inverted(self, node: _Node) -> Value:
        found = self.value(node.this)
        if not is_integer(found.kind):
            raise misfit("~", found.kind)
        return Value(f"(~{found.sql})", found.kind)

    def _negated(self, node: _Node) -> Value:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}")
        return numbers.negated(self.value(node.this))

    def _joined(self, node: _Node) -> Value:
        if type(node.this) in _BINDING or isinstance(node.expression, exp.Add | exp.Sub):
            raise refused(node.sql("spark"), _PARENTHESES)
        return texts.TEXTS["concat"]("||", self._sides(node))

    def _compared(self, node: _Node) -> Value:
        if type(node.expression) in _COMPARISONS:  # Spark compares from left to right
            raise refused(node.sql("spark"), _PARENTHESES)
        return equal(*self._sides(node), _COMPARISONS[type(node)])

    def _connected(self, node: _Node) -> Value:
        word = "AND" if isinstance(node, exp.And) else "OR"
        parts = [condition(word, self.value(each)) for each in node.flatten(unnest=False)]
        return Value(f"({f' {word} '.join(parts)})", BOOLEAN)

    def _not(self, node: _Node) -> Value:
        inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            return Value(f"(NOT {self._in_query(self.value(inner.this), inner.args['query'], unknown=True)})", BOOLEAN)
        if any(each.args.get("query") is not None for each in inner.find_all(exp.In)):
            raise refused("NOT of a condition with IN (query) in it", "write NOT IN, or NOT EXISTS")
        return Value(f"(NOT {condition('NOT', self.value(node.this))})", BOOLEAN)

    def _between(self, node: _Node) -> Value:
        if node.args.get("symmetric"):
            raise refused(node.sql("spark"))
        found = self.value(node.this)
        low = equal(found, self.value(node.args["low"]), ">=")
        high = equal(found, self.value(node.args["high"]), "<=")
        return Value(f"({low.sql} AND {high.sql})", BOOLEAN)

    def _in(self, node: _Node) -> Value:
        if isinstance(node.this, exp.Tuple) or node.args.get("unnest") or node.args.get("field"):
            raise refused(node.sql("spark"), "compare single values")
        found = self.value(node.this)
        query = node.args.get("query")
        if query is not None:
            return Value(self._in_query(found, query, unknown=False), BOOLEAN)
        values = [self.value(each) for each in node.expressions]
        kind, (found, *values) = nested.one_of("IN", [found, *values])
        if pt.is_map(kind):
            raise misfit("IN", kind)
        return Value(f"({found.sql} IN ({', '.join(each.sql for each in values)}))", BOOLEAN)

    def _in_query(self, found: Value, query: _Node, *, unknown: bool) -> str:
        """IN (query). Spark's answer is never null: IN is false, and NOT IN too, where SQL's is unknown."""
        sql, columns = self._queries.subquery(query, self._scope)
        if len(columns) != 1:
            raise refused(f"IN of {len(columns)} columns", "compare single values")
        kind = wider(found.kind, columns[0][1])
        if kind is None or pt.is_map(kind):
            raise misfit("IN", found.kind, columns[0][1])
        if kind != columns[0][1]:
            sql = f"SELECT {cast(Value('_v', columns[0][1]), kind).sql} FROM ({sql}) AS _q(_v)"
        if found.kind == NULL:
            return "CAST(NULL AS BOOLEAN)"
        return f"coalesce({cast(found, kind).sql} IN ({sql}), {'TRUE' if unknown else 'FALSE'})"

    def _is(self, node: _Node) -> Value:
        found = self.value(node.this)
        if isinstance(node.expression, exp.Null):
            return Value(f"({found.sql} IS NULL)", BOOLEAN)
        if not isinstance(node.expression, exp.Boolean):
            raise refused(node.sql("spark"))
        word = "TRUE" if node.expression.this else "FALSE"
        return Value(f"({condition('IS', found)} IS NOT DISTINCT FROM {word})", BOOLEAN)

    def _like(self, node: _Node, escape: str = "\\") -> Value:
        if isinstance(node.expression, exp.Any | exp.All | exp.Tuple):
            raise refused(node.sql("spark"), "join several LIKE by OR or AND")
        sides = [argument("LIKE", self.value(each), "text") for each in (node.this, node.expression)]
        if isinstance(node, exp.ILike):
            lowered = [texts.TEXTS["lower"]("ILIKE", [each]) for each in sides]
            literal = sides[1].literal
            sides = [lowered[0], replace(lowered[1], literal=literal)]
        return texts.like(sides[0], sides[1], escape)

    def _escape(self, node: _Node) -> Value:
        character = str(node.expression.this) if isinstance(node.expression, exp.Literal) else ""
        if not isinstance(node.this, exp.Like | exp.ILike) or len(character) != 1:
            raise refused(node.sql("spark"))
        return self._like(node.this, character)

    def _rlike(self, node: _Node) -> Value:
        return texts.rlike("RLIKE", [self.value(node.this), self.value(node.expression)])

    # Choices and conversions

    def _case(self, node: _Node) -> Value:
        subject = None if node.this is None else self.value(node.this)
        whens, values = [], []
        for each in node.args["ifs"]:
            when = self.value(each.this)
            whens.append(condition("WHEN", when) if subject is None else equal(subject, when).sql)
            values.append(self.value(each.args["true"]))
        other = node.args.get("default")
        if other is not None:
            values.append(self.value(other))
        kind, values = nested.one_of("CASE", values)
        parts = " ".join(f"WHEN {when} THEN {value.sql}" for when, value in zip(whens, values, strict=False))
        return Value(f"CASE {parts} ELSE {'NULL' if other is None else values[-1].sql} END", kind)

    def _if(self, node: _Node) -> Value:
        other = node.args.get("false")
        args = [self.value(node.this), self.value(node.args["true"])]
        return nested.if_else("if", [*args, Value("NULL", NULL) if other is None else self.value(other)])

    def _cast(self, node: _Node) -> Value:
        target = of_sql(node.args["to"])
        if target is None:
            raise refused(f"a CAST AS {node.args['to'].sql('spark')}")
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and is_float(target):
            return Value(f"CAST({text(str(inner.this))} AS {duckdb_name(target)})", target)
        found = self.value(inner)
        if isinstance(node, exp.TryCast):
            return try_cast(found, target) if node.args.get("safe") else cast(found, target)
        # DATE '…' and TIMESTAMP '…', which are errors if they are none
        made = cast(found, target).sql
        wrong = fails(f"{found.literal!r} as a {spark_name(target)}: write yyyy-MM-dd, yyyy-MM-dd HH:mm:ss")
        return Value(f"CASE WHEN {made} IS NULL THEN {wrong} ELSE {made} END", target)

    # Functions

    def _extract(self, node: _Node) -> Value:
        return times.extract(node.this.name, self.value(node.expression))

    def _trim(self, node: _Node) -> Value:
        given = node.args.get("expression")
        characters = None if given is None else self.value(given)
        return texts.trim(self.value(node.this), characters, str(node.args.get("position") or "BOTH"))

    def _substring(self, node: _Node) -> Value:
        args = [node.args.get(key) for key in ("this", "start", "length")]
        return FUNCTIONS["substring"]("substring", [self.value(each) for each in args if each is not None])

    def _position(self, node: _Node) -> Value:
        args = [node.args.get(key) for key in ("substr", "this", "position")]
        return FUNCTIONS["locate"]("position", [self.value(each) for each in args if each is not None])

    def _today(self, node: _Node) -> Value:
        name = "current_date" if isinstance(node, exp.CurrentDate) else "current_timestamp"
        return FUNCTIONS[name](name, [])

    def _call(self, node: _Node) -> Value:
        name = str(node.this).lower()
        if name in AGGREGATES:
            return self._aggregate(node, Group())
        rule = FUNCTIONS.get(name)
        if name == "struct":
            return self._struct(node)
        if name in {"timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff"} and (
            len(node.expressions) == 3
        ):
            return self._by_unit(name, node.expressions)
        if rule is None:
            why = "a window function without OVER" if name in WINDOWS else f"the function {name}"
            raise refused(why)
        return rule(name, [self.value(each) for each in node.expressions])

    def _struct(self, node: _Node) -> Value:
        names = [
            each.alias if isinstance(each, exp.Alias) else each.name if isinstance(each, exp.Column) else f"col{n}"
            for n, each in enumerate(node.expressions, 1)
        ]
        values = [self.value(each.this if isinstance(each, exp.Alias) else each) for each in node.expressions]
        return nested.struct(names, values)

    def _by_unit(self, name: str, args: Sequence[_Node]) -> Value:
        unit = args[0].name if isinstance(args[0], exp.Column | exp.Var) else ""
        first, second = self.value(args[1]), self.value(args[2])
        return times.added(unit, first, second) if name.endswith("add") else times.between(unit, first, second)

    def _some(self, node: _Node) -> Value:
        inner = node.this.this if isinstance(node.this, exp.Paren) else node.this
        return AGGREGATES["any"]("any", [self.value(inner)], Group())

    def _aggregate(self, node: _Node, group: Group) -> Value:
        """A call of an aggregate or window function, with what stands around it."""
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            return self._aggregate(node.this, replace(group, ignores_nulls=isinstance(node, exp.IgnoreNulls)))
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, replace(group, filter=self.condition(node.expression.this)))
        if isinstance(node, exp.WithinGroup):
            return self._within(node, group)
        if isinstance(node, exp.Any):
            node = exp.Anonymous(this="any", expressions=[node.this])
        if not isinstance(node, exp.Anonymous):
            raise refused(node.sql("spark"))
        name = str(node.this).lower()
        rule = AGGREGATES.get(name) or (WINDOWS.get(name) if group.over is not None else None)
        if rule is None:
            raise refused(f"the aggregate or window function {name}")
        args = list(node.expressions)
        if len(args) == 1 and isinstance(args[0], exp.Distinct):
            args, group = list(args[0].expressions), replace(group, distinct=True)
        if group.over is not None and (group.distinct or group.filter is not None):
            raise refused("a window function of DISTINCT values or with a FILTER, which Spark doesn't have", "use CASE")
        if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
            args = []
        if any(isinstance(each, exp.Star) or each.is_star for each in args):
            raise refused(node.sql("spark"), "name the columns")
        return rule(name, [self.value(each) for each in args], group)

    def _within(self, node: _Node, group: Group) -> Value:
        name = str(getattr(node.this, "this", "")).lower()
        orders = node.expression.expressions
        if name != "percentile_cont" or len(orders) != 1 or orders[0].args.get("desc"):
            raise refused(node.sql("spark"))
        return AGGREGATES["percentile"](name, [self.value(orders[0].this), self.value(node.this.expressions[0])], group)

    def _window(self, node: _Node) -> Value:
        return self._aggregate(node.this, Group(over=f"OVER {self.window(node)}"))

    def window(self, node: _Node) -> str:
        """Translate what stands behind OVER, or in WINDOW behind the name."""
        alias = node.args.get("alias")
        partitions, order, spec = node.args.get("partition_by") or (), node.args.get("order"), node.args.get("spec")
        if alias is not None and not (partitions or order or spec):
            return quoted(alias.name)
        if alias is not None:
            raise refused("a window made from another one")
        parts = []
        if partitions:
            parts.append(f"PARTITION BY {', '.join(self.value(each).sql for each in partitions)}")
        if order is not None:
            parts.append(f"ORDER BY {', '.join(map(self.ordered, order.expressions))}")
        if spec is not None:
            start, end = (self._bound(spec, side) for side in ("start", "end"))
            parts.append(f"{spec.args.get('kind') or 'ROWS'} BETWEEN {start} AND {end}")
        return f"({' '.join(parts)})"

    def _bound(self, spec: _Node, side: str) -> str:
        bound = spec.args.get(side) or "CURRENT ROW"
        if isinstance(bound, str):
            found = bound
        else:
            value = self.value(bound)
            if not is_integer(value.kind):
                raise refused(spec.sql("spark"), "count rows")
            found = value.sql
        direction = spec.args.get(f"{side}_side")
        return f"{found} {direction}" if direction else found

    # Queries

    def _scalar(self, node: _Node) -> Value:
        sql, columns = self._queries.subquery(node, self._scope)
        if len(columns) != 1:
            raise misfit("a query in place of a value, with several columns,", *(kind for _, kind in columns))
        return Value(f"({sql})", columns[0][1])

    def _exists(self, node: _Node) -> Value:
        if not isinstance(node.this, exp.Query):
            raise refused("the function exists")
        return Value(f"EXISTS ({self._queries.subquery(node.this, self._scope)[0]})", BOOLEAN)


def number(digits: str) -> Value:
    """Translate a constant number by the type that Spark gives it."""
    if re.fullmatch(r"-?\d+", digits):
        whole = int(digits)
        for kind in (INT, LONG):
            if -1 << (kind.bit_width - 1) <= whole < 1 << (kind.bit_width - 1):
                least = whole == -1 << (kind.bit_width - 1)  # read as minus of a number of a wider type
                sql = f"CAST('{whole}' AS {duckdb_name(kind)})" if least else f"({whole})" if whole < 0 else digits
                return Value(sql, kind, whole)
        digits = f"{digits}."
    if "e" in digits.lower():
        return Value(f"CAST('{digits}' AS DOUBLE)", DOUBLE)
    whole_part, _, fraction = digits.lstrip("-").partition(".")
    size = len((whole_part + fraction).lstrip("0"))
    kind = decimal(max(size, len(fraction), 1), len(fraction))
    if kind is None:
        raise refused(f"the constant {digits}, of more than 38 digits")
    return Value(f"CAST('{digits}' AS {duckdb_name(kind)})", kind, digits)


_ARITHMETIC: Mapping[type, str] = {exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
_BITWISE: Mapping[type, str] = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_BINDING: Mapping[type, int] = {exp.BitwiseOr: 0, exp.BitwiseXor: 1, exp.BitwiseAnd: 2}
"""Order in which Spark binds them, the tightest last."""
_PARENTHESES = "write parentheses, since engines bind these operators differently"
_COMPARISONS: Mapping[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_USUAL = frozenset({"this", "expression", "expressions", "negate"})
_ARGUMENTS: Mapping[type, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        exp.Literal: "is_string", exp.Column: "table db catalog", exp.Interval: "unit", exp.DPipe: "safe",
        exp.Div: "typed safe", exp.Between: "low high symmetric", exp.In: "query unnest field", exp.Case: "ifs default",
        exp.If: "true false", exp.Cast: "to", exp.TryCast: "to safe requires_string", exp.Trim: "position",
        exp.Substring: "start length", exp.StrPosition: "substr position", exp.Concat: "safe coalesce",
        exp.Window: "partition_by order spec alias over first", exp.Bracket: "offset safe",
    }.items()
}  # fmt: skip
"""The parts of nodes that the rules know, beside the usual ones; a node with any other is refused."""
_RULES: Mapping[type, Callable[[Expressions, _Node], Value]] = {
    exp.Literal: Expressions._literal,
    exp.Concat: Expressions._adjacent,
    exp.RawString: Expressions._raw,
    exp.HexString: Expressions._bytes,
    exp.Boolean: Expressions._boolean,
    exp.Null: Expressions._null,
    exp.Column: Expressions._column,
    exp.Dot: Expressions._field,
    exp.Bracket: Expressions._item,
    exp.Paren: Expressions._parenthesis,
    exp.Interval: Expressions._interval,
    exp.Add: Expressions._sum,
    exp.Sub: Expressions._sum,
    **dict.fromkeys(_ARITHMETIC, Expressions._arithmetic),
    **dict.fromkeys(_BITWISE, Expressions._bitwise),
    exp.BitwiseNot: Expressions._inverted,
    exp.Neg: Expressions._negated,
    exp.DPipe: Expressions._joined,
    **dict.fromkeys(_COMPARISONS, Expressions._compared),
    exp.And: Expressions._connected,
    exp.Or: Expressions._connected,
    exp.Not: Expressions._not,
    exp.Between: Expressions._between,
    exp.In: Expressions._in,
    exp.Is: Expressions._is,
    exp.Like: Expressions._like,
    exp.ILike: Expressions._like,
    exp.Escape: Expressions._escape,
    exp.RegexpLike: Expressions._rlike,
    exp.Case: Expressions._case,
    exp.If: Expressions._if,
    exp.Cast: Expressions._cast,
    exp.TryCast: Expressions._cast,
    exp.Extract: Expressions._extract,
    exp.Trim: Expressions._trim,
    exp.Substring: Expressions._substring,
    exp.StrPosition: Expressions._position,
    exp.CurrentDate: Expressions._today,
    exp.CurrentTimestamp: Expressions._today,
    exp.Anonymous: Expressions._call,
    exp.Any: Expressions._some,
    exp.Filter: lambda self, node: self._aggregate(node, Group()),
    exp.IgnoreNulls: lambda self, node: self._aggregate(node, Group()),
    exp.RespectNulls: lambda self, node: self._aggregate(node, Group()),
    exp.WithinGroup: lambda self, node: self._aggregate(node, Group()),
    exp.Window: Expressions._window,
    exp.Subquery: Expressions._scalar,
    exp.Exists: Expressions._exists,
}
