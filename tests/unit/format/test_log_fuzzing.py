"""Log files of Hudi's own, damaged in every way: what can't be read is a typed error or passed over, in no time.

Whole log files are read as a slice's are: framing, order of blocks, contents, positions, versions. `make test` tries
the same examples each time, `make fuzz` looks for many new ones.
"""

from __future__ import annotations

import logging
import re
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pudi.config import MergeMemory, MergeMode
from pudi.context import FileInfo
from pudi.errors import PudiError
from pudi.filegroup import LogFile, LogScope, read_log_blocks
from pudi.format import LogFileName
from pudi.format.log_block import BlockKind, Header, LogBlock, decode_blocks, encode_block
from pudi.format.log_data import block_schema
from pudi.format.names import parse_log_file
from pudi.merge import MergeRule, fold
from pudi.plan.log_files import Merging
from pudi.schema import RECORD_KEY, avro_to_arrow, with_meta_fields, without_meta_fields
from pudi.task.log_versions import LogVersions, store_positions
from support.golden import tables

SECONDS = 10
"""Processor time that no example takes."""
BYTES = 64 << 20
"""No example takes more memory: files are of some kilobytes."""
NUMBERS = [0, 1, -1, 2, 3, 1 << 7, 1 << 15, 1 << 20, 2**31 - 1, -(2**31), 2**60, 2**63 - 1, -(2**63)]
CODED = [1 << 40, 2**60, 2**63 - 1, -1, -(2**63), 3]
POOLS: list[pa.MemoryPool] = []
"""All that were ever used: a pool must outlive its buffers, and an error that is kept may keep some."""
PRIMITIVES = ["int", "long", "string", "bytes", "double", "boolean", "float"]


@dataclass(frozen=True)
class Stored:
    """A storage of one log file."""

    data: bytes
    root: str = "memory://fuzz"

    def head(self, path: str) -> FileInfo:
        return FileInfo(path, len(self.data), 0)

    def read(self, path: str, most: int | None = None) -> bytes:
        return self.data

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        for start, length in ranges:
            assert 0 <= start <= start + length <= len(self.data), "ranges are asked for only where bytes are"
        return [self.data[start : start + length] for start, length in ranges]


@dataclass(frozen=True)
class Whole:
    """A log file that Hudi wrote, undamaged."""

    name: str
    data: bytes = field(repr=False)
    schema: pa.Schema = field(repr=False)
    instants: frozenset[str] = field(repr=False)
    places: tuple[int, ...] = field(default=(), repr=False)


@cache
def files() -> list[Whole]:
    """Some log files of every golden table: of each kind of block in each table the smallest."""
    found: dict[object, Whole] = {}
    for table in tables("mor_"):
        with zipfile.ZipFile(table.archive) as archive:
            for path in archive.namelist():
                name = path.rpartition("/")[2]
                if "/.hoodie/" in path or parse_log_file(name) is None or "cdc" in name:
                    continue
                data = archive.read(path)
                blocks = list(decode_blocks(data))
                kind = (table.name, *sorted({block.kind for block in blocks}), any(b.is_partial for b in blocks))
                if kind not in found or len(data) < len(found[kind].data):
                    found[kind] = _whole(f"{table.name}/{name}", data, blocks)
    first = min(found.values(), key=lambda whole: whole.name)
    headers = {Header.INSTANT_TIME: "2", Header.TARGET_INSTANT_TIME: "1", Header.COMMAND_BLOCK_TYPE: "0"}
    taken_back = first.data + encode_block(BlockKind.COMMAND, headers, b"") + first.data
    found["rollback"] = _whole(f"{first.name} and a rollback", taken_back, list(decode_blocks(taken_back)))
    return sorted(found.values(), key=lambda whole: whole.name)


def _whole(name: str, data: bytes, blocks: list[LogBlock]) -> Whole:
    schemas = [block_schema(block) for block in blocks if block.kind is not BlockKind.COMMAND]
    schema = avro_to_arrow(schemas[0]) if schemas else pa.schema([("ts", pa.int64())])
    instants = frozenset(block.instant for block in blocks)
    return Whole(name, data, with_meta_fields(without_meta_fields(schema)), instants, tuple(_places(data, blocks)))


def _places(data: bytes, blocks: list[LogBlock]) -> Iterator[int]:
    """Where numbers stand that say lengths and counts."""
    for block in blocks:
        yield from (block.offset + at for at in (6, 14, 18, 22, 26, 30))
        content = data.find(bytes(block.content[:16]), block.offset)
        yield from (content - 8, content, content + 4, content + 8, content + 12)
        yield from (content + len(block.content) + after for after in (-8, -4, 0, 4))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Whole, bytes]:
    """A log file, and what became of it."""
    whole = draw(st.sampled_from(files()))
    data = bytearray(whole.data)
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(["flip", "number", "coded", "cut", "schema", "content", "again", "other"]))
        data = bytearray(_DAMAGE[how](draw, whole, data))
    return whole, bytes(data)


