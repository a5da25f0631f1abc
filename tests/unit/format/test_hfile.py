"""HFiles: Hudi's own read whole and in parts."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.hfile_write import HFileSettings, StoredBloom, encode_hfile
from pudi.format.log_block import BlockKind, decode_blocks

GOLDEN = Path(__file__).parents[2] / "golden"
TABLES = sorted(each for each in GOLDEN.glob("*.zip") if not each.name.startswith("v5_"))
"""Those of Hudi 1.2: before, HBase wrote its HFiles."""


def hfiles(table: Path) -> Iterator[tuple[str, bytes]]:
    """Every HFile of a table's metadata: base files and blocks of log files."""
    with zipfile.ZipFile(table) as files:
        for name in files.namelist():
            if ".hoodie/metadata/" not in name or name.endswith(".crc"):
                continue
            if name.endswith(".hfile"):
                yield name, files.read(name)
            elif ".log." in name:
                for block in decode_blocks(files.read(name), path=name):
                    if block.kind is BlockKind.HFILE:
                        yield f"{name}@{block.offset}", bytes(block.content)


@pytest.mark.parametrize("table", TABLES, ids=[table.stem for table in TABLES])
def test_files_of_hudi(table: Path) -> None:
    for name, content in hfiles(table):
        reader = open_bytes(content, path=name)
        entries = reader.scan()
        assert entries.num_rows == reader.entry_count
        assert '"HoodieMetadataRecord"' in reader.avro_schema
        keys = entries["key"].to_pylist()
        assert keys == sorted(keys)
        assert reader.seek(pa.array(keys[::3], pa.binary()))["key"].to_pylist() == keys[::3]
        for prefix in sorted({key[:4] for key in keys})[:5]:
            assert reader.seek_prefixes([prefix]).equals(entries.filter(pc.starts_with(entries["key"], prefix)))
        assert (reader.meta_block("bloomFilter") is None) == ("@" in name)


def test_the_corpus_has_hfiles() -> None:
    assert sum(1 for table in TABLES for _ in hfiles(table)) > 1000


def test_small_file_is_one_request() -> None:
    name, content = next(hfiles(GOLDEN / "mor_v9_rli.zip"))
    asked = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return content[offset : offset + length]

    HFileReader.open(read, len(content), path=name).scan()
    assert asked == [(0, len(content))]


@pytest.mark.parametrize("table", TABLES, ids=[table.stem for table in TABLES])
def test_files_of_hudi_again(table: Path) -> None:
    for name, content in hfiles(table):
        reader = open_bytes(content, path=name)
        entries, bloom = reader.scan(), reader.meta_block("bloomFilter")
        again = encode_hfile(
            *entries.combine_chunks().columns, avro_schema=reader.avro_schema,
            bloom=None if bloom is None else StoredBloom(bloom),
            settings=HFileSettings(level=6, created=int.from_bytes(reader.info["hfile.CREATE_TIME_TS"], "big")),
        )  # fmt: skip
        copy = open_bytes(again, path=name)
        assert copy.scan().equals(entries)
        assert copy.info == reader.info
        assert copy.meta_block("bloomFilter") == bloom
        assert copy._trailer.payload == reader._trailer.payload
        assert copy._trailer.levels == reader._trailer.levels == 1
