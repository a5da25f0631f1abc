"""The tables that a query names: where they stand in its text, and how it reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from pudi.errors import NotSupportedError
from pudi.schema.spark_types import quote
from pudi.statement.parse.reader import place
from pudi.statement.tree import TableName, Text

EXPLAIN = re.compile(r"^\s*EXPLAIN\s+(?:(?:EXTENDED|FORMATTED|COST|CODEGEN)\s+)?", re.IGNORECASE)
"""Words before a query that sqlglot doesn't read."""
_SAMPLE = re.compile(r"\s*TABLESAMPLE\b", re.IGNORECASE)
"""Clauses that Spark has before an alias, and not behind one."""
_Node = Any
"""A node of sqlglot's tree, whose type has another name in each release."""


@dataclass(frozen=True, slots=True)
class TableUse:
    """A table, or a function that gives one, in a query.

    Attributes:
        name: the table's name; of a function its name.
        start: where it begins in the query.
        end: where it ends, with TIMESTAMP AS OF.
        alias: what the query calls it, if it doesn't say so itself; empty if it does.
        as_of: the moment to read it at.
        arguments: those of a function; None for a table.
        columns: the columns that the query may need, in lower case; None for all.
        called: its alias in the query, or its name.
        conditions: what the query asks of its rows, joined by AND, for skipping files.
    """

    name: TableName
    start: int
    end: int
    alias: str
    as_of: str | None = None
    arguments: tuple[object, ...] | None = None
    columns: frozenset[str] | None = None
    called: str = ""
    conditions: tuple[str, ...] = ()


def uses_of(query: Text, functions: Sequence[str]) -> list[TableUse]:
    """Find the tables and table-valued functions of a query, in the order of their places.

    A query that sqlglot can't read has none: the engine says what is wrong with it.

    Args:
        query: the query.
        functions: names of the functions.

    Raises:
        NotSupportedError: a table is read at a moment that is no constant.
    """
    try:
        tree = parse_one(EXPLAIN.sub(lambda found: " " * len(found[0]), query.text), dialect="spark")
    except (SqlglotError, RecursionError):
        return []
    if tree is None or isinstance(tree, exp.Command):
        return []
    needed = _needed(tree)
    found = [_use(query, node, needed, functions) for node in tree.find_all(exp.Table) if not _is_cte(node)]
    return sorted((use for use in found if use is not None), key=lambda use: use.start)


def replaced(query: Text, uses: Sequence[TableUse], view_of: Callable[[int], str], escape: Callable[[str], str]) -> str:
    """The text of a query with its tables replaced.

    Args:
        query: the query.
        uses: the tables to replace.
        view_of: by the number of a use, what stands in its place.
        escape: what becomes of the text between.
    """
    pieces, done = [], 0
    for number, use in enumerate(uses):
        alias = f" AS {quote(use.alias)}" if use.alias else ""
        pieces += [escape(query.text[done : use.start]), view_of(number), escape(alias)]
        done = use.end
    return "".join((*pieces, escape(query.text[done:])))


def _needed(tree: _Node) -> frozenset[str] | None:
    """Every name in a query: a column that it needs is among them, unless it has a star, NATURAL or PIVOT."""
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    natural = any(join.args.get("method") == "NATURAL" for join in tree.find_all(exp.Join))
    if stars or natural or tree.find(exp.Pivot) is not None:  # PIVOT groups by the columns that it doesn't name
        return None
    return frozenset(node.name.lower() for node in tree.find_all(exp.Identifier))


def _is_cte(table: exp.Table) -> bool:
    """Whether a name is that of a query in WITH, rather than of a table."""
    if table.args.get("db") or not table.name:
        return False
    node: _Node = table
    inside: list[_Node] = []
    while node is not None:
        inside.append(node)
        named = node.args.get("with_") or node.args.get("with")
        for cte in named.expressions if named is not None else ():
            if any(each is cte for each in inside):
                break  # a query in WITH sees those before it
            if cte.alias.lower() == table.name.lower():
                return True
        node = node.parent
    return False


