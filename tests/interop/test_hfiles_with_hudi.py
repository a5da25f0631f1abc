"""Tables whose base files are HFiles: Hudi's files are read, and Hudi's reader of HFiles reads pudi's.

Hudi's Spark reader knows no HFiles, and its simple index can't look into them: of Hudi's writers those that look up no
keys work.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.format.hfile_read import open_bytes
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

HFILES = {
    "hoodie.table.base.file.format": "HFILE",
    "hoodie.base.file.format": "HFILE",
    "hoodie.datasource.write.row.writer.enable": "false",
}
LAYOUT = Layout()


def _read_by_hudi(spark: Any, file: Path) -> tuple[dict[str, str], list[str], bool]:
    """Riders by record key, the least and the greatest key, and whether the bloom filter has all keys."""
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

    riders = {str(record.get("_hoodie_record_key")): str(record.get("rider")) for record in records()}
    assert reader.getTotalRecords() == len(riders)
    bloom = reader.readBloomFilter()
    return riders, list(reader.readMinMaxRecordKeys()), all(bloom.mightContain(key) for key in riders)


def test_either_reads_the_others_files(spark: Any, tmp_path: Path) -> None:
    hudi = HudiTable(spark, tmp_path / "trips", LAYOUT.hudi_options("trips") | HFILES)
    model = LAYOUT.model()
    for verb, numbers in (("insert", range(20)), ("bulk_insert", range(40, 46))):
        data = table([trip(number, 10, verb) for number in numbers])
        mode = "overwrite" if verb == "insert" else "append"
        getattr(model, verb)(from_arrow(data), *hudi.write(verb, data, mode))
    mine = PudiTable(LocalEngine(), hudi.path)
    assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, "what Hudi wrote, read by pudi")
    for verb, numbers in (("upsert", range(15, 25)), ("delete", range(3)), ("insert", range(50, 52))):
        data = table([trip(number, 20, "pudi") for number in numbers])
        getattr(model, verb)(from_arrow(data), *mine.write(verb, data))
    assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, "what both wrote, read by pudi")
    files = [each.base_file for each in pudi.Table(hudi.path).file_slices()]
    riders: dict[str, str] = {}
    for file in files:
        found, span, known = _read_by_hudi(spark, hudi.path / file.path)
        assert known
        assert span == [min(found), max(found)]
        riders |= found
    assert riders == {row["uuid"]: row["rider"] for row in mine.snapshot()}
    infos = {frozenset(open_bytes(path.read_bytes(), path=path.name).info) for path in hudi.path.rglob("*_*.hfile")}
    assert len(infos) == 1  # whoever wrote the file, it says the same things of itself
