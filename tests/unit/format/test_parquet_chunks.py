"""Column chunks moved between Parquet files: readers find the same rows and statistics; what can't be moved says so."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.format.parquet_chunks import (
    FOOTER_TAIL,
    MovedChunk,
    NotMovableError,
    assemble,
    check_pages,
    decode_footer,
    footer_in,
    footer_length,
    moved_groups,
)
from pudi.format.thrift_compact import BINARY, I64, STRUCT, Items, Struct, decode_struct, encode_struct

COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-(1 << 63), (1 << 63) - 1),
    "text": st.text(max_size=12),
    "flag": st.booleans(),
    "real": st.floats(allow_nan=False),
    "day": st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    "price": st.decimals(-1000, 1000, places=2, allow_nan=False).map(lambda value: decimal.Decimal(str(value))),
    "tags": st.lists(st.none() | st.text(max_size=4), max_size=3),
    "point": st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "names": st.lists(st.text(max_size=3))}),
}
TYPES = pa.schema(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("real", pa.float64()),
        ("day", pa.date32()),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        ("point", pa.struct([("x", pa.int32()), ("names", pa.list_(pa.string()))])),
    ]
)
WAYS: list[dict[str, Any]] = [
    {},
    {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True},
    {"compression": "gzip", "data_page_version": "2.0", "data_page_size": 64, "write_page_index": True},
    {"compression": "none", "data_page_size": 32, "write_page_checksum": True},
]


def written(table: pa.Table, **how: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, **how)
    return sink.getvalue()


def table_of(records: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(records), schema=TYPES)


def facts(metadata: pq.FileMetaData) -> list[Any]:
    """What a footer says of its chunks, without where they are."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [[group.column(number) for number in range(group.num_columns)] for group in groups]
    return [
        (
            group.num_rows,
            group.total_byte_size,
            [
                (
                    c.path_in_schema,
                    c.num_values,
                    c.encodings,
                    c.compression,
                    c.total_compressed_size,
                    str(c.statistics).partition(">")[2],
                )
                for c in columns
            ],
        )
        for group, columns in zip(groups, chunks, strict=True)
    ]


@settings(max_examples=40)
@given(
    st.lists(
        st.fixed_dictionaries({name: st.none() | values for name, values in COLUMNS.items()}), min_size=1, max_size=12
    ),
    st.sampled_from(WAYS),
    st.integers(1, 5),
    st.data(),
)
def test_row_groups_of_two_files_in_any_order(
    records: list[dict[str, Any]], how: dict[str, Any], size: int, data: st.DataObject
) -> None:
    tables = [table_of(records), table_of(list(reversed(records)))]
    files = [written(table, row_group_size=size, **how) for table in tables]
    groups = [group for file in files for group in moved_groups(file)]
    for _, chunks in groups:
        for moved in chunks:
            check_pages(moved.chunk, bytes(moved.content))
    parts = [table.slice(start, size) for table in tables for start in range(0, len(records), size)]
    order = data.draw(st.lists(st.sampled_from(range(len(parts))), min_size=1, max_size=8))
    made = assemble(footer_in(files[0]), [groups[number] for number in order], {b"a key": b"a value", b"b": b""})
    read = pq.ParquetFile(pa.BufferReader(made), page_checksum_verification=True)
    assert read.read().equals(pa.concat_tables(parts[number] for number in order))
    assert read.metadata.metadata == {b"a key": b"a value", b"b": b""}
    known = [fact for file in files for fact in facts(pq.read_metadata(pa.BufferReader(file)))]
    assert facts(read.metadata) == [known[number] for number in order]


def records(rows: int = 3_000) -> pa.Table:
    chance = np.random.default_rng(3)
    return pa.table(
        {
            "id": [f"k{number:06}" for number in range(rows)],
            "word": pa.array([None, "one", "two"]).take(pa.array(chance.integers(0, 3, rows))),
            "x": chance.random(rows),
            "tags": [[str(number)] * (number % 3) for number in range(rows)],
        }
    )


