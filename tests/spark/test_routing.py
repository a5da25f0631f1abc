"""Where records go: the look-up rows, the spread of new records, and the exchange that Spark does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.engine.spark.columns import FILE_ID, SPREAD, TASK
from pudi.engine.spark.routing import MAX_GROUP_RECORDS, Placement, _route_rows, murmur3, planned_records, salts
from pudi.filegroup import BaseFile
from pudi.format import BaseFileName
from pudi.plan import FileTask, InsertRoute, WritePlan
from pudi.plan.write import SHARES
from pudi.schema import PARTITION_PATH


def _rewrite(number: int, partition: str, file_id: str) -> FileTask:
    base = BaseFile(partition, BaseFileName(file_id, "0-0-0", "20260101000000000"), 100)
    return FileTask(number, partition, file_id, base)


def _rows(plan: WritePlan) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row[PARTITION_PATH], row[FILE_ID]): row for row in _route_rows(plan)}


def test_updates_are_found_by_file_group_and_inserts_by_partition() -> None:
    plan = WritePlan(
        (_rewrite(0, "nyc", "a"), _rewrite(1, "sf", "a"), FileTask(2, "sf", "new-0")),
        (InsertRoute("nyc", (0,), (SHARES,)), InsertRoute("sf", (2,), (SHARES,))),
    )
    rows = _rows(plan)
    assert {place: row[TASK] for place, row in rows.items()} == {
        ("nyc", "a"): 0,
        ("sf", "a"): 1,
        ("nyc", ""): 0,
        ("sf", ""): 2,
    }


@given(st.lists(st.integers(1, 50), min_size=2, max_size=40))
def test_each_task_gets_its_share_of_new_records(weights: list[int]) -> None:
    total = sum(weights)
    upper = [round(SHARES * sum(weights[: n + 1]) / total) for n in range(len(weights))]
    tasks = tuple(FileTask(n, "", f"f-{n}") for n in range(len(weights)))
    spread = _rows(WritePlan(tasks, (InsertRoute("", tuple(range(len(weights))), tuple(upper)),)))["", ""][SPREAD]
    got = Counter(spread)
    for task, weight in enumerate(weights):
        assert abs(got[task] / len(spread) - weight / total) <= 1 / len(spread) + 1e-9


def test_records_are_planned_by_task() -> None:
    plan = WritePlan(
        (_rewrite(0, "nyc", "a"), FileTask(1, "nyc", "new-0")),
        (InsertRoute("nyc", (0, 1), (SHARES // 4, SHARES)),),
    )
    assert planned_records(plan, {("nyc", "a"): 7}, {"nyc": 100}) == [32, 75]


def test_heavy_tasks_are_spread_evenly() -> None:
    placement = Placement.of(weights=[9, 1, 1, 1, 8, 1, 1, 2], records=[1] * 8, at_least=2)
    assert placement.partitions == 2
    loads = Counter()
    for salt, weight in zip(placement.salts, [9, 1, 1, 1, 8, 1, 1, 2], strict=True):
        loads[salt] += weight
    assert sorted(loads.values()) == [12, 12]


def test_one_spark_task_never_holds_many_files_records_at_once() -> None:
    count = [MAX_GROUP_RECORDS // 2 + 1] * 6
    placement = Placement.of(weights=count, records=count, at_least=2)
    assert placement.partitions == 6
    assert len(set(placement.salts)) == 6


def test_a_single_task_needs_a_single_partition() -> None:
    assert Placement.of([5], [10], 200).partitions == 1


@pytest.mark.spark
def test_spark_hashes_integers_so(spark: Any) -> None:
    values = [0, 1, -1, 42, 2**31 - 1, -(2**31), 123456789]
    rows = spark.createDataFrame([(v,) for v in values], "v int").selectExpr("v", "hash(v)").collect()
    assert {row[0]: row[1] for row in rows} == dict(
        zip(values, murmur3(np.array(values, dtype=np.int32)).tolist(), strict=True)
    )


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_a_salt_brings_its_rows_to_the_partition_it_stands_for(spark: Any, partitions: int) -> None:
    chosen = salts(partitions)
    frame = spark.createDataFrame([(place, salt) for place, salt in enumerate(chosen)], "place int, salt int")
    placed = frame.repartition(partitions, "salt").selectExpr("place", "spark_partition_id()").collect()
    assert all(row[0] == row[1] for row in placed)
    assert len(placed) == partitions
