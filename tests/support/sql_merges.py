"""Scripts of one MERGE INTO each, over small tables of goods; the rows, or the error, that Apache Hudi gives are stored.

`python -m support.sql_merges` runs them by Hudi. `tests/golden/sql_merges.jsonl` has the answers of those that pudi gives
too, a script in a line; the others are refused by pudi, or end in faults of Hudi. In merge-on-read tables Hudi refuses values
and skips conditions that read the table: its answers for copy-on-write count there too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "sql_merges.jsonl"


@dataclass(frozen=True)
class Target:
    """A table that merges go into.

    Attributes:
        columns: its columns.
        properties: its table properties besides the type.
        rows: what is in it first.
        query: what is asked after the merge.
        partition: the column that it is partitioned by; empty for none.
    """

    columns: str
    properties: str
    rows: str
    query: str
    partition: str = ""


_GOODS = "sku INT, label STRING, qty INT, cost DOUBLE, rev BIGINT, shelf STRING"
_STOCK = "(1, 'lamp', 5, 2.5, 100, 'a'), (2, 'vase', 7, 4.0, 100, 'b'), (3, 'desk', 1, 80.0, 100, 'a')"
_ALL = "SELECT sku, label, qty, cost, rev, shelf FROM {t} ORDER BY sku, shelf, label"


def _goods(properties: str, partition: str = "shelf") -> Target:
    return Target(_GOODS, properties, _STOCK, _ALL, partition)


_V6, _V8 = "'hoodie.write.table.version' = '6'", "'hoodie.write.table.version' = '8'"
TARGETS = {
    "plain": _goods("primaryKey = 'sku'"),
    "ordered": _goods("primaryKey = 'sku', preCombineField = 'rev'"),
    "flat": _goods("primaryKey = 'sku'", ""),
    "flat ordered": _goods("primaryKey = 'sku', preCombineField = 'rev'", ""),
    "two keys": _goods("primaryKey = 'sku,label', preCombineField = 'rev'", ""),
    "global": _goods("primaryKey = 'sku', preCombineField = 'rev', 'hoodie.index.type' = 'GLOBAL_SIMPLE'"),
    "global plain": _goods("primaryKey = 'sku', 'hoodie.index.type' = 'GLOBAL_BLOOM'"),
    "global six": _goods(f"primaryKey = 'sku', preCombineField = 'rev', 'hoodie.index.type' = 'GLOBAL_SIMPLE', {_V6}"),
    "keyless": _goods("'hoodie.table.name' = 'goods'"),
    "commit time": _goods(
        "primaryKey = 'sku', preCombineField = 'rev', 'hoodie.record.merge.mode' = 'COMMIT_TIME_ORDERING'"
    ),
    "six": _goods(f"primaryKey = 'sku', preCombineField = 'rev', {_V6}"),
    "eight": _goods(f"primaryKey = 'sku', preCombineField = 'rev', {_V8}"),
    "nested": Target(
        "sku INT, tags ARRAY<STRING>, dims STRUCT<w: INT, h: INT>, more MAP<STRING, INT>, rev BIGINT",
        "primaryKey = 'sku', preCombineField = 'rev'",
        "(1, array('x'), named_struct('w', 1, 'h', 2), map('k', 1), 100), "
        "(2, array('y', 'z'), named_struct('w', 3, 'h', 4), map('j', 2), 100)",
        "SELECT sku, size(tags) AS n, tags[0] AS first, dims.w AS w, dims.h AS h, more['k'] AS k, rev FROM {t} "
        "ORDER BY sku",
    ),
    "typed": Target(
        "sku INT, price DECIMAL(10,2), day DATE, live BOOLEAN, big BIGINT, rate FLOAT, rev BIGINT",
        "primaryKey = 'sku', preCombineField = 'rev'",
        "(1, 9.99, DATE'2026-01-01', true, 10, 1.5, 100), (2, 19.50, DATE'2026-02-01', false, 20, 2.5, 100)",
        "SELECT sku, CAST(price AS DOUBLE) AS price, CAST(day AS STRING) AS day, live, big, CAST(rate AS DOUBLE) AS r, "
        "rev FROM {t} ORDER BY sku",
    ),
}


@dataclass(frozen=True)
class Script:
    """A merge into a new table.

    Attributes:
        target: the table, among `TARGETS`.
        kind: the table's type.
        merge: the statement; `{t}` stands for the table.
    """

    target: str
    kind: str
    merge: str

    @property
    def name(self) -> str:
        """A short name."""
        return f"{self.kind} {self.target}: {self.merge}"


def _source(*rows: str, columns: str = "sku, label, qty, cost, rev, shelf") -> str:
    names = [name.strip() for name in columns.split(",")]
    first, *others = rows
    named = ", ".join(f"{value.strip()} AS {name}" for value, name in zip(first.split(", "), names, strict=True))
    return f"(SELECT {named}" + "".join(f" UNION ALL SELECT {row}" for row in others) + ")"


_NEWS = _source("1, 'lamp2', 6, 3.0D, 110L, 'a'", "9, 'rug', 2, 15.0D, 110L, 'b'")
_LATE = _source("1, 'old', 0, 1.0D, 90L, 'a'", "2, 'new', 8, 5.0D, 120L, 'b'", "9, 'rug', 2, 15.0D, 90L, 'b'")
_MOVED = _source("1, 'moved', 6, 3.0D, 110L, 'c'", "2, 'kept', 8, 5.0D, 110L, 'b'", "9, 'rug', 2, 15.0D, 110L, 'c'")
_TWICE = _source(
    "1, 'one', 10, 1.0D, 110L, 'a'", "1, 'two', 20, 2.0D, 120L, 'a'", "1, 'three', 30, 3.0D, 115L, 'a'",
    "9, 'x', 1, 1.0D, 110L, 'b'", "9, 'y', 2, 2.0D, 130L, 'b'", "9, 'z', 3, 3.0D, 120L, 'b'",
)  # fmt: skip
_SAME = _source("1, 'one', 10, 1.0D, 110L, 'a'", "1, 'one', 10, 1.0D, 110L, 'a'", "9, 'x', 1, 1.0D, 110L, 'b'")
_BRIEF = _source("1, 6, 110L", "9, 2, 110L", columns="sku, qty, rev")
_RENAMED = _source("1, 'n', 6, 110L, 'a'", "9, 'm', 2, 110L, 'b'", columns="code, nm, many, at, place")
_ON = "ON t.sku = s.sku"
_STAR = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def _merge(source: str, rest: str) -> str:
    return f"MERGE INTO {{t}} t USING {source} s {rest}"


_INSERTED = "WHEN NOT MATCHED THEN INSERT (sku, label, qty, cost, rev, shelf) VALUES "

EXPRESSIONS = (
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = concat(t.label, '-', s.label), rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET qty = t.qty + s.qty, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET cost = CASE WHEN s.cost > t.cost THEN s.cost ELSE t.cost END, "
           "rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = CAST(s.qty AS STRING), rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET cost = greatest(s.cost, t.cost), rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND length(t.label) > 3 THEN UPDATE SET *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND upper(s.label) LIKE 'LAMP%' THEN UPDATE SET label = upper(s.label), "
           "rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED AND substring(s.label, 1, 1) = 'r' THEN INSERT *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET * {_INSERTED} "
           "(s.sku, concat(s.label, '!'), s.qty + 1, coalesce(s.cost, 0) * 2, s.rev, lower(s.shelf))"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET sku = s.sku, label = s.label, qty = s.qty, cost = t.cost + 1, "
           "rev = s.rev, shelf = s.shelf"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET cost = t.cost + 1, label = s.label, qty = s.qty, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, qty = s.qty, cost = s.cost, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = 'fixed', rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = NULL, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET qty = s.cost, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET cost = s.qty / 4, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = if(t.qty > s.qty, 'less', 'more'), rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.qty BETWEEN 1 AND 10 AND t.shelf IN ('a', 'b') THEN UPDATE SET *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND NOT (t.qty > 5) THEN UPDATE SET *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = trim(concat(' ', s.label, ' ')), rev = s.rev"),
)  # fmt: skip

SHAPES = (
    _merge(_NEWS, f"{_ON} {_STAR}"),
    _merge(_NEWS, f"{_ON} AND t.shelf = s.shelf {_STAR}"),
    _merge(_NEWS, f"ON s.sku = t.sku {_STAR}"),
    _merge(_source("1, 'a', 6, 'lamp2', 3.0D, 110L", "9, 'b', 2, 'rug', 15.0D, 110L",
                   columns="sku, shelf, qty, label, cost, rev"), f"{_ON} {_STAR}"),
    _merge(_source("1, 'L', 6, 3.0D, 110L, 'a'", "9, 'R', 2, 15.0D, 110L, 'b'",
                   columns="SKU, Label, QTY, Cost, REV, Shelf"), f"{_ON} {_STAR}"),
    _merge(_source("1, 'lamp2', 6, 3.0D, 110L, 'a', 'extra'", "9, 'rug', 2, 15.0D, 110L, 'b', 'extra'",
                   columns="sku, label, qty, cost, rev, shelf, note"), f"{_ON} {_STAR}"),
    _merge(_BRIEF, f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
    _merge(_BRIEF, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_BRIEF, f"{_ON} WHEN MATCHED THEN UPDATE SET qty = s.qty, rev = s.rev"),
    _merge(_RENAMED, "ON t.sku = s.code WHEN MATCHED THEN UPDATE SET label = s.nm, qty = s.many, rev = s.at "
           f"{_INSERTED} (s.code, s.nm, s.many, 1.0, s.at, s.place)"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET t.label = s.label, t.qty = s.qty, t.rev = s.rev"),
    _merge(_RENAMED, "ON sku = code WHEN MATCHED THEN UPDATE SET label = nm, qty = many, rev = at"),
    _merge(_NEWS, f"{_ON} {_INSERTED} (s.sku, s.label, s.qty, s.cost, s.rev, s.shelf)"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, rev, shelf) VALUES (s.sku, s.rev, s.shelf)"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (shelf, rev, label, sku) VALUES (s.shelf, s.rev, s.label, s.sku)"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET sku = s.sku, label = s.label, rev = s.rev, shelf = s.shelf"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET SKU = S.SKU, Label = S.LABEL, rev = s.rev"),
    "MERGE INTO {t} AS target USING " + _NEWS + " AS source ON target.sku = source.sku WHEN MATCHED THEN UPDATE SET "
    "target.label = source.label, target.rev = source.rev WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO {t} USING " + _NEWS + " s ON {t}.sku = s.sku WHEN MATCHED THEN UPDATE SET {t}.label = s.label, "
    "{t}.rev = s.rev",
)  # fmt: skip

CLAUSES = (
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN DELETE"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.qty > 5 THEN DELETE WHEN NOT MATCHED THEN INSERT *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND t.shelf = 'b' THEN DELETE WHEN MATCHED THEN UPDATE SET *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.qty > 100 THEN UPDATE SET * WHEN MATCHED AND s.qty > 5 THEN UPDATE SET "
           "label = 'second', rev = s.rev WHEN MATCHED THEN DELETE"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.qty > 100 THEN UPDATE SET *"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED AND s.qty > 100 THEN INSERT * WHEN NOT MATCHED AND s.qty < 5 THEN INSERT "
           "(sku, label, rev, shelf) VALUES (s.sku, 'few', s.rev, s.shelf)"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_LATE, f"{_ON} {_STAR}"),
    _merge(_LATE, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev"),
    _merge(_LATE, f"{_ON} WHEN MATCHED THEN DELETE"),
    _merge(_LATE, f"{_ON} WHEN MATCHED AND s.rev < 100 THEN DELETE WHEN MATCHED THEN UPDATE SET *"),
    _merge(_TWICE, f"{_ON} {_STAR}"),
    _merge(_TWICE, f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
    _merge(_TWICE, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev"),
    _merge(_TWICE, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_TWICE, f"{_ON} WHEN MATCHED THEN DELETE"),
    _merge(_SAME, f"{_ON} {_STAR}"),
    _merge(_SAME, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_source("1, 'a', 2, 1.0D, 110L, 'a'").replace(")", " WHERE 1 = 0)"), f"{_ON} {_STAR}"),
    _merge(_source("NULL, 'a', 2, 1.0D, 110L, 'a'"), f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
)  # fmt: skip

KEYS = (
    _merge(_MOVED, f"{_ON} {_STAR}"),
    _merge(_MOVED, f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
    _merge(_MOVED, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev, shelf = s.shelf"),
    _merge(_MOVED, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev"),
    _merge(_MOVED, f"{_ON} WHEN MATCHED THEN DELETE"),
    _merge(_MOVED, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET sku = s.sku + 1, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET sku = 5, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET shelf = 'z', rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET shelf = 'a', label = 'same', rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET shelf = t.shelf, label = 'same', rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = t.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label"),
)

WRONG = (
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET nope = s.qty, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET qty = s.nope, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.nope > 1 THEN UPDATE SET *"),
    _merge(_NEWS, f"ON t.nope = s.sku {_STAR}"),
    _merge(_NEWS, f"ON sku = s.sku {_STAR}"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (label, rev, shelf) VALUES (s.label, s.rev, s.shelf)"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, shelf) VALUES (s.sku, s.label, s.shelf)"),
    _merge(
        _NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, rev, shelf) VALUES (s.sku, t.label, s.rev, s.shelf)"
    ),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label) VALUES (s.sku)"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, label = s.shelf, rev = s.rev"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN INSERT *"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED AND t.qty > 1 THEN INSERT *"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET qty = 'many', rev = s.rev"),
    _merge(_source("'1', 'a', 2, 1.0D, 110L, 'a'"), f"{_ON} {_STAR}"),
    _merge(_source("1L, 'a', 2, 1.0D, 110L, 'a'"), f"{_ON} {_STAR}"),
    _merge(_source("1, 'a', 2, 1.0D, 110, 'a'"), f"{_ON} {_STAR}"),
    _merge(_source("1, 'a', 2, 1.0D, 110L, 7"), f"{_ON} {_STAR}"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.qty > 5 THEN DELETE WHEN MATCHED AND s.qty < 2 THEN DELETE"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET * WHEN MATCHED AND s.qty < 2 THEN DELETE"),
    _merge(_NEWS, f"ON t.sku = s.sku + 1 {_STAR}"),
    _merge(_NEWS, f"ON t.sku > s.sku {_STAR}"),
    _merge(_NEWS, "ON t.label = s.label WHEN MATCHED THEN UPDATE SET *"),
)

NESTED = tuple(
    _merge(
        "(SELECT 1 AS sku, array('p', 'q', 'r') AS tags, named_struct('w', 7, 'h', 8) AS dims, map('k', 9) AS more, "
        "110L AS rev UNION ALL SELECT 5, array('s'), named_struct('w', 5, 'h', 6), map('k', 5), 110L)",
        f"{_ON} {clauses}",
    )
    for clauses in (
        _STAR,
        "WHEN NOT MATCHED THEN INSERT *",
        "WHEN MATCHED THEN UPDATE SET tags = s.tags, rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET dims = s.dims, more = s.more, rev = s.rev",
        "WHEN MATCHED AND t.dims.w < s.dims.w THEN UPDATE SET dims = named_struct('w', s.dims.w, 'h', s.dims.h), "
        "rev = s.rev",
        "WHEN MATCHED AND array_contains(s.tags, 'q') THEN UPDATE SET tags = array(s.tags[0], 'made'), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET tags = concat(t.tags, s.tags), rev = s.rev",
        "WHEN MATCHED AND t.more['k'] = 1 THEN UPDATE SET more = map('k', s.rev), rev = s.rev",
        "WHEN MATCHED AND size(s.tags) > 9 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT (sku, tags, rev) "
        "VALUES (s.sku, array('only'), s.rev)",
    )
)

TYPED = tuple(
    _merge(
        "(SELECT 1 AS sku, CAST(11.25 AS DECIMAL(10,2)) AS price, DATE'2026-03-01' AS day, false AS live, "
        "30L AS big, CAST(3.5 AS FLOAT) AS rate, 110L AS rev UNION ALL "
        "SELECT 4, CAST(1.10 AS DECIMAL(10,2)), DATE'2026-04-01', true, 40L, CAST(4.5 AS FLOAT), 110L)",
        f"{_ON} {clauses}",
    )
    for clauses in (
        _STAR,
        "WHEN MATCHED THEN UPDATE SET price = t.price + s.price, rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET price = s.price * 1.5, rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET day = date_add(s.day, 1), rev = s.rev",
        "WHEN MATCHED AND t.day < s.day THEN UPDATE SET live = NOT t.live, rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET big = s.sku, rate = s.sku, rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET day = '2026-05-05', rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET big = '77', rev = s.rev",
        "WHEN NOT MATCHED THEN INSERT (sku, price, day, rev) VALUES (s.sku, s.sku, s.day, s.rev)",
    )
)

_BOTH_SIDES = tuple(
    _merge(_NEWS, f"{_ON} {clauses}")
    for clauses in (
        "WHEN MATCHED THEN UPDATE SET label = concat_ws('/', t.label, s.label, t.shelf), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET qty = greatest(t.qty, s.qty) + least(t.qty, s.qty), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET label = CASE WHEN t.qty < s.qty THEN concat(t.label, ' up') WHEN t.qty = s.qty "
        "THEN 'same' ELSE lower(s.label) END, rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET label = CAST(t.qty + s.qty AS STRING), rev = s.rev",
        "WHEN MATCHED AND length(t.label) < length(s.label) THEN UPDATE SET label = upper(t.label), rev = s.rev "
        "WHEN MATCHED THEN UPDATE SET *",
        "WHEN MATCHED AND substring(s.label, 1, 4) = t.label THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "WHEN MATCHED AND t.label LIKE concat('la', '%') AND s.qty % 2 = 0 THEN UPDATE SET qty = s.qty * t.qty, "
        "rev = s.rev WHEN NOT MATCHED AND upper(s.label) = 'RUG' THEN INSERT *",
        "WHEN MATCHED THEN UPDATE SET label = coalesce(nullif(t.shelf, 'a'), s.label), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET cost = round(t.cost / s.qty, 2), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET label = replace(t.label, 'a', s.shelf), cost = abs(t.cost - s.cost), "
        "rev = greatest(t.rev, s.rev)",
        "WHEN MATCHED AND t.qty IN (s.qty - 1, s.qty + 1) THEN UPDATE SET label = if(t.cost < s.cost, 'dearer', 'less'), "
        "rev = s.rev",
        "WHEN MATCHED AND t.qty <> 5 THEN UPDATE SET qty = s.qty DIV (t.qty - 5), rev = s.rev "
        "WHEN MATCHED THEN UPDATE SET label = concat('five ', s.label), rev = s.rev",
        "WHEN MATCHED AND t.qty + s.qty > 100 THEN UPDATE SET * WHEN MATCHED AND concat(t.label, s.shelf) = 'lampa' "
        "THEN UPDATE SET label = reverse(s.label), qty = length(t.label), rev = s.rev",
        "WHEN MATCHED AND trim(t.label) = 'vase' THEN DELETE WHEN MATCHED THEN UPDATE SET qty = -t.qty, rev = s.rev + 1 "
        f"{_INSERTED} (s.sku, initcap(s.label), s.qty * 10, s.cost / 2, s.rev, concat(s.shelf, s.shelf))",
    )
)

_DAYS = tuple(
    _merge(
        "(SELECT 1 AS sku, CAST(11.25 AS DECIMAL(10,2)) AS price, DATE'2026-03-01' AS day, false AS live, "
        "30L AS big, CAST(3.5 AS FLOAT) AS rate, 110L AS rev)",
        f"{_ON} {clauses}",
    )
    for clauses in (
        "WHEN MATCHED THEN UPDATE SET day = greatest(t.day, s.day), big = datediff(s.day, t.day), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET price = CAST(t.price * s.price AS DECIMAL(10,2)), rate = t.rate + s.rate, "
        "rev = s.rev",
        "WHEN MATCHED AND year(t.day) = year(s.day) THEN UPDATE SET live = t.price > s.price OR s.big > t.big, "
        "rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET big = CAST(concat(CAST(t.sku AS STRING), CAST(s.big AS STRING)) AS BIGINT), "
        "rev = s.rev",
    )
)

_COLLECTIONS = tuple(
    _merge(
        "(SELECT 1 AS sku, array('x', 'q') AS tags, named_struct('w', 7, 'h', 8) AS dims, map('k', 9) AS more, 110L AS rev)",
        f"{_ON} {clauses}",
    )
    for clauses in (
        "WHEN MATCHED THEN UPDATE SET tags = array(t.tags[0], s.tags[1]), rev = s.rev",
        "WHEN MATCHED THEN UPDATE SET dims = named_struct('w', t.dims.w + s.dims.w, 'h', s.dims.h), rev = s.rev",
        "WHEN MATCHED AND size(t.tags) < size(s.tags) THEN UPDATE SET more = map('k', t.more['k'] + s.more['k']), "
        "rev = s.rev",
        "WHEN MATCHED AND array_contains(s.tags, t.tags[0]) THEN UPDATE SET tags = concat(t.tags, s.tags), rev = s.rev",
        "WHEN MATCHED AND t.more['k'] = 1 AND t.dims.h < s.dims.w THEN UPDATE SET *",
    )
)

KEYLESS = (
    _merge(_NEWS, f"{_ON} {_STAR}"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label"),
    _merge(_NEWS, "ON t.label = 'lamp' AND s.sku = 1 WHEN MATCHED THEN UPDATE SET qty = s.qty"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN DELETE"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_NEWS, "ON t.qty < s.qty AND t.shelf = s.shelf WHEN MATCHED THEN UPDATE SET cost = s.cost"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET sku = 77, label = s.label"),
)


_LACKING = _source("1, 'lamp2', 6, 110L, 'a'", "9, 'rug', 2, 110L, 'b'", columns="sku, label, qty, rev, shelf")
_UNORDERED = _source("1, 'lamp2', 6, 3.0D, 'a'", "9, 'rug', 2, 15.0D, 'b'", columns="sku, label, qty, cost, shelf")

MISSING = (
    _merge(_BRIEF, f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
    _merge(_BRIEF, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_LACKING, f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
    _merge(_LACKING, f"{_ON} WHEN NOT MATCHED THEN INSERT *"),
    _merge(_UNORDERED, f"{_ON} WHEN MATCHED THEN UPDATE SET *"),
    _merge(_UNORDERED, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, qty = s.qty"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, shelf) VALUES (s.sku, s.label, s.shelf)"),
    _merge(_NEWS, f"{_ON} WHEN MATCHED AND s.qty > 100 THEN UPDATE SET label = s.label WHEN MATCHED THEN UPDATE SET *"),
    _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, rev) VALUES (s.sku, s.label, s.rev)"),
    _merge(_UNORDERED, f"{_ON} WHEN MATCHED THEN DELETE"),
)

MISTYPED = (
    *(
        _merge(_source(f"{key}, 'a', 2, 1.0D, 110L, 'a'"), f"{_ON} {_STAR}")
        for key in ("CAST(1 AS SMALLINT)", "1.0D", "CAST(1 AS DECIMAL(5,0))", "'1'", "true")
    ),
    *(
        _merge(_source(f"1, 'a', 2, 1.0D, {rev}, 'a'"), f"{_ON} {_STAR}")
        for rev in ("110", "'110'", "110.0D", "CAST(110 AS DECIMAL(5,0))", "DATE'2026-01-01'", "CAST(110 AS SMALLINT)")
    ),
    *(_merge(_source(f"1, 'a', 2, 1.0D, 110L, {shelf}"), f"{_ON} {_STAR}") for shelf in ("7", "DATE'2026-01-01'")),
    *(
        _merge(
            _source(f"{key}, 'a', 2, 1.0D, 110L, 'a'"),
            f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev",
        )
        for key in ("1L", "'1'", "1.0D", "CAST(1 AS SMALLINT)")
    ),
    *(
        _merge(_NEWS, f"{_ON} WHEN MATCHED THEN UPDATE SET label = s.label, rev = {rev}")
        for rev in ("s.qty", "'110'", "s.cost", "110", "CAST(s.rev AS STRING)", "NULL")
    ),
    *(
        _merge(_NEWS, f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, rev, shelf) VALUES ({values})")
        for values in (
            "CAST(s.sku AS BIGINT), s.label, s.rev, s.shelf",
            "s.sku, s.label, s.qty, s.shelf",
            "s.sku, s.label, s.label, s.shelf",
            "s.sku, s.label, s.rev, s.qty",
            "'9', s.label, s.rev, s.shelf",
            "s.sku, s.label, s.rev, NULL",
            "9, 'x', 110, 'b'",
            "s.sku, s.qty, s.rev, s.shelf",
        )
    ),
    _merge(
        _NEWS,
        f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, qty, cost, rev, shelf) VALUES "
        "(s.sku, s.label, s.cost, s.qty, s.rev, s.shelf)",
    ),
    _merge(
        _NEWS,
        f"{_ON} WHEN NOT MATCHED THEN INSERT (sku, label, qty, rev, shelf) VALUES "
        "(s.sku, s.label, s.label, s.rev, s.shelf)",
    ),
    _merge(_NEWS, f"ON t.sku = CAST(s.sku AS BIGINT) {_STAR}"),
    _merge(_NEWS, f"ON CAST(t.sku AS BIGINT) = s.rev {_STAR}"),
    _merge(
        _source(
            "1L, 'a', 2, 1.0D, 110L, 'a'", "9L, 'b', 2, 1.0D, 110L, 'b'", columns="code, label, qty, cost, rev, shelf"
        ),
        f"ON t.sku = s.code WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev {_INSERTED} "
        "(CAST(s.code AS INT), s.label, s.qty, s.cost, s.rev, s.shelf)",
    ),
    _merge(
        _source("'1', 'a', 2, 1.0D, 110L, 'a'", columns="code, label, qty, cost, rev, shelf"),
        "ON t.sku = s.code WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev",
    ),
)

ORDER_OF_CLAUSES = tuple(
    _merge(_NEWS, f"{_ON} {clauses}")
    for clauses in (
        "WHEN MATCHED AND s.qty > 5 THEN DELETE WHEN MATCHED AND s.qty < 2 THEN DELETE",
        "WHEN MATCHED AND s.qty > 5 THEN DELETE WHEN MATCHED THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET * WHEN MATCHED AND s.qty < 2 THEN DELETE",
        "WHEN MATCHED THEN DELETE WHEN MATCHED AND s.qty < 2 THEN UPDATE SET *",
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED AND s.qty < 2 THEN INSERT *",
        "WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN UPDATE SET *",
        "WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev, label = s.shelf",
        "WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev, LABEL = s.shelf",
        "WHEN MATCHED THEN UPDATE SET label = s.label, rev = s.rev, t.label = s.label",
        "WHEN NOT MATCHED THEN INSERT (sku, label, label, rev, shelf) VALUES (s.sku, s.label, s.shelf, s.rev, s.shelf)",
        "WHEN NOT MATCHED THEN INSERT (sku, label, rev, shelf) VALUES (s.sku, s.label, s.rev)",
        "WHEN MATCHED THEN UPDATE SET * WHEN MATCHED THEN UPDATE SET *",
    )
)


def _scripts() -> Iterator[Script]:
    product = (
        (("ordered", "plain"), EXPRESSIONS[:12]),
        (("ordered",), EXPRESSIONS[12:]),
        (("ordered", "plain", "flat"), SHAPES[:2]),
        (("ordered",), SHAPES[2:]),
        (("ordered", "plain"), CLAUSES),
        (("flat ordered",), CLAUSES[7:16]),
        (("ordered", "global", "plain"), KEYS),
        (("global plain", "global six"), KEYS[:4]),
        (("ordered",), WRONG),
        (("plain",), WRONG[6:7]),
        (("two keys",), (
            _merge(_NEWS, "ON t.sku = s.sku AND t.label = s.label " + _STAR),
            _merge(_NEWS, f"{_ON} {_STAR}"),
            _merge(_source("1, 'lamp', 50, 1.0D, 110L, 'q'"), "ON t.sku = s.sku AND t.label = s.label " + _STAR),
            _merge(_source("1, 'lamp', 50, 1.0D, 110L, 'q'"),
                   "ON t.sku = s.sku AND t.label = s.label WHEN MATCHED THEN UPDATE SET qty = s.qty + 1, rev = s.rev"),
        )),
        (("six", "eight"), (EXPRESSIONS[0], EXPRESSIONS[10], SHAPES[0], SHAPES[8], *CLAUSES[:2], CLAUSES[9],
                            CLAUSES[11], KEYS[0])),
        (("nested",), NESTED),
        (("typed",), TYPED),
        (("keyless",), KEYLESS),
        (("ordered",), _BOTH_SIDES),
        (("plain",), _BOTH_SIDES[2:8:2]),
        (("six", "eight", "flat ordered"), _BOTH_SIDES[1:10:4]),
        (("global",), _BOTH_SIDES[3:13:3]),
        (("typed",), _DAYS),
        (("nested",), _COLLECTIONS),
        (("ordered", "six", "eight", "plain", "commit time"), MISSING),
        (("ordered",), MISTYPED),
        (("plain", "six"), MISTYPED[0:22:3]),
        (("ordered",), ORDER_OF_CLAUSES),
        (("six",), ORDER_OF_CLAUSES[:8:2]),
    )  # fmt: skip
    for targets, merges in product:
        for target in targets:
            for merge in merges:
                for kind in ("cow", "mor"):
                    yield Script(target, kind, merge)


SCRIPTS = tuple(_scripts())


def run_script(script: Script, path: Path, sql: Callable[[str], Any], name: str) -> dict[str, Any]:
    """Run a script: the rows after it, or the error of the merge."""
    target = TARGETS[script.target]
    placed = f"PARTITIONED BY ({target.partition})" if target.partition else ""
    properties = f"type = '{script.kind}', {target.properties}"
    sql(f"CREATE TABLE {name} ({target.columns}) USING hudi TBLPROPERTIES ({properties}) {placed} LOCATION '{path}'")
    rows = target.rows[1:-1].split("), (") if script.target != "nested" else []
    if rows:
        sql(f"INSERT INTO {name} VALUES {target.rows}")
    else:
        first, second = target.rows.split("), (2")
        sql(f"INSERT INTO {name} SELECT {first[1:]} UNION ALL SELECT 2{second[:-1]}")
    try:
        sql(script.merge.replace("{t}", name))
        return {"rows": [list(row) for row in sql(target.query.replace("{t}", name))]}
    except Exception as error:  # noqa: BLE001 - of Spark, Py4J or pudi
        return {"error": str(error).splitlines()[0][:300]}


def answers() -> dict[str, Any]:
    """The rows that Hudi gave, or that it gave an error, by the name of the script."""
    return dict(json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines())


def expected() -> dict[str, Any]:
    """The answers that pudi gives, by the name of the script."""
    known = answers()
    for script in SCRIPTS:
        twin = known.get(replace(script, kind="cow").name, {})
        if script.name not in known and "t." in script.merge.partition(" WHEN ")[2] and "rows" in twin:
            known[script.name] = twin
    return known


if __name__ == "__main__":
    import sys
    import tempfile
    import time

    from support import hudi
    from support import spark as spark_support

    folder = Path(tempfile.mkdtemp())
    session = spark_support.start(folder, hudi.SESSION)
    for key, value in hudi.SMALL.items():
        session.sql(f"SET {key}={value}")
    golden = answers() if GOLDEN.exists() else {}
    started = time.monotonic()
    for number, script in enumerate(SCRIPTS):
        if script.name in golden or not all(word in script.name for word in sys.argv[1:]):
            continue
        golden[script.name] = run_script(
            script, folder / f"t{number}", lambda text: [tuple(r) for r in session.sql(text).collect()], f"m{number}"
        )
        session.sql(f"DROP TABLE IF EXISTS m{number}")
        print(number, round(time.monotonic() - started), script.name, golden[script.name], flush=True)
    lines = [json.dumps([each.name, golden[each.name]], ensure_ascii=False) for each in SCRIPTS if each.name in golden]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