@pytest.mark.parametrize("how", WAYS)
def test_duckdb_reads_what_is_assembled(tmp_path: Path, how: dict[str, Any]) -> None:
    rows = records()
    file = written(rows, row_group_size=1_000, **how)
    groups = moved_groups(file)
    (tmp_path / "made.parquet").write_bytes(assemble(footer_in(file), [groups[2], groups[0]], {}))
    found = duckdb.sql(f"select * from '{tmp_path}/made.parquet'").to_arrow_table().cast(rows.schema)
    assert found.equals(pa.concat_tables([rows.slice(2_000), rows.slice(0, 1_000)]))
    pruned = duckdb.sql(f"select count(*), min(id) from '{tmp_path}/made.parquet' where id >= 'k002500'").fetchall()
    assert pruned == [(500, "k002500")]


def test_a_column_of_another_file() -> None:
    rows = records()
    other = rows.set_column(2, "x", pa.array(np.arange(3_000) / 7))
    ours, theirs = (moved_groups(written(table, row_group_size=1_000)) for table in (rows, other))
    mixed = [
        (count, [by[1] if mine.chunk.path == ("x",) else mine for mine, *by in zip(chunks, chunks, more, strict=True)])
        for (count, chunks), (_, more) in zip(ours, theirs, strict=True)
    ]
    made = assemble(footer_in(written(rows)), mixed, {})
    assert pq.read_table(pa.BufferReader(made)).equals(other)


def test_a_column_under_another_name() -> None:
    rows = pa.table({"a": ["x", None, "y"], "b": ["x", None, "y"]})
    [(count, [a, _])] = moved_groups(written(rows))
    made = assemble(footer_in(written(rows)), [(count, [a, MovedChunk(a.chunk.named("b"), a.content)])], {})
    assert made.equals(written(rows))


def test_what_points_elsewhere_in_the_file_is_left_out() -> None:
    file = written(records(), row_group_size=1_000, write_page_index=True, bloom_filter_options={"id": True})
    before = pq.read_metadata(pa.BufferReader(file))
    assert before.row_group(0).column(0).has_offset_index
    made = pq.ParquetFile(pa.BufferReader(assemble(footer_in(file), moved_groups(file)[1:], {})))
    for chunk in (made.metadata.row_group(group).column(n) for group in range(2) for n in range(4)):
        assert not chunk.has_offset_index
        assert not chunk.has_column_index
    assert made.read().equals(records().slice(1_000))
    fields = decode_footer(*footer_of(file)).groups[0].chunks[0].metadata
    assert {14, 15} <= set(fields), "a Bloom filter to leave out"
    moved = footer_in(assemble(footer_in(file), moved_groups(file), {})).groups[0].chunks[0].metadata
    assert not {14, 15} & set(moved)


def footer_of(content: pa.Buffer) -> tuple[bytes, int]:
    data = content.to_pybytes()
    return data[-FOOTER_TAIL - footer_length(data[-FOOTER_TAIL:]) : -FOOTER_TAIL], len(data)


def edited(change: Callable[[Struct, Struct, Struct], None]) -> tuple[bytes, int]:
    """A footer whose file, first column chunk, and ColumnMetaData of it are changed."""
    data, size = footer_of(written(records(100)))
    fields, _ = decode_struct(data)
    column = fields[4][1].values[0][1][1].values[0]
    change(fields, column, column[3][1])
    return encode_struct(dict(sorted(fields.items()))), size


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda file, column, known: file.update({8: (STRUCT, {})}), id="an encrypted file"),
        pytest.param(lambda file, column, known: column.update({8: (STRUCT, {})}), id="an encrypted column"),
        pytest.param(lambda file, column, known: column.update({9: (BINARY, b"x")}), id="encrypted metadata"),
        pytest.param(lambda file, column, known: column.update({1: (BINARY, b"x.parquet")}), id="another file"),
        pytest.param(lambda file, column, known: column.pop(3), id="no metadata"),
        pytest.param(lambda file, column, known: known.update({10: (I64, 4)}), id="an index page"),
        pytest.param(lambda file, column, known: known.update({11: (I64, 0)}), id="a dictionary at 0"),
        pytest.param(lambda file, column, known: known.update(dict.fromkeys((5, 6, 7, 9), (I64, 0))), id="no pages"),
    ],
)
def test_what_cant_be_moved(change: Callable[[Struct, Struct, Struct], None]) -> None:
    with pytest.raises(NotMovableError):
        decode_footer(*edited(change))


