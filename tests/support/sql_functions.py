"""Expressions over a table of hostile values, and what Spark 3.5 gives for them.

`python -m support.sql_functions` runs them by a stock session and writes `tests/golden/sql_functions.jsonl`.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pudi

GOLDEN = Path(__file__).parents[1] / "golden" / "sql_functions.jsonl"

_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Days of the Gregorian calendar in old years too."""
_UTC = dt.timezone.utc
_MOST, _LEAST = 2**63 - 1, -(2**63)
_INF, _NAN = math.inf, math.nan


def _day(text: str | None) -> dt.date | None:
    return None if text is None else dt.date.fromisoformat(text)


def _at(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text).replace(tzinfo=_UTC)


_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None, 7, -7, 3, 10, 100, 5, -3, 2]),
    "k": (pa.int32(), [1, 2, -2, 0, 3, 1, -1, 5, -5, 4, 12, 0, 2, 1]),
    "n": (pa.int64(), [0, -1, _MOST, _LEAST, None, 10**12, 7, -7, 2**31, 86400, 1700000000, 9007199254740993, 3, -2]),
    "h": (pa.int16(), [0, 32767, -32768, None, 7, -7, 1, 2, 3, 4, 5, 6, -1, 9]),
    "y": (pa.int8(), [127, -128, None, 0, 7, -7, 1, 2, 3, 4, 5, 6, -1, 9]),
    "f": (pa.float32(), [0.1, -0.0, _NAN, _INF, -_INF, None, 1.5, 2.5, -2.5, 3.4e38, 16777216.0, 0.3, 1e-45, 100.0]),
    "d": (
        pa.float64(),
        [0.1, -0.0, _NAN, _INF, -_INF, None, 1.5, 2.5, -2.5, 1e308, 5e-324, 123456789.987, 1e21, 0.5],
    ),
    "m": (
        pa.decimal128(10, 2),
        [None if text is None else Decimal(text) for text in (
            "2.50", "-2.50", "0.00", "99999999.99", "-99999999.99", None, "0.05", "1.25", "-0.01", "3.00", "2.49",
            "-1.50", "0.50", "10.00",
        )],
    ),
    "w": (
        pa.decimal128(38, 10),
        [None if text is None else Decimal(text) for text in (
            "9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0.0000000001", None,
            "1.5", "2.5", "-2.5", "0", "12345678901234567890.5", "3", "7.77", "1e9", "0.1", "-1",
        )],
    ),
    "s": (
        pa.string(),
        ["abc", "", None, "ß", "Straße", "İi ǆ", "  pad ", "A_b", "a%b", "10", " 12 ", "😀x\U0001f468y", "a\\b",
         "it's Éa"],
    ),
    "v": (
        pa.string(),
        ["2024-02-29", "2024-1-5", None, "", "1.5", "true", "NaN", "1e3", "\t7\n", "2024-02-30", "2147483648", "-0",
         "2024-01-05 23:59:59.5", "AbxAb_cAb"],
    ),
    "p": (pa.string(), ["b", "", "a", None, "ß", "i", " ", "A_", "%", "1", "0", "x", "\\", "É"]),
    "day": (
        pa.date32(),
        [_day(text) for text in (
            "2024-02-29", "1970-01-01", "1969-12-31", "0002-03-01", "9998-10-31", None, "2024-01-31", "2023-12-31",
            "2024-12-30", "2021-01-03", "2000-03-01", "2024-07-07", "1900-02-28", "2023-01-01",
        )],
    ),
    "e": (
        pa.date32(),
        [_day(text) for text in (
            "2024-01-31", "2024-03-30", "1970-01-01", "2024-02-29", "1999-12-31", "2024-01-01", None, "2024-01-01",
            "2025-01-01", "2020-12-31", "2001-02-28", "2024-07-01", "2000-02-29", "2023-12-31",
        )],
    ),
    "t": (
        pa.timestamp("us", tz="UTC"),
        [_at(text) for text in (
            "2024-01-01T00:00:00", "2023-12-31T23:59:59.999999", "1969-12-31T23:59:59.500000", "0002-03-01T00:00:00",
            "9998-10-31T23:59:59.999999", None, "1970-01-01T00:00:00", "2024-02-29T12:34:56.789000",
            "2024-12-30T01:02:03", "2021-01-03T13:00:00.100000", "2000-03-01T00:00:00.000001", "2024-07-07T07:07:07",
            "1900-02-28T23:00:00", "2023-10-29T02:30:00",
        )],
    ),
    "c": (
        pa.timestamp("us", tz="UTC"),
        [_at(text) for text in (
            "2024-01-31T10:00:00", "2024-01-01T00:00:00", "1970-01-01T00:00:00", None, "2024-02-29T23:59:59",
            "2024-01-01T00:00:00", "2000-01-01T00:00:00", "2024-01-29T12:34:56.789000", "2024-11-30T01:02:03",
            "2021-01-03T12:59:59.900000", "1999-03-31T18:00:00", "2024-07-07T07:07:07", "1900-02-28T22:59:59",
            "2023-10-29T02:30:00.000001",
        )],
    ),
    "b": (pa.bool_(), [True, False, None, True, False, True, False, None, True, False, True, False, True, None]),
    "x": (
        pa.binary(),
        [b"abc", b"", None, b"\xff\xfe", b"\x00", b"10", b"A_b", b" ", "ß".encode(), b"%", b"a", b"z" * 10, b"\\",
         b"0"],
    ),
    "l": (
        pa.list_(pa.int32()),
        [[1, 2, 3], [], None, [None], [3, 1, 2], [7, 7], [0], [-1, None, 5], [10], [2, 1], [5], [100], [1, 2],
         [9, None]],
    ),
    "q": (
        pa.map_(pa.string(), pa.int32()),
        [{"a": 1}, {}, None, {"a": None}, {"b": 2, "a": 3}, {"x": 1}, {"": 5}, {"A": 1}, {"a": 7}, {"b": 1}, {"c": 2},
         {"a": -1}, {"a": 0, "b": 0}, {"k": 9}],
    ),
    "st": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": ""}, None, {"x": 3, "y": None},
         *({"x": n, "y": str(n)} for n in range(10))],
    ),
}  # fmt: skip
COLUMNS = ("id", *_COLUMNS)


