"""Where log records are in the base file: written where the index knows it, used by readers where it's valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.errors import CorruptError
from pudi.format.log_block import BlockKind, Header, LogBlock, decode_blocks, encode_block
from pudi.format.log_data import decode_data, decode_positions, encode_positions
from pudi.format.log_deletes import decode_deletes
from pudi.task import SliceReader
from support.engines import Engine
from support.golden import Golden, tables
from support.rows import assert_same, from_arrow

BY_KEY = {"hoodie.merge.use.record.positions": "false"}
TABLES = [table.name for table in tables("mor_")]


def _rows(numbers: Any, text: str) -> pa.Table:
    numbers = list(numbers)
    keys = [f"k{n:05d}" for n in numbers]
    return pa.table({"k": keys, "ts": pa.array(numbers, pa.int64()), "text": [f"{text} {n}" for n in numbers]})


def _table(path: Path, options: dict[str, str] | None = None, **made: Any) -> pudi.Table:
    first = _rows(reversed(range(3000)), "first")
    kept = {key: value for key, value in (options or {}).items() if "table.version" in key}
    pudi.create(path, first.schema, record_key="k", table_type="mor", **made, options=kept)
    mine = pudi.Table(path, options={"hoodie.parquet.small.file.limit": "0", **(options or {})})
    mine.insert(first)
    return mine


def _blocks(path: str | Path) -> list[LogBlock]:
    return [block for file in sorted(Path(path).rglob(".*.log.*")) for block in decode_blocks(file.read_bytes())]


@pytest.mark.parametrize(
    "options", [{}, {"hoodie.logfile.data.block.format": "avro"}, {"hoodie.index.type": "BLOOM"},
                {"hoodie.logfile.data.block.max.size": "20000", "hoodie.parquet.block.size": "65536"}]
)  # fmt: skip
def test_blocks_say_where_their_records_are(tmp_path: Path, options: dict[str, str]) -> None:
    mine = _table(tmp_path / "t", options, ordering="ts")
    mine.upsert(_rows(range(100, 1200, 3), "newer"))
    mine.delete(_rows(range(5, 2995, 7), "").select(["k"]))
    base = mine.file_slices()[0].base
    assert base is not None
    stored = pq.read_table(tmp_path / "t" / base.path, columns=["_hoodie_record_key"])["_hoodie_record_key"]
    blocks = _blocks(mine.path)
    assert {block.kind for block in blocks} >= {BlockKind.DELETE}
    for block in blocks:
        assert block.headers[Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] == base.instant
        deletes = block.kind is BlockKind.DELETE
        keys = decode_deletes(block).keys if deletes else decode_data(block)["_hoodie_record_key"]
        positions = decode_positions(block.headers[Header.RECORD_POSITIONS], len(keys))
        assert stored.take(pa.array(positions)).to_pylist() == keys.to_pylist()
    by_key = pudi.Table(mine.path, options=BY_KEY).scan().to_arrow()
    assert_same(from_arrow(mine.scan().to_arrow()), from_arrow(by_key))


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.write.record.positions": "false"},
        {"hoodie.write.table.version": "6"},
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    ],
)
def test_blocks_say_nothing_else(tmp_path: Path, options: dict[str, str]) -> None:
    mine = _table(tmp_path / "t", options)
    mine.upsert(_rows(range(100), "newer"))
    assert _blocks(mine.path)
    assert not any(Header.RECORD_POSITIONS in block.headers for block in _blocks(mine.path))


def test_a_key_in_two_rows_has_no_position(tmp_path: Path) -> None:
    """Plain inserts make copies; all of them are updated."""
    pudi.create(tmp_path / "t", _rows([1], "").schema, record_key="k", table_type="mor")
    mine = pudi.Table(tmp_path / "t", options={"hoodie.combine.before.insert": "false"})
    mine.insert(pa.concat_tables([_rows(range(9), "first"), _rows([3], "again")]))
    mine.upsert(_rows([3, 4], "newer"))
    (block,) = _blocks(mine.path)
    assert Header.RECORD_POSITIONS not in block.headers
    assert sorted(mine.scan(columns=["text"], where="k = 'k00003'").to_arrow()["text"].to_pylist()) == ["newer 3"] * 2


@pytest.mark.parametrize("name", TABLES)
def test_hudis_tables_are_the_same_by_position_and_by_key(golden_folder: Path, name: str) -> None:
    path = Golden(name).unpack(golden_folder)
    mine, by_key = pudi.Table(path), pudi.Table(path, options=BY_KEY)
    for ask in (lambda t: t.scan(), lambda t: t.scan(columns=[]), lambda t: t.scan(columns=t.schema.names[-2:])):
        found, known = ask(mine).to_arrow(), ask(by_key).to_arrow()
        assert found.num_rows == known.num_rows
        assert_same(from_arrow(found), from_arrow(known), about=name)
    plans = [table.scan().plan for table in (mine, by_key)]
    readers = [SliceReader(mine.scan()._meta.storage, plan) for plan in plans]
    for file_slice in (s for s in plans[0].slices if s.logs and s.base is not None):
        gone = [reader.replaced(file_slice) for reader in readers]
        assert gone[0].tolist() == gone[1].tolist()
        rows = [pa.Table.from_batches(reader.winners(file_slice), plans[0].output_schema) for reader in readers]
        assert_same(from_arrow(rows[0]), from_arrow(rows[1]), about=name)


def test_the_base_file_is_not_needed_to_know_what_is_replaced(tmp_path: Path) -> None:
    mine = _table(tmp_path / "t")
    mine.upsert(_rows(range(100, 200), "newer"))
    mine.delete(_rows(range(300, 310), "").select(["k"]))
    plan, storage = mine.scan(columns=["text"]).plan, mine.scan()._meta.storage
    (file_slice,) = plan.slices
    assert file_slice.base is not None
    (tmp_path / "t" / file_slice.base.path).unlink()
    reader = SliceReader(storage, plan)
    expected = sorted([*range(2999 - 199, 2999 - 99), *range(2999 - 309, 2999 - 299)])
    assert reader.replaced(file_slice).tolist() == expected
    found = pa.Table.from_batches(reader.winners(file_slice))["text"].to_pylist()
    assert sorted(found) == [f"newer {n}" for n in range(100, 200)]


@pytest.mark.parametrize(
    ("stored", "newer"),
    [
        ([5, 1, 3, 2], [(0, 6), (2, 5), (4, 9)]),  # none that is stored is above any
        ([5, 1, 3, 2], [(0, 5), (2, 4), (3, None)]),  # one in another row is, and one is deleted
        ([5, 1, 3, 2], [(0, 4), (1, 0), (2, 3), (3, 3)]),
        ([None, -7, -7, None], [(0, -3), (1, -3), (2, -9), (3, 0)]),  # null is 0 among ints
        ([None, -7], [(0, None), (1, None), (2, 4)]),
    ],
)
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.timestamp("us"), pa.float64(), pa.string()])
def test_what_footers_say_of_ordering_values_decides_as_the_values_do(
    tmp_path: Path, kind: pa.DataType, stored: list[int | None], newer: list[tuple[int, int | None]]
) -> None:
    def rows(values: list[tuple[int, int | None]]) -> pa.Table:
        ordering = [None if v is None else float(v) if kind == pa.float64() else v for _, v in values]
        column = pa.array(ordering, pa.int64()).cast(kind) if kind == pa.string() else pa.array(ordering, kind)
        return pa.table({"k": [f"k{n}" for n, _ in values], "ts": column, "n": [n for n, _ in values]})

    first = rows(list(enumerate(stored)))
    pudi.create(tmp_path / "t", first.schema, record_key="k", ordering="ts", table_type="mor")
    mine, by_key = (pudi.Table(tmp_path / "t", options=each) for each in ({}, BY_KEY))
    mine.insert(first)
    mine.upsert(rows([each for each in newer if each[0] < len(stored)]))
    if newer[-1][1] is None:
        mine.delete(rows(newer[-1:]).select(["k"]))
    plans = [table.scan().plan for table in (mine, by_key)]
    readers = [SliceReader(mine.scan()._meta.storage, plan) for plan in plans]
    (file_slice,) = plans[0].slices
    assert file_slice.logs
    gone = [reader.replaced(file_slice).tolist() for reader in readers]
    assert gone[0] == gone[1]
    found = [pa.Table.from_batches(reader.winners(file_slice), plans[0].output_schema) for reader in readers]
    assert_same(from_arrow(found[0]), from_arrow(found[1]))


def test_no_row_of_the_base_file_is_read_where_none_can_win(tmp_path: Path) -> None:
    mine = _table(tmp_path / "t", ordering="ts")
    later = _rows(range(100, 200), "newer")
    mine.upsert(later.set_column(1, "ts", pa.array(np.full(100, 2999))))
    plan, storage = mine.scan(columns=["text"]).plan, mine.scan()._meta.storage
    (file_slice,) = plan.slices
    assert file_slice.base is not None
    path = tmp_path / "t" / file_slice.base.path
    group = pq.read_metadata(path).row_group(0)
    content = bytearray(path.read_bytes())
    for column in map(group.column, range(group.num_columns)):
        start = column.dictionary_page_offset or column.data_page_offset
        content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)
    reader = SliceReader(storage, plan)
    assert len(reader.replaced(file_slice)) == 100
    found = pa.Table.from_batches(reader.winners(file_slice))["text"].to_pylist()
    assert sorted(found) == [f"newer {n}" for n in range(100, 200)]
    with pytest.raises(CorruptError):
        mine.scan().to_arrow()


def test_neighbours_of_rows_that_go_stay(tmp_path: Path, engine: Engine) -> None:
    """Rows go by bits of a number each 64 of them: the first, the last and those of the next number among them."""
    mine = _table(tmp_path / "t", ordering="ts")
    at = [2999 - n for n in (0, 1, 62, 63, 64, 127, 128, 190, 192, 1000, 2999)]
    gone = [2999 - n for n in (2, 61, 65, 191, 2998)]
    mine.upsert(_rows(at, "newer"))
    mine.delete(_rows(gone, "").select(["k"]))
    expected = {n: f"{'newer' if n in at else 'first'} {n}" for n in range(3000) if n not in gone}
    found = engine.read(mine.scan(columns=["ts", "text"]))
    assert {row["ts"]: row["text"] for row in found} == expected
    assert len(found) == len(expected)


def _with_headers(file: Path, **changed: str) -> None:
    (block,) = decode_blocks(file.read_bytes())
    headers = {**block.headers, **{Header[name]: text for name, text in changed.items()}}
    file.write_bytes(encode_block(block.kind, headers, bytes(block.content)))


def test_positions_in_another_base_file_do_not_count(tmp_path: Path) -> None:
    mine = _table(tmp_path / "t")
    mine.upsert(_rows(range(100, 200), "newer"))
    (file,) = Path(mine.path).rglob(".*.log.*")
    _with_headers(
        file,
        RECORD_POSITIONS=encode_positions(np.arange(100)),
        BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS="20200101000000000",
    )
    texts = mine.scan(columns=["text"]).to_arrow()["text"].to_pylist()
    assert sorted(texts) == sorted(f"{'newer' if 100 <= n < 200 else 'first'} {n}" for n in range(3000))


def test_another_number_of_positions_is_corrupt(tmp_path: Path) -> None:
    mine = _table(tmp_path / "t")
    mine.upsert(_rows(range(100, 200), "newer"))
    (file,) = Path(mine.path).rglob(".*.log.*")
    _with_headers(file, RECORD_POSITIONS=encode_positions(np.arange(99)))
    with pytest.raises(CorruptError, match="99 positions for 100 records"):
        mine.scan().to_arrow()
    assert pudi.Table(mine.path, options=BY_KEY).scan().to_arrow().num_rows == 3000
