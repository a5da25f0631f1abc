"""A record index by partition has the names of partitions in its file groups, with all characters that Hudi writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi

pytestmark = pytest.mark.metadata_by_default

BY_PARTITION = {
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
NAMES = ["é", "a b", "a+b", "50%", "a,b", "x=y", "a~b", "😀", "a_b", "a-b", "(1)", "a&b", "ä/ö"]


def create(path: Path) -> pudi.Table:
    schema = {"id": "string", "p": "string", "v": "int"}
    return pudi.create(path, schema, record_key="id", partition_by="p", options=BY_PARTITION)


def rows(name: str, *values: int) -> pa.Table:
    keys = ["a", *map(str, values)]
    return pa.table({"id": keys, "p": [name] * len(keys), "v": pa.array([*values, 0], pa.int32())})


@pytest.mark.parametrize("name", NAMES)
def test_it_is_compacted(name: str, tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    for value in range(4):
        result = table.upsert(rows(name, value))
        assert result is not None
        assert not result.failed_services
    assert pudi.Table(table.path).scan(["id"]).to_arrow()["id"].to_pylist().count("a") == 1
    assert table.check().ok
    assert table.maintain().ok
    assert list((tmp_path / "t" / ".hoodie" / "metadata" / "record_index").glob("*.hfile"))


def test_a_dot_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.upsert(rows("plain", 1))
    with pytest.raises(pudi.NotSupportedError, match="has a dot"):
        table.upsert(rows("a.b", 1))
    assert table.scan(["p"]).to_arrow()["p"].unique().to_pylist() == ["plain"]
    table.upsert(rows("plain", 2))
    assert table.check().ok
