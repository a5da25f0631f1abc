"""The `where` language: parse SQL text, evaluate it in Arrow or Spark, and prune files with it."""

from __future__ import annotations

from pudi.expr.arrow import evaluate, evaluate_all, to_arrow
from pudi.expr.binder import bind, bind_value, bind_where, outside_where, parse
from pudi.expr.from_arrow import columns_of, from_arrow
from pudi.expr.from_polars import from_polars, real_predicate
from pudi.expr.literals import constant
from pudi.expr.pruning import BoundsArrays, ColumnBounds, call_key, prune, prune_many
from pudi.expr.spark_sql import to_spark_sql
from pudi.expr.sqltypes import CastKind, cast_kind
from pudi.expr.table import ARITHMETIC_ERROR, depends_on_zone, index_call, keeps_order, widened
from pudi.expr.tree import (
    Call,
    Cast,
    Column,
    Expr,
    columns,
    conjunction,
    leaf_columns,
    replace_columns,
    split_conjuncts,
    type_of,
    walk,
)

__all__ = [
    "ARITHMETIC_ERROR",
    "BoundsArrays",
    "Call",
    "Cast",
    "CastKind",
    "Column",
    "ColumnBounds",
    "Expr",
    "bind",
    "bind_value",
    "bind_where",
    "call_key",
    "cast_kind",
    "columns",
    "columns_of",
    "conjunction",
    "constant",
    "depends_on_zone",
    "evaluate",
    "evaluate_all",
    "from_arrow",
    "from_polars",
    "index_call",
    "keeps_order",
    "leaf_columns",
    "outside_where",
    "parse",
    "prune",
    "prune_many",
    "real_predicate",
    "replace_columns",
    "split_conjuncts",
    "to_arrow",
    "to_spark_sql",
    "type_of",
    "walk",
    "widened",
]
