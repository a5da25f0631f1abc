"""`Table.update` that writes changed columns only, on merge-on-read tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.format.log_block import Header, LogBlock, decode_blocks
from support.rows import assert_same, from_arrow
from support.trips import SCHEMA, table, trip

PARTIAL = {"pudi.update.partial": "true", "hoodie.parquet.small.file.limit": "0"}
AVRO = {"hoodie.logfile.data.block.format": "avro"}


def _blocks(path: str) -> list[LogBlock]:
    return [block for file in sorted(Path(path).rglob(".*.log.*")) for block in decode_blocks(file.read_bytes())]


def _made(path: Path, options: dict[str, str], **more: Any) -> pudi.Table:
    kept = {key: value for key, value in options.items() if "table.version" in key}
    pudi.create(path, SCHEMA, record_key="uuid", ordering="ts", table_type="mor", options=kept, **more)
    mine = pudi.Table(path, options=PARTIAL | options)
    mine.insert(table(trip(n, 10) for n in range(9)))
    return mine


@pytest.mark.parametrize("options", [{}, AVRO, {"hoodie.write.table.version": "8"}])
def test_only_changed_columns_are_written(tmp_path: Path, options: dict[str, str]) -> None:
    mine, whole = _made(tmp_path / "t", options), _made(tmp_path / "whole", options | {"pudi.update.partial": "false"})
    for one in (mine, whole):
        one.update({"fare": "fare + ts"}, "uuid < 'k0004'")
        one.update({"ts": "ts + 1", "rider": "'bob'"}, "uuid IN ('k0002', 'k0008')")
        one.upsert(table([trip(2, 11, "later"), trip(6, 5, "too old")]))
        one.update({"fare": "0"}, "uuid = 'k0002'")
    fields = [[f["name"] for f in json.loads(b.headers[Header.SCHEMA])["fields"][5:]] for b in _blocks(mine.path)]
    partial = [block.is_partial for block in _blocks(mine.path)]
    assert [some for some, is_partial in zip(fields, partial, strict=True) if is_partial] == [
        [name for name in SCHEMA.names if name in names] for names in ({"ts", "fare"}, {"ts", "rider"}, {"ts", "fare"})
    ]
    assert partial.count(False) == 1
    columns = SCHEMA.names
    assert_same(from_arrow(mine.scan(columns).to_arrow()), from_arrow(whole.scan(columns).to_arrow()))
    assert mine.compact(options={"pudi.compaction.verify": "true"}) is not None
    assert_same(from_arrow(mine.scan(columns).to_arrow()), from_arrow(whole.scan(columns).to_arrow()))


def test_version_6_has_whole_records_only(tmp_path: Path) -> None:
    mine = _made(tmp_path / "t", {"hoodie.write.table.version": "6"})
    mine.update({"fare": "0"}, "uuid < 'k0004'")
    assert [block.is_partial for block in _blocks(mine.path)] == [False]


@pytest.mark.spark
def test_spark_reads_and_writes_them(spark: Any, tmp_path: Path) -> None:
    mine = _made(tmp_path / "t", {})
    mine.update({"fare": "fare + 100"}, "uuid < 'k0004'", spark=spark)
    assert [block.is_partial for block in _blocks(mine.path)] == [True]
    rows = mine.scan(["uuid", "fare"]).to_spark(spark).collect()
    assert_same([row.asDict() for row in rows], from_arrow(mine.scan(["uuid", "fare"]).to_arrow()))


def test_one_of_a_hundred_columns_takes_a_tenth_of_the_bytes_at_most(tmp_path: Path) -> None:
    count = 500
    texts = {f"c{c:03}": [f"{(n * 7919 + c * 104729) ** 3 % 10**20:020}" for n in range(count)] for c in range(100)}
    data = pa.table({"k": [f"k{n:06}" for n in range(count)], **texts})
    written = []
    for partial in ("true", "false"):
        pudi.create(tmp_path / partial, data.schema, record_key="k", table_type="mor")
        mine = pudi.Table(tmp_path / partial, options={"pudi.update.partial": partial})
        mine.insert(data)
        done: Any = mine.update({"c007": "c008"})
        assert done.records_updated == count
        written.append(done.bytes_written)
        assert mine.scan(["c007"]).to_arrow()["c007"].to_pylist() == texts["c008"]
    assert written[0] < written[1] / 10
