"""Queries of Spark's SQL as queries of DuckDB's: where the columns come from, and what each clause computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pudi.errors import InvalidArgumentError
from pudi.statement.translate.casts import cast
from pudi.statement.translate.expressions import Expressions
from pudi.statement.translate.scope import Columns, Scope, Source
from pudi.statement.translate.typed_values import (
    LONG,
    Value,
    duckdb_name,
    is_known,
    misfit,
    plain,
    quoted,
    refused,
    spark_name,
    wider,
    widest,
)

_Node = Any
"""A node of sqlglot's tree, whose type has another name in each release."""
Describe = Callable[[str], pa.Schema]
"""Tells the columns of a table or of a function that gives one, by its text in DuckDB's SQL."""

_OF_SELECT = {
    "expressions", "from", "from_", "joins", "laterals", "where", "group", "having", "qualify", "windows", "order",
    "limit", "offset", "distinct", "with", "with_",
}  # fmt: skip
"""The parts of a SELECT that are translated."""
_WITHOUT_MEANING = ("hint", "sort", "cluster", "distribute", "operation_modifiers")
"""Parts that change how rows are spread among tasks, and none of the rows."""
_GENERATORS = {
    "explode",
    "posexplode",
    "inline",
    "stack",
    "json_tuple",
    "explode_outer",
    "posexplode_outer",
    "inline_outer",
}


