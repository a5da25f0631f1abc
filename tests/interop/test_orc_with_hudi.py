"""Tables whose base files are ORC files: Hudi's files are read, and Hudi's reader of ORC files reads pudi's.

Hudi's Spark reader fails on its own ORC tables, and so does the second upsert of its writer. Its reader of footers
calls a method that Spark's ORC doesn't have. So its reader of records is the judge, Apache ORC's of footers, and files
of Hudi's first write, by writers in any time zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import from_arrow
from support.trips import table, trip
from support.virtual import VIRTUAL

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ORC = {
    "hoodie.table.base.file.format": "ORC",
    "hoodie.base.file.format": "ORC",
    "hoodie.datasource.write.row.writer.enable": "false",
    "hoodie.table.timeline.timezone": "UTC",  # Hudi waits for hours where its zone goes back
}
LAYOUT = Layout("simple", "flat", "event")
SECONDS = [-1, 0, 1, 1_420_070_400, 1_446_354_000, 1_446_357_600, 1_457_852_399, 1_457_852_401, 1_700_000_000]
"""Seconds since 1970: around the epoch and 2015, and the changes of daylight saving time in New York."""


def _read_by_hudi(spark: Any, file: Path, column: str, key: str = "_hoodie_record_key") -> dict[str, str]:
    """A column by record key, or by another column."""
    hudi = spark._jvm.org.apache.hudi
    path = hudi.storage.StoragePath(file.as_uri())
    conf = hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
    storage = hudi.storage.HoodieStorageUtils.getStorage(path, conf)
    avro = getattr(hudi.common.model, "HoodieRecord$HoodieRecordType").AVRO
    readers = hudi.io.storage.HoodieIOFactory.getIOFactory(storage).getReaderFactory(avro)
    reader = readers.getFileReader(hudi.common.config.HoodieConfig(), path)

    def records() -> Iterator[Any]:
        found = reader.getRecordIterator(reader.getSchema())
        while found.hasNext():
            yield found.next().getData()

    return {str(record.get(key)): str(record.get(column)) for record in records()}


def _notes_by_java(spark: Any, file: Path) -> dict[str, str]:
    """What the file notes, by Apache ORC's own reader: Hudi's calls a method that Spark's ORC doesn't have."""
    jvm = spark._jvm.org.apache
    path = jvm.hadoop.fs.Path(file.as_uri())
    opened = jvm.orc.OrcFile.createReader(path, jvm.orc.OrcFile.readerOptions(spark._jsc.hadoopConfiguration()))
    decode = spark._jvm.java.nio.charset.StandardCharsets.UTF_8.decode
    return {name: decode(opened.getMetadataValue(name)).toString() for name in opened.getMetadataKeys()}


def test_hudi_reads_pudis_files(spark: Any, tmp_path: Path) -> None:
    arguments = LAYOUT.create_arguments()
    options = arguments["options"] | {"hoodie.table.base.file.format": "ORC"}
    made = pudi.create(tmp_path / "trips", table([]).schema, **(arguments | {"options": options}))
    given = {"hoodie.parquet.bloom.filter.enabled": "true"}
    made.upsert(table(trip(n, 10) for n in range(50)), options=given)
    made.upsert(table(trip(n, 20, "bob") for n in range(10)), options=given)
    [file] = [each.base_file for each in made.file_slices()]
    riders = _read_by_hudi(spark, tmp_path / "trips" / file.path, "rider")
    rows = from_arrow(made.scan().to_arrow())
    assert riders == {row["uuid"]: row["rider"] for row in rows}
    notes = _notes_by_java(spark, tmp_path / "trips" / file.path)
    assert (notes["hoodie_min_record_key"], notes["hoodie_max_record_key"]) == ("k0000", "k0049")
    filters = spark._jvm.org.apache.hudi.common.bloom.BloomFilterFactory
    bloom = filters.fromString(notes["org.apache.hudi.bloomfilter"], notes["hoodie_bloom_filter_type_code"])
    assert all(bloom.mightContain(key) for key in riders)
    assert not bloom.mightContain("another")
    given |= {"hoodie.orc.compression.codec": "LZ4"}
    slim = pudi.create(tmp_path / "slim", table([]).schema, **(arguments | {"options": options | VIRTUAL}))
    slim.upsert(table(trip(n, 10) for n in range(50)), options=given)
    [file_of_slim] = [each.base_file for each in slim.file_slices()]
    assert _read_by_hudi(spark, tmp_path / "slim" / file_of_slim.path, "rider", "uuid") == {
        f"k{n:04}": "ann" for n in range(50)
    }
    assert set(_notes_by_java(spark, tmp_path / "slim" / file_of_slim.path)) == {"orc.avro.schema"}
    theirs = HudiTable(spark, tmp_path / "theirs", LAYOUT.hudi_options("trips") | ORC)
    theirs.write("insert", table([trip(0, 1)]), "overwrite")
    assert notes.keys() == _notes_by_java(spark, next(theirs.path.glob("*.orc"))).keys()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_timestamps_of_any_zone(spark: Any, tmp_path: Path, zone: str) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    moments = [epoch + timedelta(seconds=second) for second in SECONDS]
    rows = pa.table({
        "uuid": [f"k{n}" for n in range(len(moments))],
        "ts": pa.array(range(len(moments)), pa.int64()),
        "at": pa.array(moments, pa.timestamp("us", "UTC")),
        "all": pa.array([[moment] for moment in moments], pa.list_(pa.timestamp("us", "UTC"))),
    })  # fmt: skip
    zones = spark._jvm.java.util.TimeZone
    own = zones.getDefault()
    hudi = HudiTable(spark, tmp_path / "trips", LAYOUT.hudi_options("trips") | ORC)
    try:
        zones.setDefault(zones.getTimeZone(zone))
        hudi.write("insert", rows, "overwrite")
        mine = PudiTable(LocalEngine(), hudi.path)
        found = mine.table.scan(meta_fields=False).to_arrow().sort_by("ts")
        assert found["at"].to_pylist() == moments
        assert found["all"].to_pylist() == [[moment] for moment in moments]
    finally:
        zones.setDefault(own)
    mine.table.upsert(rows.slice(0, 1), options={"hoodie.parquet.bloom.filter.enabled": "true"})
    assert mine.table.scan().to_arrow().sort_by("ts")["at"].to_pylist() == moments
    file = next(each.base_file for each in mine.table.file_slices())
    micros = {f"k{n}": str(second * 1_000_000) for n, second in enumerate(SECONDS)}
    zones.setDefault(zones.getTimeZone("GMT"))
    try:
        assert _read_by_hudi(spark, hudi.path / file.path, "at") == micros
    finally:
        zones.setDefault(own)