def rows() -> pa.Table:
    """The table."""
    made = {"id": pa.array(range(14), pa.int32())}
    for name, (kind, values) in _COLUMNS.items():
        items = [None if v is None else list(v.items()) for v in values] if name == "q" else values
        made[name] = pa.array(items, kind)
    return pa.table(made)


@dataclass(frozen=True)
class Case:
    """An expression or a query.

    Attributes:
        sql: its text.
        form: `row`, `group` or `window` of an expression, `query`.
        local: what it is on one machine: `equal`; `close`, which may differ in the last digit of a floating point
            number; `refused` by name; `error`, where a value has no room in its type.
        spark: what Spark gives, one text for each row; None if it is refused.
    """

    sql: str
    form: str
    local: str
    spark: list[Any] | None = None


def cases() -> list[Case]:
    """The cases, with what Spark gave."""
    return [Case(*json.loads(line)) for line in GOLDEN.read_text("utf-8").splitlines()]


def shown(value: Any) -> Any:
    """A value as a text that tells it from any other of its type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, dict):
        return [[name, shown(each)] for name, each in value.items()]
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    return repr(value) if isinstance(value, float) else str(value)


def of_spark(spark: Any, folder: Path, wanted: list[Case]) -> list[list[Any]]:
    """What Spark gives for some cases: expressions of one form are columns of one query."""
    pq.write_table(rows(), folder / "t.parquet")
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    spark.read.parquet(str(folder / "t.parquet")).createOrReplaceTempView("t")
    found: dict[str, list[Any]] = {}
    for form in ("row", "group", "window"):
        mine = [each.sql for each in wanted if each.form == form]
        if mine:
            chosen = ", ".join(f"{sql} AS r{number}" for number, sql in enumerate(mine))
            path = folder / form
            spark.sql(f"SELECT {'max(id)' if form == 'group' else 'id'} AS id, {chosen} FROM t").write.parquet(
                str(path)
            )
            table = pq.read_table(path).sort_by("id")
            found |= {sql: shown(table[f"r{number}"].to_pylist()) for number, sql in enumerate(mine)}
    for case in wanted:
        if case.form == "query":
            found[case.sql] = [shown(list(row)) for row in spark.sql(case.sql).collect()]
    for name in _SETTINGS:
        spark.conf.unset(name)
    return [found[case.sql] for case in wanted]


def of_local(wanted: list[Case]) -> list[list[Any]]:
    """What some cases give on one machine; expressions of one form are columns of one query."""
    found: dict[str, list[Any]] = {}
    for form, order in (("row", "id"), ("group", "1"), ("window", "id")):
        mine = [each.sql for each in wanted if each.form == form]
        if mine:
            chosen = ", ".join(f"{sql} AS r{number}" for number, sql in enumerate(mine))
            table = pudi.sql(f"SELECT {chosen}{'' if form == 'group' else ', id'} FROM t ORDER BY {order}", t=rows())
            found |= {sql: shown(table[f"r{number}"].to_pylist()) for number, sql in enumerate(mine)}
    for case in wanted:
        if case.form == "query":
            columns = pudi.sql(case.sql, t=rows()).columns
            found[case.sql] = [shown(list(row)) for row in zip(*(each.to_pylist() for each in columns), strict=True)]
    return [found[case.sql] for case in wanted]


def main() -> None:
    """Run all cases again, and write what they gave."""
    import tempfile

    from support import spark as spark_support

    with tempfile.TemporaryDirectory() as folder:
        spark = spark_support.start(Path(folder), {})
        kept = [each for each in cases() if each.spark is not None]
        answers = dict(zip((each.sql for each in kept), of_spark(spark, Path(folder), kept), strict=True))
        made = [replace(each, spark=answers.get(each.sql)) for each in cases()]
        lines = [json.dumps([each.sql, each.form, each.local, each.spark], ensure_ascii=False) for each in made]
        GOLDEN.write_text("\n".join(lines) + "\n", "utf-8")
        spark.stop()


if __name__ == "__main__":
    main()
