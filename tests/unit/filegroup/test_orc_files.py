"""ORC base files are read as Parquet ones are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from pudi.errors import CorruptError, NotSupportedError, PudiError
from pudi.filegroup import BaseFile, FileOptions, OrcFileReader, OrcOptions, open_base_file
from pudi.format import BaseFileName
from pudi.format.orc_tail import decode_tail
from pudi.storage import open_storage

OF_JAVA = Path(__file__).parents[1] / "format" / "orc_files"
"""Files that `tests/golden/OrcFiles.java` made with Apache ORC 1.9.8: pyarrow writes none such."""
AVRO = '{"type": "record", "name": "t", "fields": []}'
SECONDS = [-1, 0, 1, 1_420_070_400, 1_446_354_000, 1_446_357_600, 1_457_852_399, 1_457_852_401, 1_700_000_000]
"""Those of `OrcFiles.java`: around the epoch and 2015, and the changes of daylight saving time in New York."""


def _base(folder: Path, rows: pa.Table, codec: str = "uncompressed") -> BaseFile:
    name = BaseFileName("f-0", "0-0-0", "20240101000000000", "orc")
    orc.write_table(rows, str(folder / name.name), stripe_size=1 << 16, compression=codec)
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


@pytest.mark.parametrize(
    "ask", [lambda reader: reader.read(["m"]), lambda reader: reader.group_rows(0)], ids=["maps", "group_rows"]
)
def test_damaged_stripe_footers_are_told_by_name(tmp_path: Path, ask: Callable[[OrcFileReader], object]) -> None:
    storage = open_storage(str(tmp_path))
    base = _base(tmp_path, pa.table({"id": ["a"], "m": pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64()))}))
    file, whole = tmp_path / base.path, (tmp_path / base.path).read_bytes()
    tail = decode_tail(whole, len(whole))
    begin = tail.stripes[0].start + tail.stripes[0].body
    for place in range(begin, begin + tail.stripes[0].footer):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            ask(OrcFileReader(storage, base))
        except PudiError as error:
            assert error.path == base.path
    file.write_bytes(whole)
    assert OrcFileReader(storage, base).group_rows(0) == 1
    assert OrcFileReader(storage, base).read(["m"])["m"].to_pylist() == [[("x", 1)]]


@pytest.mark.parametrize(
    ("name", "zones"),
    [
        ("lz4", ["America/New_York"]),
        ("lzo", ["Asia/Kolkata"]),
        ("merged", ["America/New_York", "UTC", "Asia/Kolkata", "Europe/Berlin"]),
    ],
)
def test_files_of_apache_orc(tmp_path: Path, name: str, zones: list[str]) -> None:
    named = BaseFileName("f-0", "0-0-0", "20240101000000000", "orc")
    shutil.copy(OF_JAVA / f"{name}.orc", tmp_path / named.name)
    reader = open_base_file(open_storage(str(tmp_path)), BaseFile("", named, (tmp_path / named.name).stat().st_size))
    moments = [datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=second) for second in SECONDS]
    assert reader.num_groups == len(zones)
    assert reader.read().to_pydict() == {"zone": [z for z in zones for _ in moments], "at": moments * len(zones)}
    assert reader.read(["at"], [reader.num_groups - 1])["at"].to_pylist() == moments
    assert reader.read(["zone"], []).num_rows == 0


@pytest.mark.parametrize("other", ["America/New_Yorq", "../../etc/passwd", "US/Eastern/sixty", "A" * 16])
def test_a_zone_that_is_not_known_here(tmp_path: Path, other: str) -> None:
    named = BaseFileName("f-0", "0-0-0", "20240101000000000", "orc")
    content = (OF_JAVA / "lz4.orc").read_bytes()
    (tmp_path / named.name).write_bytes(content.replace(b"America/New_York", other.encode()))
    reader = open_base_file(open_storage(str(tmp_path)), BaseFile("", named, len(content)))
    with pytest.raises(NotSupportedError, match=f"'{other}', which isn't known here"):
        reader.read(["at"])
    assert reader.read(["zone"]).num_rows == len(SECONDS)


def _read(folder: Path, column: pa.Array) -> pa.ChunkedArray:
    return open_base_file(open_storage(str(folder)), _base(folder, pa.table({"at": column}))).read()["at"]


def test_nanoseconds_of_other_writers_are_left_out_as_by_hudi(tmp_path: Path) -> None:
    read = _read(tmp_path, pa.array([1_999, -1_001, 5_000_000_000, None], pa.timestamp("ns")))
    assert read.cast(pa.int64()).to_pylist() == [1, -2, 5_000_000, None]


def test_timestamps_of_other_centuries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="before 1678 or after 2261"):
        _read(tmp_path, pa.array([datetime(1600, 1, 1)], pa.timestamp("us")))
    writer = FileOptions(orc=OrcOptions()).writer(open_storage(str(tmp_path)), AVRO)
    for year in (1677, 2262):
        row = pa.table({"at": pa.array([datetime(year, 6, 1, tzinfo=timezone.utc)], pa.timestamp("us", "UTC"))})
        with pytest.raises(NotSupportedError, match="column 'at' has timestamps before 1678"):
            writer.encode(row.append_column("_hoodie_record_key", pa.array(["a"])))


def test_names_that_are_no_text(tmp_path: Path) -> None:
    base = _base(tmp_path, pa.table({"column_name": [{"field_name": 1}]}))
    for name in (b"column_name", b"field_name"):
        content = (tmp_path / base.path).read_bytes()
        (tmp_path / base.path).write_bytes(content.replace(name, b"\xff" * len(name)))
        with pytest.raises(CorruptError, match="can't be read"):
            open_base_file(open_storage(str(tmp_path)), base)
        (tmp_path / base.path).write_bytes(content)
