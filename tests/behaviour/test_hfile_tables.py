"""Tables whose log files, or base files, hold HFiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.client.snapshot import TableSnapshot
from pudi.format import BloomFilter
from pudi.format.hfile_read import open_bytes
from pudi.format.hfile_rows import encode_rows
from pudi.format.log_block import BlockKind, decode_blocks
from pudi.schema import add_meta_fields
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

HFILE = {"hoodie.logfile.data.block.format": "hfile"}
HFILES = {"hoodie.table.base.file.format": "HFILE"}
COMPACTED = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
WRITTEN = [Layout(), Layout("complex", "flat", "commit", 6), Layout("simple", "plain", "event", 9, "mor")]
LAYOUTS = [Layout("simple", "plain", "event", version, "mor") for version in (6, 9)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, LAYOUTS[1:]), indirect=["engine"])
def test_log_blocks(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made, model = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, HFILE), layout.model()
    for number, step in enumerate(steps(3, 8 if engine.name == "local" else 4)):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    logs = [path for path in made.path.rglob("*.log.*") if ".hoodie" not in path.parts]
    kinds = {block.kind for path in logs for block in decode_blocks(path.read_bytes())}
    assert BlockKind.HFILE in kinds
    assert BlockKind.PARQUET not in kinds


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_base_files_are_read(engine: Engine, tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout())
    made.write("upsert", table([trip(n, n) for n in range(20)]))
    before = made.snapshot()
    avro = add_meta_fields(TableSnapshot(made.table._meta, made.table.timeline).schema.avro)
    for path in made.path.rglob("*.parquet"):
        rows = pq.read_table(path)
        content = encode_rows(rows.cast(_plain(rows.schema)), avro, rows["_hoodie_record_key"])
        path.with_suffix(".hfile").write_bytes(content)
        path.unlink()
    properties = made.path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("file.format=PARQUET", "file.format=HFILE"))
    again = PudiTable(engine, made.path)
    assert_same(again.snapshot(), before, PLACE_FIELDS)
    again.write("upsert", table([trip(1, 100, "new")]))
    changed = [row["rider"] for row in again.snapshot() if row["uuid"] == "k0001"]
    assert changed == ["new"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("engine", "layout"), per_engine(WRITTEN, WRITTEN[:1]), indirect=["engine"])
def test_base_files_are_written(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    options = COMPACTED if layout.kind == "mor" else {}
    made, model = _made(engine, tmp_path / "trips", layout, options), layout.model()
    for number, step in enumerate(steps(5, 8 if engine.name == "local" else 5)):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    files = _files(made.path)
    assert {path.suffix for path in files} == {".hfile"}
    for path in files:
        file = open_bytes(path.read_bytes(), path=path.name)
        keys = [key.decode() for key in file.scan()["key"].to_pylist()]
        assert keys == sorted(keys)
        assert [file.info[name].decode() for name in ("minRecordKey", "maxRecordKey")] == [keys[0], keys[-1]]
        text = file.meta_block("bloomFilter")
        assert text is not None
        known = BloomFilter.from_base64(text, "DYNAMIC_V0")
        assert known.might_contain(pa.array(keys)).to_pylist() == [True] * len(keys)


def test_indexes_over_them_are_kept(tmp_path: Path) -> None:
    made = _made(LocalEngine(), tmp_path / "trips", Layout(), INDEXES)
    for step in steps(6, 6):
        made.write(step.verb, step.data)
    indexed = made.table
    assert {index.name for index in indexed.indexes()} >= {"record_index", "bloom_filters", "column_stats"}
    indexed.update({"rider": "'found'"}, where="leg = 1")
    indexed.delete(where="leg = 2")
    assert {(row["leg"], row["rider"] == "found") for row in made.snapshot()} == {(0, False), (1, True)}
    assert indexed.check().differences == ()


def test_a_key_stands_once_in_a_file(tmp_path: Path) -> None:
    made = _made(LocalEngine(), tmp_path / "trips", Layout())
    with pytest.raises(pudi.InvalidArgumentError, match=r"'k0003' comes twice .* upsert"):
        made.table.bulk_insert(table([trip(3, 1), trip(3, 2)]))
    assert made.snapshot() == []


def test_a_column_that_hudi_would_fill_with_keys(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("key", pa.string())])
    made = pudi.create(str(tmp_path / "t"), schema, record_key="id", options=HFILES)
    with pytest.raises(pudi.NotSupportedError, match="column named 'key'"):
        made.insert(pa.table([["a"], ["b"]], schema=schema))


def _made(engine: Engine, path: Path, layout: Layout, options: Mapping[str, str] | None = None) -> PudiTable:
    arguments = layout.create_arguments()
    pudi.create(str(path), SCHEMA, **(arguments | {"options": arguments["options"] | HFILES}))
    return PudiTable(engine, path, options or {})


def _files(table_path: Path) -> list[Path]:
    """Base files of all versions."""
    found = [p for p in table_path.rglob("*_*_*.*") if ".hoodie" not in p.parts and not p.name.startswith(".")]
    assert found
    return found


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type, f.nullable) for f in schema])


@pytest.mark.parametrize("asked", ["clustering.inline", "clustering.schedule.inline", "clustering.async.enabled"])
def test_clustering_with_writes_is_refused_before_anything_is_written(tmp_path: Path, asked: str) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", options=HFILES)
    with pytest.raises(pudi.NotSupportedError, match=rf"hoodie\.{asked}=true: records of HFiles"):
        made.upsert(table([trip(1, 1)]), options={f"hoodie.{asked}": "true"})
    assert not made.history()
