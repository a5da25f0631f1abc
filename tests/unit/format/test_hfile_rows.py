"""Records in HFiles: log blocks of Hudi's and of our own."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format.hfile_read import open_bytes
from pudi.format.hfile_rows import encode_rows
from pudi.format.log_block import BlockKind, Header, LogBlock, decode_blocks
from pudi.format.log_data import decode_data
from pudi.metadata.decode import decode_entries

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "trip",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "fare", "type": ["null", "double"], "default": None},
            {"name": "key", "type": "string"},
        ],
    }
)
ARROW = pa.schema([pa.field("id", pa.string(), False), ("fare", pa.float64()), pa.field("key", pa.string(), False)])


def block(content: bytes, schema: str = SCHEMA) -> LogBlock:
    return LogBlock(
        BlockKind.HFILE, {Header.SCHEMA: schema, Header.INSTANT_TIME: "1"}, memoryview(content), path="x.log"
    )


@given(st.dictionaries(st.text(max_size=5), st.none() | st.floats(allow_nan=False), max_size=30))
def test_rows_come_back_in_the_order_of_their_keys(rows: dict[str, float | None]) -> None:
    made = [{"id": f"r{key}", "fare": fare, "key": key} for key, fare in rows.items()]
    table = pa.Table.from_pylist(made, ARROW)
    found = decode_data(block(encode_rows(table, SCHEMA, table["key"])))
    assert found.to_pylist() == sorted(made, key=lambda row: str(row["key"]).encode())
    assert found.schema.equals(ARROW)
    assert decode_data(block(encode_rows(table, SCHEMA, table["key"])), {"fare"}).column_names == ["fare"]


def test_key_is_stored_once() -> None:
    table = pa.Table.from_pylist([{"id": "a", "fare": 1.0, "key": "k"}], ARROW)
    entries = open_bytes(encode_rows(table, SCHEMA, table["key"]), path="x").scan()
    value = fastavro.schemaless_reader(io.BytesIO(entries["value"][0].as_py()), json.loads(SCHEMA))
    assert value == {"id": "a", "fare": 1.0, "key": ""}
    assert entries["key"].to_pylist() == [b"k"]


def test_another_column_of_that_name_is_refused() -> None:
    table = pa.Table.from_pylist([{"id": "a", "fare": 1.0, "key": "k"}], ARROW)
    with pytest.raises(NotSupportedError, match="isn't the record key"):
        encode_rows(table, SCHEMA, table["id"])


def test_keys_come_once() -> None:
    table = pa.Table.from_pylist([{"id": "a", "fare": 1.0, "key": "k"}] * 2, ARROW)
    with pytest.raises(InvalidArgumentError, match="comes twice"):
        encode_rows(table, SCHEMA, table["key"])


def test_damage_names_the_block() -> None:
    table = pa.Table.from_pylist([{"id": "a", "fare": 1.0, "key": "k"}], ARROW)
    content = bytearray(encode_rows(table, SCHEMA, table["key"]))
    with pytest.raises(CorruptError) as caught:
        decode_data(block(bytes(content[:-1])))
    assert caught.value.path == "x.log"
    other = SCHEMA.replace('["null", "double"]', '"string"').replace(', "default": null', "")
    with pytest.raises(CorruptError):
        decode_data(block(bytes(content), other))


def test_blocks_of_the_metadata_table() -> None:
    """Read as fastavro does; the `files` partition has a map of records, and no union of several types."""
    count = 0
    with zipfile.ZipFile(GOLDEN / "mor_v9_rli.zip") as files:
        for name in files.namelist():
            if "/metadata/files/." not in name or ".log." not in name or name.endswith(".crc"):
                continue
            for each in decode_blocks(files.read(name), path=name):
                if each.kind is BlockKind.HFILE:
                    reader = open_bytes(each.content, path=name)
                    schema = reader.avro_schema
                    entries = reader.scan()
                    rows = decode_entries(entries, schema, ["key", "type"], path=name)
                    expected = [
                        fastavro.schemaless_reader(io.BytesIO(value), json.loads(schema))
                        for value in entries["value"].to_pylist()
                    ]
                    assert rows["key"].to_pylist() == [key.decode() for key in entries["key"].to_pylist()]
                    assert rows["type"].to_pylist() == [record["type"] for record in expected]
                    count += rows.num_rows
    assert count == 20
