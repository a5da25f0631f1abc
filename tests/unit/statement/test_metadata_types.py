"""The metadata table's records in the types that Hudi's SQL shows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.table.metadata_records import _as, _shown

pytestmark = pytest.mark.metadata_by_default


def test_records_of_every_kind(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int32()), ("v", pa.float64()), ("day", pa.string())])
    options = {"hoodie.metadata.global.record.level.index.enable": "true"}
    table = pudi.create(tmp_path / "t", schema, record_key="id", partition_by="day", options=options)
    table.upsert(pa.table({"id": [1, 2], "v": [1.5, None], "day": ["x", "y"]}, schema=schema))
    table.create_index("secondary_index", ["v"], "by_v")
    found = table.metadata_records()
    assert found.schema.names == [
        "key", "type", "filesystemMetadata", "BloomFilterMetadata", "ColumnStatsMetadata", "recordIndexMetadata",
        "SecondaryIndexMetadata",
    ]  # fmt: skip
    kinds = set(found["type"].to_pylist())
    assert {1, 2, 3, 5, 6, 7} <= kinds
    (stats,) = [
        row["ColumnStatsMetadata"]
        for row in found.to_pylist()
        if row["type"] == 6
        and row["ColumnStatsMetadata"]["columnName"] == "v"
        and row["ColumnStatsMetadata"]["fileName"] == "x"
    ]
    assert stats["minValue"]["member4"] == {"value": 1.5}
    assert [name for name, value in stats["minValue"].items() if value is not None] == ["member4"]
    files = [dict(row["filesystemMetadata"]) for row in found.to_pylist() if row["type"] == 1]
    assert files == [{day: {"size": 0, "isDeleted": False} for day in ("x", "y")}]


def test_a_table_without_a_metadata_table(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int32())])
    table = pudi.create(tmp_path / "t", schema, options={"hoodie.metadata.enable": "false"})
    with pytest.raises(pudi.NotFoundError, match="no metadata table"):
        table.metadata_records()


def test_a_part_of_an_array_keeps_its_own_entries() -> None:
    kind = pa.map_(pa.string(), pa.time64("us"))
    whole = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], kind)
    assert _as(whole.slice(1), _shown(kind)).to_pylist() == [None, [("b", 2), ("c", 3)], []]
    lists = pa.array([[1], [2, 3]], pa.list_(pa.time64("us")))
    assert _as(lists.slice(1), _shown(lists.type)).to_pylist() == [[2, 3]]
