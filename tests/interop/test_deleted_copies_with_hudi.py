"""Hudi's simple and bloom index bring a deleted copy back, pudi's don't; both read the same from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.hudi import HudiTable
from support.layouts import Layout
from support.rows import only

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCHEMA = pa.schema([("uuid", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.int32())])


def rows(v: int, *keys: str) -> pa.Table:
    return pa.table([keys, ["nyc"] * len(keys), [1] * len(keys), [v] * len(keys)], schema=SCHEMA)


def read(hudi: HudiTable) -> list[tuple[str, int]]:
    """What Hudi reads, which pudi reads too."""
    theirs = sorted((row["uuid"], row["v"]) for row in only(hudi.snapshot(), ("uuid", "v")))
    mine = sorted((row["uuid"], row["v"]) for row in pudi.Table(str(hudi.path)).scan().to_arrow().to_pylist())
    assert mine == theirs
    return theirs


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("version", "index", "copies"),
    [(9, "SIMPLE", 2), (6, "BLOOM", 2), (8, "GLOBAL_SIMPLE", 1), (9, "GLOBAL_BLOOM", 1)],
)
def test_hudi_reads_what_pudi_leaves(spark: Any, tmp_path: Path, version: int, index: str, copies: int) -> None:
    layout = Layout("simple", "plain", "commit", version, "mor")
    pudi.create(tmp_path / "t", SCHEMA, **layout.create_arguments())
    options = layout.hudi_options("t") | {"hoodie.index.type": index, "hoodie.compact.inline": "false"}
    hudi = HudiTable(spark, tmp_path / "t", options)
    table = pudi.Table(str(hudi.path), options={"hoodie.index.type": index})
    hudi.write("insert", rows(1, "x", "y"))
    hudi.write("delete", rows(1, "x"))
    hudi.write("insert", rows(2, "x"))
    assert read(hudi) == [("x", 2), ("y", 1)]
    table.upsert(rows(3, "x"))
    assert read(hudi) == [("x", 3), ("y", 1)]
    hudi.write("upsert", rows(4, "x"))
    assert read(hudi) == [("x", 4)] * copies + [("y", 1)]