def _use(query: Text, node: exp.Table, needed: frozenset[str] | None, functions: Sequence[str]) -> TableUse | None:
    if isinstance(node.this, exp.Func):
        return _function(query, node, functions)
    parts = node.parts  # also of more than catalog, database and table
    spans = [part.meta for part in parts]
    if not all(isinstance(part, exp.Identifier) and "start" in span for part, span in zip(parts, spans, strict=True)):
        return None
    start, end = spans[0]["start"], spans[-1]["end"] + 1
    start, end = _unquoted(query.text, start, end)
    name = TableName(tuple(part.name for part in parts), query.at + start)
    as_of, end = _moment(query, node, end)
    has_alias = bool(node.alias) or name.path is not None or _SAMPLE.match(query.text, end) is not None
    alias = "" if has_alias else parts[-1].name
    called = str(node.alias_or_name)
    if node.alias_column_names:  # the query's names are others than the table's
        return TableUse(name, start, end, alias, as_of, called=called)
    return TableUse(name, start, end, alias, as_of, columns=needed, called=called, conditions=_conditions(node))


def _unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    """The places of a name with its quotes: sqlglot's leave them out in some releases."""
    if start > 0 and text[start] != "`" and text[start - 1] == "`":
        start -= 1
    if end < len(text) and text[end - 1] != "`" and text[end] == "`" and text[start:end].count("`") % 2:
        end += 1
    return start, end


def _moment(query: Text, node: exp.Table, end: int) -> tuple[str | None, int]:
    version = node.args.get("version")
    if version is None:
        return None, end
    moment = version.expression
    tokens = [token for token in Spark().tokenize(query.text) if token.start >= end]
    words = [query.text[token.start : token.end + 1].upper() for token in tokens[:6]]
    skip = next((n for n, word in enumerate(words) if word == "OF"), None)
    simple = isinstance(moment, exp.Literal) and skip is not None and skip + 1 < len(tokens)
    if not simple:
        raise NotSupportedError(f"SQL, {place(query.text, end)}: AS OF takes an instant or a time as a constant")
    assert skip is not None
    return str(moment.this), int(tokens[skip + 1].end) + 1


def _function(query: Text, node: exp.Table, functions: Sequence[str]) -> TableUse | None:
    name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else ""
    if name not in functions:
        return None
    arguments = []
    for each in node.this.expressions:
        if not isinstance(each, exp.Literal | exp.Boolean):
            raise NotSupportedError(f"{name} takes constants, not {each.sql('spark')}")
        arguments.append(each.this)
    start, end = _call_span(query.text, int(node.this.meta["start"]))
    alias = "" if node.alias else name
    return TableUse(TableName((name,), query.at + start), start, end, alias, None, tuple(arguments))


def _call_span(text: str, start: int) -> tuple[int, int]:
    """The places of a call: where its name begins, with its quote, and where its parentheses end."""
    depth, quoted = 0, text[start - 1 : start] == "`"
    for token in Spark().tokenize(text):
        word = text[token.start : token.end + 1] if token.start >= start else ""
        depth += (word == "(") - (word == ")")
        if word == ")" and depth == 0:
            return start - quoted, int(token.end) + 1
    return start - quoted, len(text)


def _conditions(node: exp.Table) -> tuple[str, ...]:
    """The parts of the WHERE around a table that stands alone in its query."""
    select: _Node = node.parent_select
    source = select.args.get("from_") or select.args.get("from") if isinstance(select, exp.Select) else None
    alone = (
        source is not None and source.this is node and not select.args.get("joins") and not select.args.get("laterals")
    )
    where = select.args.get("where") if alone and not (node.args.get("sample") or node.args.get("pivots")) else None
    return () if where is None else tuple(part.sql("spark") for part in conjuncts(where.this))


def conjuncts(node: _Node) -> Iterator[_Node]:
    """The parts of a condition that AND joins, as sqlglot has them."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, exp.And):
            stack += [each.expression, each.this]
        elif isinstance(each, exp.Paren) and isinstance(each.this, exp.And | exp.Paren):
            stack.append(each.this)
        else:
            yield each