def _flip(draw: st.DrawFn, whole: Whole, data: bytearray) -> bytearray:
    for _ in range(draw(st.integers(1, 8))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return data


def _number(draw: st.DrawFn, whole: Whole, data: bytearray) -> bytearray:
    """A length or a count that lies."""
    at = draw(st.sampled_from(whole.places))
    value = draw(st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**63 - 1))
    raw = struct.pack(">q", value) if draw(st.booleans()) else struct.pack(">i", (value + 2**31) % 2**32 - 2**31)
    data[at : at + len(raw)] = raw
    return data


def _coded(draw: st.DrawFn, whole: Whole, data: bytearray) -> bytearray:
    """A number as Avro and Thrift write it, anywhere."""
    value = draw(st.sampled_from(CODED))
    value = ((value << 1) ^ (value >> 63)) % 2**64
    raw = bytearray()
    while value > 0x7F:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    at = draw(st.integers(0, max(0, len(data) - 1)))
    data[at : at + len(raw)] = raw
    return data


def _cut(draw: st.DrawFn, whole: Whole, data: bytearray) -> bytearray:
    return data[: draw(st.integers(0, len(data)))]


def _again(draw: st.DrawFn, whole: Whole, data: bytearray) -> bytearray:
    """Some of the bytes once more, at another place."""
    start, at = draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))
    return data[:at] + data[start : start + draw(st.integers(0, 200))] + data[at:]


def _other(draw: st.DrawFn, whole: Whole, data: bytearray) -> bytearray:
    """Another table's blocks behind these."""
    return data + draw(st.sampled_from(files())).data


def _rewritten(draw: st.DrawFn, data: bytearray, *, schema: bool) -> bytearray:
    """Blocks that are whole, and lie inside: about their records' types, or with damaged contents."""
    try:
        blocks = list(decode_blocks(bytes(data)))
    except PudiError:
        return data
    if not blocks:
        return data
    chosen = draw(st.integers(0, len(blocks) - 1))
    made = bytearray()
    for number, block in enumerate(blocks):
        headers, content = dict(block.headers), bytearray(block.content)
        if number == chosen and schema:
            text = headers.get(Header.SCHEMA, "")
            kinds = [m.span() for m in re.finditer(f'"(?:{"|".join(PRIMITIVES)})"', text)]
            for start, end in kinds and [draw(st.sampled_from(kinds))]:
                text = f'{text[:start]}"{draw(st.sampled_from([*PRIMITIVES, "null", "nothing"]))}"{text[end:]}'
            headers[Header.SCHEMA] = text if kinds else "{}"
        elif number == chosen:
            content = _flip(draw, files()[0], content)
            if draw(st.booleans()):
                content = content[: draw(st.integers(0, len(content)))]
        made += encode_block(block.kind, headers, bytes(content))
    return made


_DAMAGE = {
    "flip": _flip,
    "number": _number,
    "coded": _coded,
    "cut": _cut,
    "again": _again,
    "other": _other,
    "schema": lambda draw, _, data: _rewritten(draw, data, schema=True),
    "content": lambda draw, _, data: _rewritten(draw, data, schema=False),
}


def read(whole: Whole, data: bytes, *, windows: bool) -> int:
    """Read a slice's only log file; how many record versions it holds."""
    storage, name = Stored(data), LogFileName("f", "1", 1, "0-0-0")
    ordering = ("ts",) if "ts" in whole.schema.names else ()
    rule = MergeRule(MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME, ordering)
    scope = LogScope(whole.instants, start="1")
    merging = Merging(rule, scope, memory=MergeMemory({"hoodie.memory.merge.max.size": 1 << 20}))
    log = LogFile("", name, len(data))
    blocks = read_log_blocks(storage, [log], scope, 0 if windows else None)  # type: ignore[arg-type]
    versions = LogVersions(storage, merging, history=None)  # type: ignore[arg-type]
    positions = bool(blocks) and all(Header.RECORD_POSITIONS in block.headers for block in blocks)
    held, buckets, records = versions.collect(blocks, whole.schema, positions=positions)
    store_positions(blocks, None)
    if buckets is not None:
        buckets.close()
    if held:
        assert len(fold(held, RECORD_KEY, rule)) <= records
    return records


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """No warning for each damaged stretch."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_what_is_damaged_reads_when_it_is_whole() -> None:
    kinds: set[BlockKind] = set()
    for whole in files():
        kinds |= {block.kind for block in decode_blocks(whole.data)}
        assert read(whole, whole.data, windows=True) == read(whole, whole.data, windows=False)
    assert kinds >= {BlockKind.COMMAND, BlockKind.DELETE, BlockKind.AVRO, BlockKind.PARQUET}
    assert len(files()) > 60


@pytest.mark.timeout(4 * 3600)
@settings(max_examples=16 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(damaged(), st.booleans())
def test_damage_is_an_error_or_passed_over(found: tuple[Whole, bytes], windows: bool) -> None:
    whole, data = found
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    began = time.process_time()
    try:
        read(whole, data, windows=windows)
    except PudiError as error:
        assert str(error)
    finally:
        took, most = time.process_time() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert took < SECONDS, whole.name
    assert most < BYTES, whole.name
    assert (pool.max_memory() or 0) < BYTES, whole.name
