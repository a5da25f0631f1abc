"""`scan(keys=…)`: the rows that equal one of a small side, from the files that can hold them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pudi
from support.engines import Engine

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("city", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("f", pa.float64()),
    ]
)
CITIES = ["nyc", "sf", "la", None]
METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
AT = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)


def row(n: int, /, **changed: Any) -> dict[str, Any]:
    return {
        "id": f"k{n:03}",
        "n": None if n % 11 == 0 else n,
        "city": CITIES[n % 4],
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=n % 30),
        "price": Decimal(n) / 4,
        "at": AT + dt.timedelta(hours=n),
        "f": n / 2,
        **changed,
    }


ROWS = [row(n) for n in range(80)]


def make(path: Path, table_type: str = "cow", options: dict[str, str] | None = None, **roles: Any) -> pudi.Table:
    roles = {"record_key": "id", "partition_by": "city", **roles}
    made = pudi.create(path, SCHEMA, table_type=table_type, options=METADATA | (options or {}), **roles)
    made.insert(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


def ids(engine: Engine, scan: pudi.Scan) -> list[str]:
    return sorted(str(each["id"]) for each in engine.read(scan))


def test_rows_that_match_by_values_and_types(tmp_path: Path, engine: Engine) -> None:
    table = make(tmp_path / "t", "mor")
    table.upsert(pa.Table.from_pylist([row(1, n=7000), row(200)], SCHEMA))  # to log files
    table.delete(pa.table({"id": ["k002"], "city": ["la"]}))

    def found(**columns: Any) -> list[str]:
        return ids(engine, table.scan(["id"], keys=pa.table(columns)))

    pairs = {"id": [f"k{n:03}" for n in range(80)], "n": pa.array([n + n % 2 for n in range(80)])}
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"id": ["k005", "k005", "k002", "none", None]}, ["k005"]),
        (pairs, [f"k{n:03}" for n in range(4, 80, 2) if n % 11]),
        ({"city": ["nyc", None], "n": [8, 9]}, ["k008"]),
        ({"n": pa.array([7000, 5, 2**40, None])}, ["k001", "k005"]),
        ({"n": pa.array([5.0, 6.5])}, ["k005"]),
        ({"n": pa.array([Decimal("5.00"), Decimal("6.50")])}, ["k005"]),
        ({"price": pa.array([2, 3])}, ["k008", "k012"]),
        ({"day": [dt.date(2024, 1, 6)]}, ["k005", "k035", "k065"]),
        ({"at": pa.array([AT + dt.timedelta(hours=9), AT], pa.timestamp("ns", tz="UTC"))}, ["k000", "k009"]),
        ({"id": pa.array([], pa.string())}, []),
        ({"id": pa.nulls(3)}, []),
    ]
    for columns, wanted in cases[:2] if engine.name == "spark" else cases:
        assert found(**columns) == wanted, columns
    if engine.name == "local":
        assert ids(engine, table.scan(["id"], "n > 6", keys=pa.table({"city": ["sf"]}), limit=3)) != []
    many = pa.table({"n": [n for n in range(1000) if n not in {5, 6, 7}]})
    wanted = [f"k{n:03}" for n in range(3, 80) if n % 11 and n not in {5, 6, 7}] + ["k200"]
    assert ids(engine, table.scan(["id"], keys=many)) == wanted
    assert engine.columns(table.scan(keys=many, meta_fields=False)) == SCHEMA.names


def test_frames_of_every_kind_are_a_small_side(tmp_path: Path, engine: Engine) -> None:
    table = make(tmp_path / "t")
    side = pa.table({"id": ["k003", "k004", "k004"], "n": pa.array([3, 5, 4])})
    assert ids(engine, table.scan(["id"], keys=engine.frame(side))) == ["k003", "k004"]
    if engine.name == "local":
        assert ids(engine, table.scan(["id"], keys=pd.DataFrame({"n": [3.0, None]}))) == ["k003"]
        first = table.timeline.commits[0].requested
        table.delete(where="n = 3")
        assert ids(engine, table.scan(["id"], keys=side, as_of=first)) == ["k003", "k004"]
        assert ids(engine, table.scan(["id"], keys=side)) == ["k004"]


INDEXES = {
    "record_index": ({"hoodie.metadata.global.record.level.index.enable": "true"}, "record_index"),
    "bloom": ({"hoodie.metadata.index.bloom.filter.enable": "true"}, "bloom_filters"),
    "statistics": ({}, "column_stats"),
}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("index", INDEXES)
def test_files_are_pruned_by_every_index(tmp_path: Path, index: str, table_type: str) -> None:
    options, name = INDEXES[index]
    table = make(tmp_path / "t", table_type, options)
    if table_type == "mor" and index == "record_index":
        table.upsert(pa.Table.from_pylist([row(5, n=-5)], SCHEMA))
    scan = table.scan(["id"], keys=pa.table({"id": ["k005", "zzz"] if index != "statistics" else ["k000"]}))
    text = scan.explain()
    assert f"index       {name} kept " in text
    assert len(scan.plan.slices) == 1 if index != "statistics" else len(scan.plan.slices) < 4
    assert len(scan.to_arrow()) == 1
    assert "keys        2 of id" in text or index == "statistics"


def test_partitions_secondary_indexes_and_many_keys_prune(tmp_path: Path) -> None:
    options = {"hoodie.metadata.global.record.level.index.enable": "true"}
    table = make(tmp_path / "t", options=options)
    scan = table.scan(["id"], keys=pa.table({"city": ["sf"], "n": [5]}))
    assert "(2 pruned by partition)" in scan.explain()  # the folder of nulls may hold any value
    assert scan.to_arrow()["id"].to_pylist() == ["k005"]
    table.create_index("secondary_index", columns=["n"], name="by_n")
    scan = table.scan(["id"], keys=pa.table({"n": [5, 6]}))
    assert "secondary_index_by_n kept 2 of 4" in scan.explain()
    assert sorted(scan.to_arrow()["id"].to_pylist()) == ["k005", "k006"]
    many = pa.table({"id": [f"k{4 * n:03}" for n in range(20)] + [f"x{n}" for n in range(20_000)]})
    scan = table.scan(["id"], keys=many)
    assert "record_index kept 1 of 4" in scan.explain()
    assert len(scan.to_arrow()) == 20


def test_wrong_sides_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for side, error, text in [
        (pa.table({"nope": [1]}), pudi.InvalidArgumentError, "'nope', which the table doesn't have"),
        (pa.table({}), pudi.InvalidArgumentError, "no columns"),
        (pa.table({"n": ["5"]}), pudi.InvalidArgumentError, "'n' of type string, and the table int32"),
        (pa.table({"at": [dt.datetime(2024, 1, 1)]}), pudi.InvalidArgumentError, "'at' of type timestamp"),
        (pa.table({"f": [1.0]}), pudi.NotSupportedError, "'f', of type double"),
        (pa.table({"n": pa.array(range(1_000_001))}), pudi.InvalidArgumentError, "1,000,001 distinct rows"),
        ([1], pudi.InvalidArgumentError, "list"),
    ]:
        with pytest.raises(error, match=text):
            table.scan(keys=side)
