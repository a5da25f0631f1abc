"""Tables whose base files are ORC files."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

import pudi
from pudi.format.parquet import bloom_filter_in
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

ORC = {"hoodie.table.base.file.format": "ORC"}
LAYOUTS = [
    Layout(),
    Layout("complex", "flat", "commit", 6),
    Layout("simple", "plain", "event", 9, "mor"),
    Layout("complex", "hive", "commit", 6, "mor"),
]
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "BLOOM",
}


def _made(engine: Engine, path: Path, layout: Layout, options: dict[str, str] | None = None) -> PudiTable:
    arguments = layout.create_arguments()
    pudi.create(str(path), SCHEMA, **(arguments | {"options": arguments["options"] | ORC}))
    return PudiTable(engine, path, options or {})


@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, LAYOUTS[2:3]), indirect=["engine"])
def test_verbs_and_services(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made, model = _made(engine, tmp_path / "trips", layout), layout.model()
    for number, step in enumerate(steps(23, 8 if engine.name == "local" else 4)):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    if layout.kind == "mor":
        made.table.compact(options={"pudi.compaction.verify": "true"})
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "compaction")
    made.table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "rider"})
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "clustering")
    files = [path for path in made.path.rglob("*_*_*.*") if ".hoodie" not in path.parts and path.name[0] != "."]
    assert {path.suffix for path in files} == {".orc"}
    assert not made.table.check().differences


def test_indexes_and_what_files_note(tmp_path: Path) -> None:
    made = _made(LocalEngine(), tmp_path / "trips", Layout("simple", "flat"), INDEXES)
    for step in steps(6, 5):
        made.write(step.verb, step.data)
    assert {index.name for index in made.table.indexes()} >= {"record_index", "bloom_filters"}
    assert not made.table.check().differences
    [newest] = [made.path / each.base_file for each in made.table.files() if each.base_file]
    file = orc.ORCFile(newest)
    keys = sorted(file.read(["_hoodie_record_key"])["_hoodie_record_key"].to_pylist())
    notes = file.schema.metadata
    assert [notes[b"hoodie_min_record_key"], notes[b"hoodie_max_record_key"]] == [keys[0].encode(), keys[-1].encode()]
    known = bloom_filter_in(notes)
    assert known is not None
    assert known.might_contain(pa.array(keys)).to_pylist() == [True] * len(keys)
    assert b'"_hoodie_commit_time"' in notes[b"orc.avro.schema"]


@pytest.mark.parametrize("codec", ["ZLIB", "SNAPPY", "LZ4", "ZSTD", "NONE"])
def test_every_type_goes_there_and_back(tmp_path: Path, codec: str) -> None:
    moment = datetime(1969, 12, 31, 23, 59, 58, 999999, tzinfo=timezone.utc)
    rows = pa.table({
        "id": ["a", "b"],
        "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "local": pa.array([None, datetime(1, 2, 3, 4, 5, 6)], pa.timestamp("us")),
        "day": pa.array([date(1, 1, 1), None]),
        "money": pa.array([Decimal("-1.25"), None], pa.decimal128(38, 2)),
        "times": pa.array([[moment, None], []], pa.list_(pa.timestamp("us", "UTC"))),
        "in": pa.array([{"t": datetime(2020, 1, 1)}, None], pa.struct({"t": pa.timestamp("us")})),
        "map": pa.array([[("k", moment)], None], pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
        "real": pa.array([1.5, None], pa.float32()),
        "yes": pa.array([True, None]),
        "raw": pa.array([b"\x00\xff", b""], pa.binary()),
    })  # fmt: skip
    made = pudi.create(tmp_path / "t", rows.schema, record_key="id", options=ORC)
    made.insert(rows, options={"hoodie.orc.compression.codec": codec})
    [file] = (tmp_path / "t").glob("*.orc")
    assert orc.ORCFile(file).compression == {"NONE": "UNCOMPRESSED"}.get(codec, codec)
    assert made.scan(meta_fields=False).to_arrow().sort_by("id").equals(rows)
    assert made.scan(where="at < TIMESTAMP '1970-01-01 00:00:00'").to_arrow().num_rows == 1


def test_imported_files_are_rewritten(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "plain").mkdir()
    pq.write_table(table(trip(n, 1) for n in range(20)), tmp_path / "plain" / "one.parquet")
    made = pudi.import_table(str(tmp_path / "plain"), tmp_path / "made", record_key="uuid", options=ORC)
    assert made.scan().to_arrow().num_rows == 20
    assert [path.suffix for path in (tmp_path / "made").glob("*_*_*.*")] == [".orc"]
