"""Tables whose log files, or base files, hold HFiles."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.format.hfile_rows import encode_rows
from pudi.format.log_block import BlockKind, decode_blocks
from pudi.schema import add_meta_fields
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

HFILE = {"hoodie.logfile.data.block.format": "hfile"}
LAYOUTS = [Layout("simple", "plain", "event", version, "mor") for version in (6, 9)]


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
    avro = add_meta_fields(made.table._meta.schema_json(made.table.timeline))
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
    with pytest.raises(pudi.NotSupportedError, match="PARQUET"):
        again.table.upsert(table([trip(1, 100)]))


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type, f.nullable) for f in schema])
