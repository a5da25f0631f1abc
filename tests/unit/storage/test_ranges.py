"""Byte ranges put together and cut apart, and files read through them."""

from __future__ import annotations

import io
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from pudi.storage import CountingStorage, RangedFile, open_input, open_storage, prefetch
from pudi.storage.checks import coalesce, cut

CONTENT = bytes(range(256)) * 4
RANGES = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), max_size=20)


@given(RANGES, st.integers(0, 200))
def test_what_is_put_together_is_cut_apart(ranges: list[tuple[int, int]], gap: int) -> None:
    spans = coalesce(ranges, gap)
    found = [CONTENT[start : start + length] for start, length in spans]
    assert cut(ranges, spans, found) == [CONTENT[start : start + length] for start, length in ranges]


@given(RANGES, st.integers(0, 200))
def test_spans_are_far_apart_and_no_longer_than_needed(ranges: list[tuple[int, int]], gap: int) -> None:
    spans = coalesce(ranges, gap)
    assert all(after[0] - sum(before) > gap for before, after in pairwise(spans))
    wanted = {byte for start, length in ranges for byte in range(start, start + length)}
    assert all(start in wanted and start + length - 1 in wanted for start, length in spans)


@given(st.lists(st.tuples(st.sampled_from(["read", "seek", "tell"]), st.integers(0, 1100)), max_size=30))
def test_a_ranged_file_reads_like_any_other(steps: list[tuple[str, int]]) -> None:
    storage = open_storage("memory://ranged")
    storage.put("file", CONTENT)
    mine, theirs = RangedFile(storage, "file", 2 << 20), io.BytesIO(CONTENT)
    for step, number in steps:
        if step == "tell":
            assert mine.tell() == theirs.tell()
        else:
            assert getattr(mine, step)(number) == getattr(theirs, step)(number)
    assert mine.read() == theirs.read()


def _parquet(columns: int, rows: int) -> pa.Buffer:
    table = pa.table({f"c{n}": pa.array(range(n, n + rows)) for n in range(columns)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    return sink.getvalue()


def test_a_large_file_costs_two_requests() -> None:
    storage = CountingStorage(open_storage("memory://requests"))
    storage.put("f.parquet", _parquet(10, 100_000).to_pybytes())
    storage.reset()
    file = open_input(storage, "f.parquet", 8 << 20)
    metadata = pq.read_metadata(file)
    chunks = [metadata.row_group(0).column(n) for n in (1, 7)]
    prefetch(file, [(chunk.data_page_offset, chunk.total_compressed_size) for chunk in chunks])
    found = pq.ParquetFile(file, metadata=metadata, pre_buffer=True).read(columns=["c1", "c7"])
    assert (found.num_rows, found["c7"][5].as_py()) == (100_000, 12)
    assert storage.calls == {"read_tail": 1, "read_ranges": 1}


def test_a_small_file_costs_one_request() -> None:
    storage = CountingStorage(open_storage("memory://requests"))
    content = _parquet(3, 1000).to_pybytes()
    storage.put("small.parquet", content)
    storage.reset()
    assert pq.ParquetFile(open_input(storage, "small.parquet", len(content))).read().num_rows == 1000
    assert storage.calls == {"read_tail": 1}
