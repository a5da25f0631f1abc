"""ORC base files are read as Parquet ones are."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, OrcFileReader, open_base_file
from pudi.format import BaseFileName
from pudi.storage import open_storage


def _base(folder: Path, rows: pa.Table) -> BaseFile:
    name = BaseFileName("f-0", "0-0-0", "20240101000000000", "orc")
    orc.write_table(rows, str(folder / name.name), stripe_size=1 << 16)
    return BaseFile("", name, (folder / name.name).stat().st_size)


def test_columns_and_stripes(tmp_path: Path) -> None:
    rows = pa.table({
        "id": [f"k{number:06}" for number in range(50_000)],
        "n": pa.array(range(50_000), pa.int32()),
        "s": [{"x": number, "l": ["a"]} for number in range(50_000)],
    })  # fmt: skip
    storage = open_storage(str(tmp_path))
    reader = open_base_file(storage, _base(tmp_path, rows))
    assert isinstance(reader, OrcFileReader)
    assert reader.schema.names == rows.column_names
    assert reader.num_groups > 1
    assert reader.statistics("n") == [None] * reader.num_groups
    parts = [reader.read(["n", "id"], [number]) for number in range(reader.num_groups)]
    assert pa.concat_tables(parts).to_pydict() == rows.select(["n", "id"]).to_pydict()
    assert reader.read().to_pylist() == rows.to_pylist()


def test_damage_is_told(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    base = _base(tmp_path, pa.table({"id": ["a"], "at": pa.array([1], pa.timestamp("us"))}))
    assert open_base_file(storage, base).read(["at"])["at"].to_pylist() == [
        datetime(1970, 1, 1, 0, 0, 0, 1, timezone.utc)
    ]
    file = tmp_path / base.path
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(CorruptError, match="can't be read"):
        open_base_file(storage, BaseFile("", base.name, file.stat().st_size)).read()