class Queries:
    """Translates queries.

    Args:
        describe: tells the columns of tables.
    """

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._named: dict[str, Columns] = {}

    def subquery(self, node: _Node, outer: Scope) -> tuple[str, Columns]:
        """Translate a query inside of an expression; see `Subqueries`."""
        inner = node.unnest() if isinstance(node, exp.Subquery) else node
        columns = self.query(inner, outer)
        return inner.sql(dialect="duckdb"), columns

    def query(self, node: _Node, outer: Scope | None = None) -> Columns:
        """Translate a query in place.

        Args:
            node: the query.
            outer: the columns of the queries around it.

        Returns:
            Its columns.

        Raises:
            InvalidArgumentError: it names no column, or a function gets what Spark doesn't take either.
            NotSupportedError: a part has no translation with Spark's meaning.
        """
        before = self._named
        try:
            self._with(node, outer)
            if isinstance(node, exp.Select):
                return self._select(node, outer)
            if isinstance(node, exp.Values):
                return self._values(node, outer)
            if isinstance(node, exp.Subquery):
                columns = self.query(node.this, outer)
                self._modifiers(node, columns, outer)
                return _renamed(node, columns)
            if isinstance(node, exp.Union | exp.Except | exp.Intersect):
                return self._combined(node, outer)
        finally:
            self._named = before
        raise refused(node.sql("spark"))

    def _with(self, node: _Node, outer: Scope | None) -> None:
        """Learn the columns of the queries of WITH."""
        found = node.args.get("with_") or node.args.get("with")
        if found is None:
            return
        if found.args.get("recursive"):
            raise refused("WITH RECURSIVE")
        for each in found.expressions:
            self._named = {**self._named, each.alias.lower(): _renamed(each, self.query(each.this, outer))}

    def _select(self, node: _Node, outer: Scope | None) -> Columns:
        for name in _WITHOUT_MEANING:
            node.set(name, None)
        other = [name for name, value in node.args.items() if value and name not in _OF_SELECT]
        if other:
            raise refused(f"{other[0].upper()} of a SELECT")
        scope = Scope(outer)
        self._from(node, scope)
        expressions = Expressions(scope, self)
        if node.args.get("where") is not None:
            _put(node.args["where"].this, expressions.condition(node.args["where"].this))
        for each in node.args.get("windows") or ():
            _put(each, f"{quoted(each.this.name)} AS {expressions.window(each)}")
        columns = self._projections(node, scope, expressions)
        scope.with_aliases = True
        if node.args.get("group") is not None:
            self._group(node.args["group"], expressions)
        for name in ("having", "qualify"):
            if node.args.get(name) is not None:
                _put(node.args[name].this, expressions.condition(node.args[name].this))
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise refused("DISTINCT ON")
        scope.aliases_first = True
        self._ordered(node, expressions)
        return columns

    def _from(self, node: _Node, scope: Scope) -> None:
        source = node.args.get("from_") or node.args.get("from")
        if source is not None:
            scope.sources.append(self._source(source.this, scope))
        for join in node.args.get("joins") or ():
            self._join(join, scope)
        for lateral in node.args.get("laterals") or ():
            node.append("joins", self._lateral(lateral, scope))
        node.set("laterals", None)

    def _source(self, node: _Node, scope: Scope) -> Source:
        """A table, a query or rows in FROM."""
        if node.args.get("pivots"):
            raise refused("PIVOT and UNPIVOT", "write sums of CASE, or several queries joined by UNION ALL")
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Subquery | exp.Values):
            return Source(node.alias, self.query(node, None))
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            columns = self.query(node.this, scope)
            return Source(node.alias, _renamed(node, columns))
        raise refused(f"{node.sql('spark')} in FROM")

    def _table(self, node: exp.Table) -> Source:
        named = isinstance(node.this, exp.Identifier)
        known = self._named.get(node.name.lower()) if named and not node.args.get("db") else None
        if known is not None:
            return Source(node.alias_or_name, _renamed(node, known))
        if not named:
            return self._function(node)
        bare = exp.Table(**{key: node.args.get(key) for key in ("this", "db", "catalog")}).sql(dialect="duckdb")
        return self._described(node, bare, node.alias_or_name)

    def _function(self, node: exp.Table) -> Source:
        name = str(node.this.this).lower() if isinstance(node.this, exp.Anonymous) else ""
        if not name or name in _GENERATORS:
            raise refused(f"{node.this.sql('spark')} in FROM", "write SELECT explode(…), or LATERAL VIEW")
        if name == "range":
            return self._range(node)
        return self._described(node, node.this.sql(dialect="duckdb", normalize_functions=False), node.alias)

    def _range(self, node: exp.Table) -> Source:
        """Spark's `range(…)`, whose column is `id`."""
        numbers = [Expressions(Scope(), self).value(each) for each in node.this.expressions]
        if not 1 <= len(numbers) <= 3 or not all(isinstance(each.literal, int) for each in numbers):
            raise refused(node.this.sql("spark"), "write constant whole numbers")
        given = ", ".join(str(each.literal) for each in numbers)
        _put(node.this, f"(SELECT range AS id FROM range({given}))")
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier("range", quoted=True)))
        return Source(node.alias, _renamed(node, [("id", LONG)]))

    def _described(self, node: exp.Table, sql: str, alias: str) -> Source:
        """A table as DuckDB knows it; columns of types that Spark lacks, such as enums, become those that it has."""
        schema = self._describe(sql)
        columns = [(each.name, plain(each.type)) for each in schema]
        changed = [
            is_known(kind) and kind != each.type and _is_other(each.type)
            for each, (_, kind) in zip(schema, columns, strict=True)
        ]
        if any(changed):
            chosen = ", ".join(
                f"CAST({quoted(name)} AS {duckdb_name(kind)}) AS {quoted(name)}" if other else quoted(name)
                for (name, kind), other in zip(columns, changed, strict=True)
            )
            for part in ("db", "catalog"):
                node.set(part, None)
            if not node.alias and alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
            _put(node.this, f"(SELECT {chosen} FROM {sql})")
        return Source(alias, _renamed(node, columns))

    def _join(self, join: _Node, scope: Scope) -> None:
        source = self._source(join.this, scope)
        if str(join.args.get("kind") or "").upper() in {"SEMI", "ANTI"}:
            source.shown = False
        using = [each.name for each in join.args.get("using") or ()]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            before = {name.lower() for each in scope.sources for name, _ in each.columns}
            using = [name for name, _ in source.columns if name.lower() in before]
        elif join.args.get("method"):
            raise refused(join.sql("spark"))
        self._check_shared(using, source, scope)
        scope.shared += [name.lower() for name in using if name.lower() not in scope.shared and source.shown]
        scope.sources.append(source)
        if join.args.get("on") is not None:
            _put(join.args["on"], Expressions(scope, self).condition(join.args["on"]))

    def _check_shared(self, using: list[str], source: Source, scope: Scope) -> None:
        for name in using:
            left = next((each.find(name) for each in scope.sources if each.find(name)), None)
            right = source.find(name)
            if left is not None and right is not None and left[1] != right[1]:
                raise refused(
                    f"a join USING ({name}) of {spark_name(left[1])} and {spark_name(right[1])}",
                    "join ON an equality with a CAST",
                )

    def _lateral(self, node: _Node, scope: Scope) -> exp.Join:
        """LATERAL VIEW explode(array): the rows of the query, once for each element."""
        found = None if node.args.get("outer") else _exploded(node.this, Expressions(scope, self))
        if found is None:
            raise refused(node.sql("spark").strip(), "write LATERAL VIEW explode(array)")
        names = [each.name for each in node.args["alias"].args.get("columns") or ()] or ["col"]
        view = node.args["alias"].name or "_view"
        scope.sources.append(Source(view, [(names[0], found.kind)]))
        made = f"{found.sql} AS {quoted(view)}({quoted(names[0])})"
        return exp.Join(this=exp.Var(this=made), kind="CROSS")

    def _projections(self, node: _Node, scope: Scope, expressions: Expressions) -> Columns:
        """Translate what SELECT computes."""
        columns: list[tuple[str, pa.DataType]] = []
        made: list[_Node] = []
        for each in node.expressions:
            star = _star(each, scope)
            if star is not None:
                chosen = star
            else:
                chosen = [_projection(each, expressions)]
                scope.with_aliases = True
            for name, value in chosen:
                columns.append((name, value.kind))
                scope.places.setdefault(name.lower(), len(columns))
                if star is None:
                    scope.aliases.setdefault(name.lower(), Value(f"({value.sql})", value.kind))
                made.append(exp.Var(this=value.sql if value.sql == quoted(name) else f"{value.sql} AS {quoted(name)}"))
        node.set("expressions", made)
        return columns

    def _group(self, group: _Node, expressions: Expressions) -> None:
        if group.args.get("totals"):
            raise refused("WITH TOTALS")
        for name in ("rollup", "cube"):
            empty = [each for each in group.args.get(name) or () if not each.expressions]
            if empty:  # GROUP BY a, b WITH ROLLUP
                wrapped = type(empty[0])(expressions=group.expressions)
                group.set("expressions", [])
                group.set(name, [wrapped])
        for each in (
            *group.expressions,
            *(part for name in ("rollup", "cube", "grouping_sets") for part in group.args.get(name) or ()),
        ):
            self._grouped(each, expressions)

    def _grouped(self, node: _Node, expressions: Expressions) -> None:
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            for each in list(node.expressions):
                self._grouped(each, expressions)
        elif isinstance(node, exp.Paren):
            self._grouped(node.this, expressions)
        elif not _is_place(node):
            _put(node, expressions.value(node).sql)

    def _ordered(self, node: _Node, expressions: Expressions) -> None:
        order = node.args.get("order")
        for each in order.expressions if order is not None else ():
            if not _is_place(each.this):
                _put(each, expressions.ordered(each, by_place=True))

    def _modifiers(self, node: _Node, columns: Columns, outer: Scope | None) -> None:
        """Translate the ORDER BY behind a query in parentheses, or behind several of them."""
        scope = Scope(outer, aliases_first=True)
        for place, (name, kind) in enumerate(columns, 1):
            scope.aliases.setdefault(name.lower(), Value(quoted(name), kind))
            scope.places.setdefault(name.lower(), place)
        self._ordered(node, Expressions(scope, self))

    def _combined(self, node: _Node, outer: Scope | None) -> Columns:
        """UNION, EXCEPT and INTERSECT."""
        if node.args.get("by_name") or node.args.get("match_by_position"):
            raise refused("UNION BY NAME", "name the columns in both queries")
        sides = [self.query(each, outer) for each in (node.this, node.expression)]
        left, right = sides
        if len(left) != len(right):
            raise misfit(f"a {node.key.upper()} of {len(left)} and {len(right)} columns")
        found = []
        for (name, a), (_, b) in zip(left, right, strict=True):
            kind = wider(a, b)
            if kind is None:
                raise misfit(f"column {name} of a {node.key.upper()}", a, b)
            found.append((name, kind))
        for key, columns in (("this", left), ("expression", right)):
            if [kind for _, kind in columns] != [kind for _, kind in found]:
                _wrap(node.args[key], columns, found)
        self._modifiers(node, found, outer)
        return found

    def _values(self, node: _Node, outer: Scope | None) -> Columns:
        """VALUES: rows of constants."""
        expressions = Expressions(Scope(outer), self)
        rows = [
            [expressions.value(each) for each in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) > 1:
            raise misfit("VALUES with rows of several lengths")
        found = []
        for place in range(len(rows[0])):
            kind = widest(row[place].kind for row in rows)
            if kind is None:
                raise misfit(f"column {place + 1} of VALUES", *(row[place].kind for row in rows))
            found.append((f"col{place + 1}", kind))
        made = [
            f"({', '.join(cast(value, kind).sql for value, (_, kind) in zip(row, found, strict=True))})" for row in rows
        ]
        node.set("expressions", [exp.Var(this=each) for each in made])
        columns = _renamed(node, found)
        alias = node.args.get("alias")
        name = alias.this if alias is not None and alias.this is not None else exp.to_identifier("_values", quoted=True)
        names = [exp.to_identifier(each, quoted=True) for each, _ in columns]
        node.set("alias", exp.TableAlias(this=name, columns=names))
        if not isinstance(node.parent, exp.From | exp.Join):
            node.replace(exp.select("*").from_(node.copy()))
        return columns


def _is_other(kind: pa.DataType) -> bool:
    """Return whether DuckDB has a type of its own for a type of Arrow, which Spark lacks."""
    return bool(
        pa.types.is_dictionary(kind)
        or pa.types.is_unsigned_integer(kind)
        or (pa.types.is_timestamp(kind) and kind.tz is None)
        or pa.types.is_fixed_size_list(kind)
    )


def _is_place(node: _Node) -> bool:
    """Return whether an expression of GROUP BY or ORDER BY is the place of a column."""
    return isinstance(node, exp.Literal) and not node.is_string


def _put(node: _Node, sql: str) -> None:
    """Replace an expression by DuckDB's text."""
    node.replace(exp.Var(this=sql))


def _renamed(node: _Node, columns: Columns) -> Columns:
    """The columns by the names that an alias gives them."""
    alias = node.args.get("alias")
    names = [each.name for each in (alias.args.get("columns") or ())] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return columns
    if len(names) != len(columns):
        raise InvalidArgumentError(f"SQL: there are {len(names)} names for {len(columns)} columns: name all of them")
    return list(zip(names, (kind for _, kind in columns), strict=True))


def _star(node: _Node, scope: Scope) -> list[tuple[str, Value]] | None:
    """The columns of `*` and `t.*`; None for anything else."""
    star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
    if not isinstance(star, exp.Star):
        return None
    left_out = star.args.get("except_") or star.args.get("except") or ()
    if star.args.get("replace") or star.args.get("rename"):
        raise refused(node.sql("spark"), "name the columns")
    hidden = {each.name.lower() for each in left_out}
    found = scope.star(node.table.lower() if isinstance(node, exp.Column) else None)
    if found is None:
        value = scope.column([node.table])
        if not pa.types.is_struct(value.kind):
            raise misfit(node.sql("spark"), value.kind)
        found = [(each.name, scope.column([node.table, each.name])) for each in value.kind]
    return [(name, value) for name, value in found if name.lower() not in hidden]


def _projection(node: _Node, expressions: Expressions) -> tuple[str, Value]:
    inner = node.this if isinstance(node, exp.Alias) else node
    elements = _exploded(inner, expressions)
    if elements is not None:
        return node.alias or "col", elements
    return node.alias if isinstance(node, exp.Alias) else _name(node), expressions.value(inner)


def _exploded(node: _Node, expressions: Expressions) -> Value | None:
    """The elements that `explode(array)` makes rows of; None for anything else."""
    if not (isinstance(node, exp.Anonymous) and str(node.this).lower() == "explode" and len(node.expressions) == 1):
        return None
    found = expressions.value(node.expressions[0])
    if not pa.types.is_list(found.kind):
        raise refused(f"explode of {spark_name(found.kind)}")
    return Value(f"UNNEST({found.sql})", found.kind.value_type)


def _name(node: _Node) -> str:
    """The name that Spark gives a column without one, or nearly so."""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return str(node.this.name)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    if isinstance(node, exp.Literal):
        return str(node.this)
    shown = node.copy()
    for call in shown.find_all(exp.Anonymous):
        call.set("this", str(call.this).lower())
        if call.this == "count" and len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Star):
            call.set("expressions", [exp.Literal.number(1)])
    sql = shown.sql("spark", normalize_functions=False)
    return f"({sql})" if isinstance(node, exp.Binary) and not isinstance(node, exp.Dot) else str(sql)


def _wrap(node: _Node, columns: Columns, wanted: Columns) -> None:
    """Put a query into one that converts its columns."""
    chosen = ", ".join(
        f"{cast(Value(f'_c{n}', kind), target).sql} AS {quoted(name)}"
        for n, ((_, kind), (name, target)) in enumerate(zip(columns, wanted, strict=True))
    )
    inner = node.unnest() if isinstance(node, exp.Subquery) and not node.args.get("order") else node
    names = ", ".join(f"_c{n}" for n in range(len(columns)))
    sql = inner.sql(dialect="duckdb")
    node.replace(exp.Subquery(this=exp.Var(this=f"SELECT {chosen} FROM ({sql}) AS _side({names})")))
