"""Log files of tables that pudi and Hudi wrote, cut off anywhere, and with each bit of their framing flipped."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient, TableSnapshot, merging_of
from pudi.context import FileInfo
from pudi.errors import CorruptError, NotSupportedError
from pudi.filegroup import FileSlice, read_log_blocks
from pudi.format.log_block import Header
from pudi.plan.log_files import Merging
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.task.merged import MergedSlices
from support.golden import Golden

GOLDEN = ["mor_v6_basic", "mor_v6_types_parquetlog", "mor_v8_partial_update", "mor_v9_basic", "mor_v9_logcompact"]


@dataclass
class Altered:
    """A storage one of whose files has other bytes."""

    storage: Any
    path: str = ""
    data: bytes = b""

    def read(self, path: str, *limit: Any, **named: Any) -> bytes:
        found: bytes = self.data if path == self.path else self.storage.read(path, *limit, **named)
        return found

    def read_ranges(self, path: str, ranges: Any) -> list[bytes]:
        if path != self.path:
            found: list[bytes] = self.storage.read_ranges(path, ranges)
            return found
        return [self.data[start : start + length] for start, length in ranges]

    def head(self, path: str) -> FileInfo:
        found: FileInfo = self.storage.head(path)
        return FileInfo(path, len(self.data), 0) if path == self.path else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)


@dataclass
class Read:
    """A slice with log files, as a scan merges it."""

    storage: Any
    file_slice: FileSlice
    merging: Merging
    schema: pa.Schema

    def rows(self, storage: Any) -> list[dict[str, Any]]:
        reader = MergedSlices(storage, self.merging, self.schema, history=None)
        found = reader.read(self.file_slice, self.schema.names)
        return sorted(found.to_pylist(), key=lambda row: str(row[RECORD_KEY]))


def slices_of(path: str, *, metadata: bool) -> list[Read]:
    options = {} if metadata else {"hoodie.metadata.enable": "false"}
    meta = MetaClient.open(path, None, options)
    timeline = meta.store.load()
    merging = merging_of(TableSnapshot(meta, timeline))
    assert merging is not None
    found = [each for each in TableSnapshot(meta, timeline).view().all_slices() if each.logs]
    schema = with_meta_fields(TableSnapshot(meta, timeline).schema.columns)
    return [Read(meta.storage, each, merging, schema) for each in found]


def framing(data: bytes) -> Iterator[int]:
    """Offsets of the bytes of blocks that are neither content nor a text of a header but an instant's."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">q", data, at + 6)
        (count,) = struct.unpack_from(">i", data, at + 22)
        yield from range(at, at + 26)
        inside = at + 26
        for _ in range(count):
            key, size = struct.unpack_from(">ii", data, inside)
            yield from range(inside, inside + 8)
            if key == Header.INSTANT_TIME:
                yield from range(inside + 8, inside + 8 + size)
            inside += 8 + size
        (content,) = struct.unpack_from(">q", data, inside)
        yield from range(inside, inside + 8)
        yield from range(inside + 8 + content, at + 14 + length)
        at += 14 + length


@pytest.fixture(scope="module", params=[6, 8, 9])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of pudi's: log files of one block and of two, of updates and deletes."""
    path = str(tmp_path_factory.mktemp("written") / "t")
    rows = pa.table({"id": ["a", "b", "c"], "ts": [1, 1, 1], "v": [1, 2, 3]})
    options = {"hoodie.write.table.version": str(request.param)}
    table = pudi.create(path, rows.schema, record_key="id", ordering="ts", table_type="mor", options=options)
    table.insert(rows)
    table.upsert(pa.table({"id": ["a"], "ts": [2], "v": [10]}))
    newer = pa.table({"id": ["a", "b"], "ts": [3, 3], "v": [11, 20]})
    merge = table.merge(newer).when_matched_update({"v": "source.v"}, condition="target.id = 'a'")
    merge.when_matched_delete(condition="target.id = 'b'").execute()
    assert table.scan(columns=["id", "v"]).to_arrow().to_pylist() == [{"id": "a", "v": 11}, {"id": "c", "v": 3}]
    return path


@pytest.mark.parametrize("metadata", [True, False])
def test_pudis_log_files_cut_at_every_byte(written: str, metadata: bool) -> None:
    cut_everywhere(slices_of(written, metadata=metadata))


@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("name", GOLDEN)
def test_hudis_log_files_cut_anywhere(name: str, metadata: bool, golden_folder: Path) -> None:
    cut_everywhere(slices_of(str(Golden(name).unpack(golden_folder)), metadata=metadata)[:1], 19)


HELD = 1 << 30


def cut_everywhere(found: list[Read], step: int = 1) -> None:
    """At every `step` bytes and at each of the last, held in memory and read in windows."""
    assert found
    for each in found:
        for log in each.file_slice.logs:
            whole = each.storage.read(log.path)
            for hold in (HELD, 0):
                for size in (*range(0, len(whole), step if hold else 10 * step), *range(len(whole) - 30, len(whole))):
                    storage = Altered(each.storage, log.path, whole[:size])
                    with pytest.raises(CorruptError) as caught:
                        read_log_blocks(storage, each.file_slice.logs, each.merging.scope, hold)  # type: ignore[arg-type]
                    assert caught.value.path == log.path


def test_every_bit_of_the_framing_of_pudis_log_files(written: str) -> None:
    flip_everywhere(slices_of(written, metadata=True))


@pytest.mark.parametrize("name", GOLDEN)
def test_every_bit_of_the_framing_of_hudis_log_files(name: str, golden_folder: Path) -> None:
    flip_everywhere(slices_of(str(Golden(name).unpack(golden_folder)), metadata=False)[:1])


def flip_everywhere(found: list[Read]) -> None:
    assert found
    for each in found:
        expected = each.rows(each.storage)
        for log in each.file_slice.logs[-2:]:
            whole = each.storage.read(log.path)
            for at in framing(whole):
                for bit in range(8):
                    data = bytearray(whole)
                    data[at] ^= 1 << bit
                    storage = Altered(each.storage, log.path, bytes(data))
                    try:
                        read_log_blocks(storage, each.file_slice.logs, each.merging.scope, HELD)  # type: ignore[arg-type]
                        rows = each.rows(storage)
                    except (CorruptError, NotSupportedError) as error:
                        assert error.path == log.path
                        continue
                    assert rows == expected, (log.path, at, bit)
