"""Columns of frames in every layout: written with their nulls and slices, or refused by name before any work."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pudi
from pudi.schema import types as schema_types

HALVES = [Decimal("1.50"), None] * 2
DAYS = [dt.date(2020, 1, 1), None] * 2
TEXTS = ["x", None, "y", "x"]
LISTS = [["x", None], None, [], ["y"]]
STRUCTS = [{"a": "x"}, None, {"a": None}, {"a": "y"}]
NUMBERS = [5, None, 7, 5]
IDS = [1, 2, 3, 4]


def polars_of(kind: Any, values: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"id": IDS}).with_columns(pl.Series("c", values).cast(kind))


def pandas_of(column: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": pd.array(IDS, dtype="Int64"), "c": column})


def arrow_of(column: pa.Array) -> pa.Table:
    return pa.table({"id": IDS, "c": column})


def coded(values: list[Any], kind: pa.DataType, codes: pa.DataType | None = None) -> pa.Array:
    known = list(dict.fromkeys(each for each in values if each is not None))
    at = [None if each is None else known.index(each) for each in values]
    return pa.DictionaryArray.from_arrays(pa.array(at, codes or pa.int8()), pa.array(known, kind))


CASES: dict[str, tuple[Any, list[Any]]] = {
    "categorical": (polars_of(pl.Categorical, TEXTS), TEXTS),
    "enum": (polars_of(pl.Enum(["y", "x"]), TEXTS), TEXTS),
    "enum of nulls": (polars_of(pl.Enum(["y"]), [None] * 4), [None] * 4),
    "list of categoricals": (polars_of(pl.List(pl.Categorical), LISTS), LISTS),
    "list of enums": (polars_of(pl.List(pl.Enum(["x", "y"])), LISTS), LISTS),
    "struct of categoricals": (polars_of(pl.Struct({"a": pl.Categorical}), STRUCTS), STRUCTS),
    "polars texts": (polars_of(pl.String, TEXTS), TEXTS),
    "polars bytes": (polars_of(pl.Binary, [b"x", None, b"", b"y"]), [b"x", None, b"", b"y"]),
    "pandas categorical": (pandas_of(pd.Categorical(TEXTS)), TEXTS),
    "pandas ordered categorical": (pandas_of(pd.Categorical(TEXTS, ["y", "x"], ordered=True)), TEXTS),
    "pandas categorical of numbers": (pandas_of(pd.Categorical(NUMBERS)), NUMBERS),
    "pandas string": (pandas_of(pd.array(TEXTS, dtype="string")), TEXTS),
    "pandas Int8": (pandas_of(pd.array(NUMBERS, dtype="Int8")), NUMBERS),
    "pandas UInt16": (pandas_of(pd.array(NUMBERS, dtype="UInt16")), NUMBERS),
    "pandas boolean": (pandas_of(pd.array([True, None, False, True], dtype="boolean")), [True, None, False, True]),
    "pandas Float32": (pandas_of(pd.array([1.5, None, 2.5, 1.5], dtype="Float32")), [1.5, None, 2.5, 1.5]),
    "arrow-backed texts": (pandas_of(pd.array(TEXTS, dtype=pd.ArrowDtype(pa.string()))), TEXTS),
    "arrow-backed codes": (pandas_of(pd.array(pa.array(TEXTS).dictionary_encode(), dtype=None)), TEXTS),
    "arrow-backed lists": (pandas_of(pd.array(LISTS, dtype=pd.ArrowDtype(pa.list_(pa.string())))), LISTS),
    "string_view": (arrow_of(pa.array(TEXTS, pa.string_view())), TEXTS),
    "binary_view": (arrow_of(pa.array([b"x", None, b"", b"y"], pa.binary_view())), [b"x", None, b"", b"y"]),
    "codes of views": (arrow_of(coded(TEXTS, pa.string_view(), pa.uint32())), TEXTS),
    "codes of large texts": (arrow_of(coded(TEXTS, pa.large_string())), TEXTS),
    "codes of numbers": (arrow_of(coded(NUMBERS, pa.int64())), NUMBERS),
    "codes of days": (arrow_of(coded(DAYS, pa.date32())), DAYS),
    "codes of decimals": (arrow_of(coded(HALVES, pa.decimal128(5, 2))), HALVES),
    "lists of codes": (arrow_of(pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string())))), LISTS),
    "structs of views": (arrow_of(pa.array(STRUCTS, pa.struct({"a": pa.string_view()}))), STRUCTS),
}


@pytest.mark.parametrize("case", CASES)
def test_values_nulls_and_slices_are_written(tmp_path: Path, case: str) -> None:
    data, values = CASES[case]
    if "view" in case and not schema_types.casts_views():
        pytest.skip("refused: see below")
    table = pudi.create(tmp_path / "t", data, record_key="id")

    def cut(start: int, end: int) -> Any:
        return data.slice(start, end - start) if hasattr(data, "slice") else data[start:end]

    table.insert(cut(1, 3))
    table.upsert(data)
    table.upsert(cut(2, 4))
    found = table.scan(["id", "c"]).to_arrow().sort_by("id")
    assert found["c"].to_pylist() == values
    assert not pa.types.is_dictionary(found.schema.field("c").type)
    assert table.upsert(cut(0, 0)) is None


REFUSED: dict[str, tuple[Any, str]] = {
    "objects": (
        pl.DataFrame({"id": IDS, "c": [object()] * 4}, schema_overrides={"c": pl.Object}),
        "column 'c'.*Object",
    ),
    "Int128": (pl.DataFrame({"id": IDS, "c": IDS}, schema_overrides={"c": pl.Int128}), "column 'c'.*Int128"),
    "time": (pl.DataFrame({"id": IDS, "c": [dt.time(1)] * 4}), "column 'c' has type time64"),
    "duration": (pl.DataFrame({"id": IDS, "c": [dt.timedelta(1)] * 4}), "column 'c' has type duration"),
    "intervals": (pandas_of(pd.interval_range(0, 4)), "column 'c' has type extension"),
    "periods": (pandas_of(pd.period_range("2020-01", periods=4, freq="M")), "column 'c' has type extension"),
    "sparse": (pandas_of(pd.arrays.SparseArray([1, 0, 0, 2])), "column c"),
    "complex": (pandas_of([1j, 2j, 3j, 4j]), "column c"),
    "codes of unsigned": (arrow_of(coded([1, 2, 3, 4], pa.uint64())), "column 'c' has type uint64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_table_can_hold_is_refused_by_name(tmp_path: Path, case: str) -> None:
    data, message = REFUSED[case]
    with pytest.raises(pudi.SchemaError, match=message):
        pudi.write(tmp_path / "t", data, record_key="id")
    assert not pudi.exists(tmp_path / "t")
    table = pudi.create(tmp_path / "t", {"id": "long", "c": "string"}, record_key="id")
    for verb in (table.insert, table.upsert, table.bulk_insert):
        with pytest.raises(pudi.SchemaError, match=r"column '?c'?"):
            verb(data)
    assert not table.timeline.instants


def test_views_are_refused_by_name_where_pyarrow_cant_cast_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with pyarrow 17; polars then gives its texts and categories in another layout."""
    for module in ("pudi.schema.types", "pudi.engine.local.records"):
        monkeypatch.setattr(f"{module}.casts_views", lambda: False)
    with pytest.raises(pudi.SchemaError, match=r"column 'c\.a' has type string_view, which pyarrow"):
        pudi.write(tmp_path / "t", CASES["structs of views"][0], record_key="id")
    with pytest.raises(pudi.SchemaError, match="column 'c' has type string_view"):
        pudi.write(tmp_path / "t", CASES["codes of views"][0], record_key="id")
    for number, case in enumerate(("categorical", "enum", "list of enums", "polars texts", "polars bytes")):
        data, values = CASES[case]
        pudi.write(tmp_path / str(number), data, record_key="id")
        assert pudi.read(tmp_path / str(number)).to_arrow().sort_by("id")["c"].to_pylist() == values
    assert schema_types.casts_views() is False