def test_an_encrypted_footer_isnt_moved() -> None:
    with pytest.raises(NotMovableError, match="encrypted"):
        footer_length(b"\x10\0\0\0PARE")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda file, column, known: known.update({7: (I64, 1 << 40)}), id="pages behind the end"),
        pytest.param(lambda file, column, known: known.update({7: (I64, -5)}), id="a negative length"),
        pytest.param(lambda file, column, known: known.pop(5), id="no count of values"),
        pytest.param(lambda file, column, known: known.update({9: (BINARY, b"4")}), id="an offset of text"),
        pytest.param(lambda file, column, known: known.update({3: (I64, 4)}), id="a path that is a number"),
        pytest.param(lambda file, column, known: file.update({3: (I64, 99)}), id="other rows than its groups"),
        pytest.param(lambda file, column, known: file.pop(2), id="no schema"),
        pytest.param(lambda file, column, known: file[4][1].values[0][1][1].values.pop(), id="a column less"),
        pytest.param(lambda file, column, known: file.update({4: (9, Items(I64, [1]))}), id="groups of numbers"),
    ],
)
def test_footers_that_cant_be(change: Callable[[Struct, Struct, Struct], None]) -> None:
    with pytest.raises(CorruptError):
        decode_footer(*edited(change))


@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_flipped_byte_in_a_footer_is_found_or_harmless(place: int, change: int) -> None:
    data, size = footer_of(FLIPPED)
    damaged = bytearray(data)
    damaged[place % len(data)] ^= change
    try:
        footer = decode_footer(bytes(damaged), size)
    except (CorruptError, NotMovableError):
        return
    for chunk in (chunk for group in footer.groups for chunk in group.chunks):
        assert 4 <= chunk.start <= chunk.start + chunk.length <= size - len(data) - FOOTER_TAIL


@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_flipped_byte_in_a_page_is_found(place: int, change: int) -> None:
    """In the page itself by its checksum; in its header mostly, or the header says the same of where values are."""
    for _, chunks in moved_groups(FLIPPED):
        moved = chunks[1]
        content = bytearray(moved.content)
        place %= len(content)
        _, start = decode_struct(bytes(content))
        content[place] ^= change
        try:
            check_pages(moved.chunk, bytes(content), path="f.parquet")
        except (CorruptError, NotMovableError) as error:
            assert error.path == "f.parquet"
        else:
            assert place < start


FLIPPED = written(records(60), row_group_size=30, write_page_checksum=True, use_dictionary=False, compression="zstd")


@pytest.mark.parametrize("tail", [b"", b"PAR1", b"\x10\0\0\0PAR2"])
def test_no_parquet_file(tail: bytes) -> None:
    with pytest.raises(CorruptError):
        footer_length(tail)


def test_fewer_values_than_stated() -> None:
    [(_, [moved, *_])] = moved_groups(written(records(100)))
    content = bytes(moved.content)
    with pytest.raises(CorruptError, match="bytes are there"):
        check_pages(moved.chunk, content[:-1])
    moved.chunk.metadata[5] = (I64, 101)
    with pytest.raises(CorruptError, match="100 of 101 values"):
        check_pages(moved.chunk, content)
