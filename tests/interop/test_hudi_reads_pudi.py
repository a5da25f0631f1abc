"""Apache Hudi and hudi-rs read what pudi wrote: row for row, meta fields included, now, then and in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.engines import Engine, LocalEngine, SparkEngine
from support.hudi import HudiTable, hudi_rs_snapshot
from support.layouts import FOLDERS, KEYS, MERGING, Layout, pairwise
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, Step, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

VERBS = ("bulk_insert", "insert", "upsert", "delete", "insert_overwrite", "insert_overwrite_table", "delete_partitions")
VERSIONS = (9, 8, 6)
ENGINES = ("local", "spark")
FACTORS = (VERBS, VERSIONS, KEYS, FOLDERS, MERGING, ENGINES)
PAIRS = pairwise(*FACTORS)


def _whole() -> list[tuple[Any, ...]]:
    import itertools

    return [row for row in itertools.product(*FACTORS) if row not in PAIRS]


def _scenario(verb: str) -> list[Step]:
    """A bulk insert, then the verb, on data that tells the merge modes apart."""
    base = [trip(number, 100) for number in range(20)]
    changed = [trip(number, 100 + (number % 3 - 1) * 10, "changed") for number in range(10, 18)]
    new = [trip(number, 100, None) for number in range(30, 34)]
    second = {
        "bulk_insert": new,
        "insert": [*new, trip(1, 90, "again")],
        "delete": changed,
        "upsert": changed + new,
        "insert_overwrite": [changed[0], new[0]],
        "insert_overwrite_table": [changed[0], new[0]],
        "delete_partitions": [trip(0, 0)],
    }
    return [Step("bulk_insert", table(base)), Step(verb, table(second[verb]))]


def test_the_pairs_are_all_there() -> None:
    assert len(PAIRS) < 30
    assert len(PAIRS) + len(_whole()) == 7 * 3 * 2 * 3 * 2 * 2
    for i, first in enumerate(FACTORS):
        for j, second in enumerate(FACTORS[i + 1 :], start=i + 1):
            assert {(row[i], row[j]) for row in PAIRS} == {(a, b) for a in first for b in second}


def _check(spark: Any, path: Path, verb: str, version: int, key: str, folders: str, merging: str, engine: str) -> None:
    layout = Layout(key, folders, merging, version)
    if verb == "delete_partitions" and folders == "flat":  # which has none
        verb = "insert_overwrite"
    used: Engine = SparkEngine(spark) if engine == "spark" else LocalEngine()
    pudi, model = PudiTable.create(used, path, SCHEMA, layout), layout.model()
    for step in _scenario(verb):
        getattr(model, step.verb)(from_arrow(step.data), *pudi.write(step.verb, step.data))
    hudi = HudiTable(spark, path)
    assert_same(hudi.snapshot(), model.snapshot(), PLACE_FIELDS, "Hudi's snapshot against the model")
    assert_same(hudi.snapshot(), pudi.snapshot(), about="Hudi's snapshot against pudi's")
    assert_same(hudi_rs_snapshot(path), pudi.snapshot(), about="hudi-rs against pudi")
    first = model.commits[0]
    assert_same(hudi.as_of(first.instant), pudi.as_of(first.instant), about="as of the first commit")
    assert_same(pudi.as_of(first.instant), model.as_of(first.instant), PLACE_FIELDS, "as of the first commit")
    assert_same(hudi.changes(first.completion), model.changes(first.completion), PLACE_FIELDS, "changes")
    assert_same(hudi.changes(first.completion), pudi.changes(first.completion), about="changes")
    assert_same(hudi.changes(None, first.completion), pudi.changes(None, first.completion), about="first changes")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("combination", PAIRS, ids=lambda c: "-".join(map(str, c)))
def test_pairwise(spark: Any, tmp_path: Path, combination: tuple[Any, ...]) -> None:
    _check(spark, tmp_path / "trips", *combination)


@pytest.mark.slow
@pytest.mark.parametrize("combination", _whole(), ids=lambda c: "-".join(map(str, c)))
def test_the_rest_of_the_product(spark: Any, tmp_path: Path, combination: tuple[Any, ...]) -> None:
    _check(spark, tmp_path / "trips", *combination)


def test_a_table_without_commits(spark: Any, tmp_path: Path) -> None:
    pudi = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout())
    hudi = HudiTable(spark, pudi.path)
    assert hudi.snapshot() == []
    assert [name for name in hudi.frame().columns if not name.startswith("_hoodie_")] == SCHEMA.names
