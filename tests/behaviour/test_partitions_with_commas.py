"""A partition whose path has a comma, or blanks at its ends, is never taken for a list of others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi

NAMES = ["a", "b", "a,b", " a ", "a.b|"]


@pytest.fixture(params=["cow", "mor"])
def trips(request: pytest.FixtureRequest, tmp_path: Path) -> pudi.Table:
    columns, options = {"id": "int", "p": "string"}, {"hoodie.parquet.small.file.limit": "0"}
    made = pudi.create(
        tmp_path / "t", columns, record_key="id", partition_by="p", table_type=request.param, options=options
    )
    for first in (0, 100):
        ids = pa.array(range(first, first + len(NAMES)), pa.int32())
        made.insert(pa.table({"id": ids, "p": NAMES}))
    return made


def _clustered(table: pudi.Table) -> set[str]:
    held = [each.partition for each in table.refresh().file_slices()]
    return {name for name in NAMES if held.count(name) == 1}


@pytest.mark.parametrize("name", NAMES)
def test_it_alone_is_clustered(name: str, trips: pudi.Table) -> None:
    trips.cluster(order_by="id", partitions=[name])
    assert _clustered(trips) == {name}


@pytest.mark.parametrize("name", ["a,b", " a "])
def test_a_predicate_chooses_it(name: str, trips: pudi.Table) -> None:
    pytest.importorskip("duckdb")
    trips.cluster(order_by="id", where=f"p = '{name}'")
    assert _clustered(trips) == {name}
    pudi.sql("CALL run_clustering(table => 't', predicate => \"p IN ('a.b|', 'b')\")", t=trips)
    assert _clustered(trips) == {name, "a.b|", "b"}


@pytest.mark.parametrize("call", ["drop_partition(table => 't', partition", "truncate_table(table => 't', partitions"])
def test_a_procedure_deletes_no_others(call: str, trips: pudi.Table) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(pudi.InvalidArgumentError, match="one partition of the table and a list of others"):
        pudi.sql(f"CALL {call} => 'a,b')", t=trips)
    assert set(trips.partitions()) == set(NAMES)
    trips.delete_partitions(["a", "b"])
    pudi.sql(f"CALL {call} => 'a,b')", t=trips)
    assert set(trips.refresh().partitions()) == {" a ", "a.b|"}
