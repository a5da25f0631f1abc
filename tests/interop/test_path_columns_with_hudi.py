"""Tables of Hudi whose files leave out the partition columns (hoodie.datasource.write.drop.partition.columns)."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import LocalEngine, SparkEngine
from support.hudi import HudiTable, table_options
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow

pytestmark = [pytest.mark.interop, pytest.mark.spark]

LEFT_OUT = {
    "hoodie.datasource.write.drop.partition.columns": "true",
    "hoodie.write.complex.keygen.validation.enable": "false",
}
STATISTICS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
COMPACTED = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTERED = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}

PARTITIONS: dict[str, tuple[list[Any], pa.DataType]] = {
    "region": (["eu", "asia pac", None], pa.string()),
    "num": ([1, 20], pa.int32()),
    "day": ([date(2024, 1, 1), date(2024, 1, 2)], pa.date32()),
}


def rows(ids: list[int], version: int, partition: list[str]) -> pa.Table:
    """Rows whose partition values follow from their keys."""
    columns: dict[str, Any] = {"id": pa.array(ids, pa.int64())}
    for name in partition:
        values, kind = PARTITIONS[name]
        columns[name] = pa.array([values[number % len(values)] for number in ids], kind)
    columns["name"] = [f"n{number} v{version}" for number in ids]
    columns["ver"] = pa.array([version] * len(ids), pa.int64())
    return pa.table(columns)


def made(spark: Any, path: Path, partition: list[str], kind: str, version: int, *, hive_style: bool) -> HudiTable:
    """A new table of Hudi, without commits of its own yet."""
    one = partition[0] if len(partition) == 1 else partition
    options = table_options("t", "id", one, "ver", hive_style=hive_style, version=version) | LEFT_OUT
    if kind == "mor":
        options |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    return HudiTable(spark, path, options)


KINDS = [
    (["region"], "cow", 9, True),
    (["num"], "mor", 9, False),
    (["day", "region"], "mor", 8, True),
    (["region", "num"], "cow", 8, False),
    (["num"], "mor", 6, True),
    (["day"], "cow", 6, False),
]


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("partition", "kind", "version", "hive_style"), KINDS)
def test_pudi_reads_what_hudi_reads(
    spark: Any, tmp_path: Path, partition: list[str], kind: str, version: int, hive_style: bool
) -> None:
    """Files of Hudi's deletes and services have the columns, with nulls in them, and so do its statistics."""
    hudi = made(spark, tmp_path / "t", partition, kind, version, hive_style=hive_style)
    hudi.options = {**hudi.options, **STATISTICS}
    first = hudi.write("insert", rows(list(range(6)), 1, partition), "overwrite")
    second = hudi.write("upsert", rows([1, 2, 7], 2, partition))
    readers = [PudiTable(engine, hudi.path) for engine in (LocalEngine(), SparkEngine(spark))]
    at_completion = version >= 8
    for each in readers:
        assert_same(each.snapshot(), hudi.snapshot(), about="snapshot with logs")
        assert_same(from_arrow(pudi.Table(hudi.path).scan(as_of=first[0]).to_arrow()), hudi.as_of(first[0]))
        since = first[1] if at_completion else first[0]
        assert_same(from_arrow(pudi.Table(hudi.path).changes(since=since).to_arrow()), hudi.changes(since))
    hudi.write("delete", rows([3], 3, partition))
    if kind == "mor":
        hudi.write("upsert", rows([0, 8], 4, partition), inline=COMPACTED)
    hudi.write("upsert", rows([4, 9], 5, partition), inline=CLUSTERED)
    for each in readers:
        assert_same(each.snapshot(), hudi.snapshot(), about="snapshot after services")
    texts = {str(row[partition[0]]) for row in hudi.snapshot() if row[partition[0]] is not None}
    assert len(texts) > 1
    for text in texts:
        found = pudi.Table(hudi.path).scan(where=f"{partition[0]} = '{text}'").to_arrow()
        assert_same(from_arrow(found), [row for row in hudi.snapshot() if row[partition[0]] == text])
    assert not pudi.Table(hudi.path).check().differences
    assert second


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", ["pudi", "hudi"])
@pytest.mark.parametrize(("partition", "kind", "version", "hive_style"), KINDS)
def test_turns(
    spark: Any, tmp_path: Path, first: str, partition: list[str], kind: str, version: int, hive_style: bool
) -> None:
    """Each continues what the other wrote, and both read the same rows; base files of pudi lack the columns."""
    hudi = made(spark, tmp_path / "t", partition, kind, version, hive_style=hive_style)
    expected: dict[int, int] = {}
    if first == "pudi":
        pudi.create(
            hudi.path,
            rows([0], 0, partition).schema,
            record_key="id",
            partition_by=partition,
            ordering="ver",
            table_type=kind,
            options={
                "hoodie.datasource.write.drop.partition.columns": "true",
                "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
                "hoodie.write.table.version": str(version),
            },
        )
    engines = [LocalEngine(), SparkEngine(spark)]
    # Hudi 1.2 forgets the option where the first operation is an upsert
    turns = [("insert", [0, 1, 2, 3, 4, 5]), ("upsert", [1, 2, 6]), ("upsert", [2, 3, 7]), ("delete", [0, 6])]
    turns += [("upsert", [5, 0, 8]), ("delete", [3]), ("upsert", [9, 1])]
    for number, (verb, ids) in enumerate(turns):
        data = rows(ids, number, partition)
        mine = PudiTable(engines[number // 2 % 2], hudi.path)
        if (number % 2 == 0) == (first == "hudi"):
            hudi.write(verb, data, "append" if number or first == "pudi" else "overwrite")
        else:
            mine.write(verb, data)
        for each in ids:
            if verb == "delete":
                del expected[each]
            else:
                expected[each] = number
        about = f"{number}: after {verb}"
        texts = rows(sorted(expected), 0, partition).to_pylist()
        wanted = [
            {"id": row["id"], "name": f"n{row['id']} v{expected[row['id']]}"}
            | {name: None if row[name] is None else str(row[name]) for name in partition}
            for row in texts
        ]
        for reader, seen in (("pudi", mine.snapshot()), ("Hudi", hudi.snapshot())):
            assert_same([{name: row[name] for name in wanted[0]} for row in seen], wanted, about=f"{about} by {reader}")
    own = pudi.Table(hudi.path)
    if kind == "mor":
        assert own.compact() is not None
        assert_same(hudi.snapshot(), from_arrow(own.scan().to_arrow()), ["_hoodie_file_name"], "compaction")
    assert own.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "name"}) is not None
    assert_same(hudi.snapshot(), from_arrow(own.scan().to_arrow()), about="clustering")
    assert own.check().ok
