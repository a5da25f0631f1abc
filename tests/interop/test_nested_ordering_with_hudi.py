"""Records ordered by a field of a struct: Hudi and pudi make such tables, continue each other's, and read the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.hudi import HudiTable, table_options
from support.rows import from_arrow

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NO_STRUCT = object()
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def schema_of(kind: pa.DataType) -> pa.Schema:
    inside = pa.struct([("c", pa.string()), ("d", pa.struct([("b", kind)]))])
    return pa.schema([("id", pa.string()), ("a", inside), ("v", pa.string())])


SCHEMA = schema_of(pa.int64())
KEYS = [f"k{number}" for number in range(10)]


def rows(*given: tuple[str, Any, str], schema: pa.Schema = SCHEMA) -> pa.Table:
    made = [
        {"id": key, "a": None if order is NO_STRUCT else {"c": text, "d": {"b": order}}, "v": text}
        for key, order, text in given
    ]
    return pa.Table.from_pylist(made, schema=schema)


def values(hudi: HudiTable) -> dict[str, str]:
    """The texts by key, alike to both."""
    mine = from_arrow(pudi.Table(hudi.path).scan(meta_fields=False).to_arrow())
    theirs = [{name: row[name] for name in SCHEMA.names} for row in hudi.snapshot()]
    assert sorted(map(str, theirs)) == sorted(map(str, mine))
    return {row["id"]: row["v"] for row in mine}


def opened(spark: Any, path: Path, kind: str, version: int, blocks: str) -> tuple[HudiTable, pudi.Table]:
    """A table without commits, by pudi, as both take it."""
    options = {"hoodie.logfile.data.block.format": blocks}
    theirs = options | {"hoodie.datasource.write.table.type": KINDS[kind], "hoodie.compact.inline": "false"}
    hudi = HudiTable(spark, path, table_options(path.name, "id", None, "a.d.b", version=version) | theirs)
    described = {"record_key": "id", "ordering": "a.d.b", "table_type": kind}
    made = pudi.create(path, SCHEMA, **described, options={"hoodie.write.table.version": str(version)})
    return hudi, pudi.Table(made.path, options=options)


CASES = [
    ("mor", 9, "avro"),
    ("mor", 6, "parquet"),
    ("mor", 8, "avro"),
    ("cow", 9, "parquet"),
    ("mor", 9, "parquet"),
    ("mor", 6, "avro"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "version", "blocks"), CASES)
def test_hudi_continues_a_table_of_pudi(spark: Any, tmp_path: Path, kind: str, version: int, blocks: str) -> None:
    hudi, table = opened(spark, tmp_path / "t", kind, version, blocks)
    table.bulk_insert(rows(*((key, 5, "old") for key in KEYS)))
    table.upsert(rows(("k0", 4, "late"), ("k1", 7, "new"), ("k1", 6, "late in its batch")))
    table.delete(pa.table({"id": ["k2"]}))
    hudi.write("upsert", rows(("k1", 6, "late"), ("k3", 4, "late"), ("k4", 8, "new"), ("k4", 7, "late in its batch")))
    expected = {key: "old" for key in KEYS if key != "k2"} | {"k1": "new", "k4": "new"}
    assert values(hudi) == expected
    table.merge(
        rows(("k4", 7, "late"), ("k5", 6, "new"), ("n", 1, "first"))
    ).when_matched_update().when_not_matched_insert().execute()
    hudi.write("delete", rows(("k6", 9, "")))
    expected |= {"k5": "new", "n": "first"}
    del expected["k6"]
    assert values(hudi) == expected
    if kind == "mor":
        hudi.write("upsert", rows(("k2", 4, "late after its delete"), ("k7", 6, "new")))
        expected["k7"] = "new"
        assert values(hudi) == expected, "the delete in the log file has the value of the deleted record"
        table.compact()
        assert values(hudi) == expected
    hudi.write("upsert", rows(("k7", 2, "late"), ("k8", 5, "tie")))
    assert values(hudi) == expected | {"k8": "tie"}
    assert table.check().ok, table.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "version", "blocks"), CASES[1:] + CASES[:1])
def test_pudi_continues_a_table_of_hudi(spark: Any, tmp_path: Path, kind: str, version: int, blocks: str) -> None:
    options = {"hoodie.logfile.data.block.format": blocks, "hoodie.datasource.write.table.type": KINDS[kind]}
    given = table_options("t", "id", None, "a.d.b", version=version) | options
    hudi = HudiTable(spark, tmp_path / "t", given | {"hoodie.compact.inline": "false"})
    hudi.write("bulk_insert", rows(*((key, 5, "old") for key in KEYS)), "overwrite")
    hudi.write("upsert", rows(("k0", 4, "late"), ("k1", 7, "new"), ("k1", 6, "late in its batch")))
    table = pudi.Table(hudi.path, options={"hoodie.logfile.data.block.format": blocks})
    assert table.config.ordering_fields == ("a.d.b",)
    expected = dict.fromkeys(KEYS, "old") | {"k1": "new"}
    assert values(hudi) == expected
    table.upsert(rows(("k1", 6, "late"), ("k2", 6, "new"), ("k3", 4, "late")))
    table.delete(where="id = 'k4'")
    table.update({"v": "'changed'"}, where="id = 'k5'")
    del expected["k4"]
    expected |= {"k2": "new", "k5": "changed"}
    assert values(hudi) == expected
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"} if kind == "mor" else {}
    hudi.write("upsert", rows(("k2", 5, "late"), ("k6", 6, "new")), inline=inline)
    expected["k6"] = "new"
    assert values(hudi) == expected
    table.upsert(rows(("k6", 5, "late"), ("k7", 6, "new")))
    table.cluster()
    assert values(hudi) == expected | {"k7": "new"}
    assert table.check().ok, table.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 6])
def test_nulls_are_zero_among_ints(spark: Any, tmp_path: Path, version: int) -> None:
    """A null in the struct, and a null struct that was inserted: Hudi upserts none."""
    schema = schema_of(pa.int32())
    options = table_options("t", "id", None, "a.d.b", version=version) | {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ"
    }
    hudi = HudiTable(spark, tmp_path / "t", options)
    stored = [
        (f"{what}{number}", value, "old")
        for what, value in (("n", None), ("s", NO_STRUCT), ("k", 5))
        for number in range(3)
    ]
    hudi.write("insert", rows(*stored, schema=schema), "overwrite")
    late = [(f"{what}{number}", order, f"{order}") for what in "nsk" for number, order in ((0, -1), (1, 1), (2, None))]
    hudi.write("upsert", rows(*late, schema=schema))
    assert values(hudi) == {
        "n0": "old",
        "n1": "1",
        "n2": "None",
        "s0": "old",
        "s1": "1",
        "s2": "None",
        "k0": "old",
        "k1": "old",
        "k2": "old",
    }
