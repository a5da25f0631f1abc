"""A writer that knows nothing of an index commits while it's built: the build begins again, and lacks nothing then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.indexes import registry
from pudi.indexes.column_stats.build import ColumnStatsBuilder
from pudi.indexes.expression_index.build import ExpressionIndexBuilder
from pudi.indexes.record_index.build import RecordIndexBuilder
from pudi.indexes.secondary_index.build import SecondaryIndexBuilder

BUILDERS: dict[tuple[Any, ...], type[Any]] = {
    ("record_index",): RecordIndexBuilder,
    ("column_stats", "v"): ColumnStatsBuilder,
    ("secondary_index", "v"): SecondaryIndexBuilder,
    ("column_stats", "v", "up", "upper"): ExpressionIndexBuilder,
    ("bloom_filters", "v", "up", "upper"): ExpressionIndexBuilder,
}
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
}


def _records(*numbers: int) -> pa.Table:
    values = [f"v{number}" for number in numbers]
    return pa.table({"id": pa.array(numbers, pa.int32()), "v": values, "p": ["a"] * len(numbers)})


@pytest.mark.parametrize("arguments", BUILDERS, ids="-".join)
@pytest.mark.parametrize("version", ["8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_nothing_is_missing(
    kind: str, version: str, arguments: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns: dict[str, str] = {"id": "int", "v": "string", "p": "string"}
    options = OPTIONS | {"hoodie.write.table.version": version}
    path, builder = tmp_path / "t", BUILDERS[arguments]
    table = pudi.create(path, columns, record_key="id", partition_by="p", table_type=kind, options=options)
    table.insert(_records(1, 2, 3))
    if builder is SecondaryIndexBuilder:
        table.create_index("record_index")
    fill = builder.fill

    def filled(self: Any) -> Any:
        monkeypatch.setattr(builder, "fill", fill)
        done = fill(self)
        own = registry.kind_of(self.work.spec.partition)
        with monkeypatch.context() as unaware:
            unaware.setattr(registry, "KINDS", [each for each in registry.KINDS if each is not own])
            pudi.Table(path).insert(_records(7))
        return done

    monkeypatch.setattr(builder, "fill", filled)
    table.create_index(*arguments[:3], **({"expr": arguments[3]} if arguments[3:] else {}))
    table = pudi.Table(path)
    for where in ("v = 'v7'", "id = 7", "upper(v) = 'V7'"):
        assert table.scan(["id"], where=where).to_arrow()["id"].to_pylist() == [7]
    assert table.check().ok, table.check()
