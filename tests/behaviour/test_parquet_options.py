"""Options of base files: codec, row groups, pages, dictionaries and largest size, as the files themselves show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from support.disk import base_files
from support.engines import Engine

SCHEMA = pa.schema([("id", pa.string()), ("word", pa.string()), ("x", pa.float64())])
ROWS = 40_000


def _data(rows: int = ROWS) -> pa.Table:
    chance = np.random.default_rng(1)
    keys = pa.array([f"key-{number:08}" for number in range(rows)])
    words = pa.array(["one", "two", "three", "four"] * (rows // 4))
    return pa.table([keys, words, pa.array(chance.random(rows))], schema=SCHEMA)


def _written(path: Path, verb: str = "bulk_insert", **options: str) -> list[pq.FileMetaData]:
    table = pudi.create(str(path), SCHEMA, record_key="id")
    getattr(table, verb)(_data(), options={f"hoodie.parquet.{key}": value for key, value in options.items()})
    assert table.scan(["id"]).to_arrow().num_rows == ROWS
    return [pq.read_metadata(file) for file in base_files(path)]


def _column(metadata: pq.FileMetaData, name: str) -> pq.ColumnChunkMetaData:
    group = metadata.row_group(0)
    return next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == name)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "uncompressed", "GZIP"])
def test_codec(tmp_path: Path, codec: str) -> None:
    [file] = _written(tmp_path / "t", **{"compression.codec": codec})
    assert {_column(file, name).compression for name in SCHEMA.names} == {codec.upper()}


def test_a_codec_that_is_not_written_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(pudi.NotSupportedError, match="brotli"):
        _written(tmp_path / "t", **{"compression.codec": "brotli"})


def test_dictionaries(tmp_path: Path) -> None:
    [with_them], [without] = _written(tmp_path / "a"), _written(tmp_path / "b", **{"dictionary.enabled": "false"})
    assert "RLE_DICTIONARY" in _column(with_them, "word").encodings
    assert "RLE_DICTIONARY" not in _column(without, "word").encodings
    assert not _column(without, "word").has_dictionary_page


def test_row_groups(tmp_path: Path) -> None:
    [whole], [split] = _written(tmp_path / "a"), _written(tmp_path / "b", **{"block.size": str(1 << 20)})
    assert whole.num_row_groups == 1
    sizes = [split.row_group(number).total_byte_size for number in range(split.num_row_groups)]
    assert len(sizes) > 1
    assert max(sizes) <= 1.1 * (1 << 20)


def test_pages(tmp_path: Path) -> None:
    plain = {"dictionary.enabled": "false", "compression.codec": "uncompressed"}
    [large], [small] = _written(tmp_path / "a", **plain), _written(tmp_path / "b", **plain, **{"page.size": "4096"})
    size = _column(large, "x").total_uncompressed_size
    headers = _column(small, "x").total_uncompressed_size - size
    assert headers > 10 * (size // 4096)  # each page more has a header


@pytest.mark.parametrize("verb", ["insert", "upsert"])
def test_no_file_is_larger_than_asked(tmp_path: Path, verb: str) -> None:
    limit = 1 << 19
    _written(tmp_path / "t", verb, **{"max.file.size": str(limit), "small.file.limit": "0"})
    sizes = [file.stat().st_size for file in base_files(tmp_path / "t")]
    assert len(sizes) > 1
    assert max(sizes) <= 1.1 * limit, sizes


@pytest.mark.parametrize("codec", ["zstd", "uncompressed"])
def test_bulk_inserts_fill_files_to_the_size_asked_for(engine: Engine, tmp_path: Path, codec: str) -> None:
    limit = 1 << 17
    table = pudi.create(str(tmp_path / "t"), SCHEMA, record_key="id")
    data = engine.frame(_data()) if engine.name == "local" else _one_task(engine.frame(_data()))
    settings = {"hoodie.parquet.max.file.size": str(limit), "hoodie.parquet.compression.codec": codec}
    table.bulk_insert(data, options=settings)
    assert len(engine.read(table.scan(["id"]))) == ROWS
    sizes = [file.stat().st_size for file in base_files(tmp_path / "t")]
    assert len(sizes) > 2
    assert max(sizes) <= 1.1 * limit, sizes
    assert sorted(sizes)[1] >= 0.9 * limit  # all but the last


def _one_task(frame: Any) -> Any:
    return frame.coalesce(1)
