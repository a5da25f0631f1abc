"""Read HFiles by ranges: the end of the file first, data blocks on demand.

Source: HFileReaderImpl, HFileDataBlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.avro_values import cut
from pudi.format.hfile_blocks import (
    DATA,
    FILE_INFO,
    INNER_INDEX,
    LEAF_INDEX,
    META,
    ROOT_INDEX,
    TRAILER_SIZE,
    BadEntries,
    Entries,
    IndexEntries,
    Source,
    Trailer,
    decode_block,
    decode_info,
    decode_trailer,
    find_entries,
    leaf_entries,
    root_entries,
)
from pudi.schema.arrays import joined_arrays, one_array

Read = Callable[[int, int], bytes]
"""Bytes of a file: offset and length in; exactly as many bytes out."""

ENTRIES = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""Columns of what scans and seeks return."""

SCHEMA = "schema"
"""Name in the file info of the Avro schema of the values."""

TAIL = 128 << 10
"""Bytes read on opening from the end: the index of a thousand blocks."""

SMALL = 512 << 10
"""Files up to this size are fetched in one request: a second one costs more than the bytes."""

_GAP = 256 << 10
"""Blocks at most this many bytes apart are read in one request."""

_REQUEST = 16 << 20
"""Most bytes of one request, if no single block has more."""

_BATCH = 2 << 20
"""Uncompressed bytes of blocks that become one batch of entries: more than a processor's cache holds takes thrice as
long."""

_LEAST_ROWS = 16 * 1024
"""Batch size for large entries: it must justify the calls of numpy."""

_LARGE_BATCH = 64 << 20
"""Most bytes of a batch, and those of one that is searched for all keys that are wanted."""

_FEW = 16
"""Maximum number of prefixes that are searched one by one in all keys."""

MID_KEY = 16
"""Bytes behind the root of an index of several levels, as HBase writes it: where the middle key is."""
_MOST_INDEX = 256 << 20
"""Most bytes of the section that is read on opening; a block of data has an entry of some dozens there."""

Select = Callable[[Sequence[bytes]], "np.ndarray"]


@dataclass(slots=True)
class HFileReader:
    """An opened HFile.

    Attributes:
        entry_count: how many entries the file says it has.
        info: the pairs of the file info.
    """

    _read: Read
    _source: Source
    _trailer: Trailer
    _size: int
    _tail: bytes = field(repr=False)
    _root: IndexEntries = field(repr=False)
    _meta: IndexEntries = field(repr=False)
    info: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def open(cls, read: Read, size: int, *, path: str) -> HFileReader:
        """Read the trailer and the index of a file: usually one request, two for a large index.

        Args:
            read: the file's bytes by offset and length.
            size: its length in bytes.
            path: its name, for messages.

        Raises:
            CorruptError: it is no whole HFile.
            NotSupportedError: an HFile of a version, with a codec or with versions of values that Hudi has not.
        """
        source = Source(path)
        if size < TRAILER_SIZE:
            raise source.corrupt(f"{size} bytes are fewer than a trailer has", 0)
        tail = _exactly(read, size - (size if size <= SMALL else TAIL), size, source)
        trailer = decode_trailer(tail[-TRAILER_SIZE:], size, source)
        begin = trailer.load_on_open
        if size - begin > len(tail):
            if size - begin > _MOST_INDEX:
                raise source.corrupt(f"an index of {size - begin} bytes is implausible", begin)
            tail = _exactly(read, begin, size - len(tail), source) + tail
        opening = memoryview(tail)[len(tail) - (size - begin) : -TRAILER_SIZE]
        content, at = decode_block(opening, ROOT_INDEX, trailer.codec, begin, source)
        behind = MID_KEY if trailer.levels > 1 else 0
        root = root_entries(content, trailer.data_blocks, True, begin, source, behind)
        content, more = decode_block(opening[at:], ROOT_INDEX, trailer.codec, begin + at, source)
        meta = root_entries(content, trailer.meta_blocks, False, begin + at, source)
        place = trailer.file_info - begin
        content, _ = decode_block(opening[place:], FILE_INFO, trailer.codec, trailer.file_info, source)
        if place != at + more:
            raise source.corrupt("its file info is not where its trailer says", trailer.file_info)
        info = decode_info(content, trailer.file_info, source)
        if info.get("KEY_VALUE_VERSION") == b"\0\0\0\1" and any(info.get("MAX_MEMSTORE_TS_KEY", b"")):
            raise NotSupportedError("HFiles with versions of values: Hudi writes none", path=path)
        return cls(read, source, trailer, size, tail, root, meta, info)

    @property
    def entry_count(self) -> int:
        """Number of entries by the file's trailer."""
        return self._trailer.entries

    @property
    def avro_schema(self) -> str:
        """The Avro schema of the values, as JSON text.

        Raises:
            CorruptError: the file has none.
        """
        try:
            return self.info[SCHEMA].decode()
        except (KeyError, UnicodeDecodeError) as error:
            raise self._source.corrupt("it doesn't say the schema of its values", self._trailer.file_info) from error

    def meta_block(self, name: str) -> bytes | None:
        """Return the content of a meta block (Hudi has one, `bloomFilter`); None without the block."""
        if name.encode() not in self._meta.keys:
            return None
        block = self._meta.chosen([list(self._meta.keys).index(name.encode())])
        return next(self._contents(block, META))[1]

    def scan(self) -> pa.Table:
        """All entries: columns `key` and `value`, in the order of the file.

        Raises:
            CorruptError: the file is damaged, or has another number of entries than it says.
        """
        return _table([_columns(entries) for entries in self.batches()])

    def batches(self) -> Iterator[Entries]:
        """All entries in batches of 2 to 64 MiB, as positions in their bytes.

        Raises:
            CorruptError: as of `scan`.
        """
        found = 0
        for _, entries in self._entries(self._blocks(lambda keys: np.arange(len(keys)))):
            found += len(entries.key)
            yield entries
        if found != self.entry_count:
            raise self._source.corrupt(f"it has {found} entries where it says {self.entry_count}", 0)

    def seek(self, keys: pa.Array) -> pa.Table:
        """The entries of some keys; blocks that can't have them are not read.

        Args:
            keys: text or bytes, in any order.

        Returns:
            As of `scan`; keys that are not there have no row.
        """
        if isinstance(keys, pa.ChunkedArray):
            keys = one_array(keys)
        wanted = pc.cast(keys, pa.binary()).drop_null().unique()
        if not len(wanted):
            return _table([])
        if _orders_differ(wanted):
            every = self._blocks(lambda first: np.arange(len(first)))
            return _table([_those(entries, wanted) for _, entries in self._entries(every, _LARGE_BATCH)])
        wanted = wanted.take(pc.sort_indices(wanted))
        blocks = self._blocks(lambda first: np.unique(_floor(first, wanted)))
        homes = _floor(blocks.keys, wanted)
        parts = []
        for places, entries in self._entries(blocks):
            begin, end = np.searchsorted(homes, [places.start, places.stop]).tolist()
            parts.append(_those(entries, wanted.slice(begin, end - begin)))
        return _table(parts)

    def seek_prefixes(self, prefixes: Sequence[bytes]) -> pa.Table:
        """Return the entries whose keys begin with one of the prefixes; skips blocks that can't contain them."""
        if not prefixes:
            return _table([])
        wanted = pa.array(sorted(set(prefixes)), pa.binary())
        unordered = _orders_differ(wanted)

        def blocks(first: Sequence[bytes]) -> np.ndarray:
            if unordered or not len(first):
                return np.arange(len(first))
            begin, end = _floor(first, wanted), _behind(pa.array(first, pa.binary()), wanted)
            # a block's first key says that the one before it may have smaller ones only
            spans = [np.arange(a, max(a + 1, b)) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
            return np.unique(np.concatenate(spans))

        parts = []
        for _, entries in self._entries(self._blocks(blocks), _LARGE_BATCH):
            keys = cut(entries.records, entries.key, entries.key_end, pa.binary())
            if unordered or len(wanted) <= _FEW:
                found = np.zeros(len(keys), dtype=bool)
                for prefix in wanted.to_pylist():
                    found |= np.asarray(pc.starts_with(keys, prefix))
            else:
                steps = np.zeros(len(keys) + 1, dtype=np.int64)
                np.add.at(steps, _below(keys, wanted), 1)
                np.add.at(steps, _behind(keys, wanted), -1)
                found = np.cumsum(steps[:-1]) > 0
            parts.append(_columns(entries.part(np.flatnonzero(found))))
        return _table(parts)

    def _blocks(self, select: Select) -> IndexEntries:
        """The data blocks that are wanted, by way of the levels of the index.

        Args:
            select: places of the wanted ones among blocks, given the first keys of these; ascending.
        """
        found = self._root.chosen(select(self._root.keys).tolist())
        for level in range(self._trailer.levels - 1, 0, -1):
            magic = LEAF_INDEX if level == 1 else INNER_INDEX
            keys: list[bytes] = []
            offsets: list[int] = []
            sizes: list[int] = []
            for offset, content in self._contents(found, magic):
                entries = leaf_entries(content, offset, self._source)
                keys += entries.keys
                offsets += entries.offsets
                sizes += entries.sizes
            lower = IndexEntries(keys, offsets, sizes)
            found = lower.chosen(select(lower.keys).tolist())
        return found

    def _entries(self, blocks: IndexEntries, most: int | None = None) -> Iterator[tuple[range, Entries]]:
        """The entries of data blocks in batches, each with the places of its blocks among these."""
        if most is None:
            usual = self._trailer.payload // max(1, self.entry_count)
            most = min(_LARGE_BATCH, max(_BATCH, usual * _LEAST_ROWS))
        contents: list[bytes] = []
        size, first, begin = 0, 0, 0
        for place, (offset, content) in enumerate(self._contents(blocks, DATA)):
            if contents and size + len(content) > most:
                yield range(begin, place), self._batch(contents, size, first)
                contents, size = [], 0
            if not contents:
                first, begin = offset, place
            contents.append(content)
            size += len(content)
        if contents:
            yield range(begin, begin + len(contents)), self._batch(contents, size, first)

    def _batch(self, contents: list[bytes], size: int, offset: int) -> Entries:
        try:
            return find_entries(b"".join([*contents, bytes(16)]), size)
        except BadEntries as error:
            raise self._source.corrupt(str(error), offset) from error

    def _contents(self, blocks: IndexEntries, magic: bytes) -> Iterator[tuple[int, bytes]]:
        """Offset and content of blocks, those that are near to each other read in one request."""
        places = list(zip(blocks.offsets, blocks.sizes, strict=True))
        for offset, size in places:
            if offset < 0 or size <= 0 or offset + size > self._size:
                raise self._source.corrupt("its index points out of the file", offset)
        for run in _runs(places):
            begin, end = run[0][0], max(offset + size for offset, size in run)
            data = memoryview(self._bytes(begin, end))
            for offset, size in run:
                part = data[offset - begin : offset - begin + size]
                content, found = decode_block(part, magic, self._trailer.codec, offset, self._source)
                if found != size:
                    raise self._source.corrupt(f"a block of {found} bytes has {size} in its index", offset)
                yield offset, content

    def _bytes(self, begin: int, end: int) -> bytes:
        known = self._size - len(self._tail)
        if begin >= known:
            return self._tail[begin - known : end - known]
        return _exactly(self._read, begin, end, self._source)


def open_bytes(content: bytes | memoryview, *, path: str) -> HFileReader:
    """An HFile in memory, such as the content of a log block.

    Raises:
        CorruptError: as of `HFileReader.open`.
    """
    view = memoryview(content)
    return HFileReader.open(lambda offset, length: bytes(view[offset : offset + length]), len(view), path=path)


def _exactly(read: Read, begin: int, end: int, source: Source) -> bytes:
    data = bytes(read(begin, end - begin))
    if len(data) != end - begin:
        raise CorruptError(
            f"the HFile has {begin + len(data)} bytes at most where {end} are expected; restore the file",
            path=source.path,
            offset=begin,
        )
    return data


def _runs(places: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Blocks in runs that are read in one request each."""
    runs: list[list[tuple[int, int]]] = []
    for offset, size in places:
        if runs:
            begin, (last, length) = runs[-1][0][0], runs[-1][-1]
            if 0 <= offset - (last + length) <= _GAP and offset + size - begin <= _REQUEST:
                runs[-1].append((offset, size))
                continue
        runs.append([(offset, size)])
    return runs


def _orders_differ(keys: pa.Array) -> bool:
    """Return whether byte order and Java's order of the keys may differ: some have characters from U+E000 on.

    Hudi's writers sort keys by UTF-16 units, and HFiles are sought by bytes: there these orders differ.
    """
    content = keys.buffers()[2]
    used = b"" if content is None else memoryview(content)
    return bool(len(used)) and bool(np.frombuffer(used, np.uint8).max() > 0xED)


def _floor(first: Sequence[bytes], keys: pa.Array) -> np.ndarray:
    """Return for each key, in any order, the last block whose first key is not greater, or the first block."""
    if not len(first):
        return np.zeros(0, np.int64)
    places: np.ndarray = np.maximum(_below(pa.array(first, pa.binary()), keys, or_equal=True) - 1, 0)
    return places


def _below(index: pa.Array, keys: pa.Array, or_equal: bool = False) -> np.ndarray:
    """Return for each probe, in any order, the number of ascending keys that are less than or equal to it."""
    both = joined_arrays([index, keys] if or_equal else [keys, index])
    order = np.asarray(pc.sort_indices(both))  # stable: of equal ones the first come first
    blocks = order < len(index) if or_equal else order >= len(keys)
    counted = np.zeros(len(both), dtype=np.int64)
    counted[order] = np.cumsum(blocks)
    return counted[len(index) :] if or_equal else counted[: len(keys)]


def _behind(index: pa.Array, prefixes: pa.Array) -> np.ndarray:
    """Return for each prefix the number of ascending keys that are less than it or begin with it."""
    beyond = [_beyond(prefix) for prefix in prefixes.to_pylist()]
    last = pa.array([b"" if key is None else key for key in beyond], pa.binary())
    found: np.ndarray = np.where([key is None for key in beyond], len(index), _below(index, last))
    return found


def _beyond(prefix: bytes) -> bytes | None:
    """Return the smallest key greater than all keys with a prefix; None without one."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _those(entries: Entries, keys: pa.Array) -> pa.Table:
    """The entries that have one of some keys."""
    found = pc.is_in(cut(entries.records, entries.key, entries.key_end, pa.binary()), keys)
    return _columns(entries.part(np.flatnonzero(np.asarray(found))))


def _columns(entries: Entries) -> pa.Table:
    keys = cut(entries.records, entries.key, entries.key_end, pa.binary())
    values = cut(entries.records, entries.value, entries.value_end, pa.binary())
    return pa.Table.from_arrays([keys, values], schema=ENTRIES)


def _table(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts) if parts else ENTRIES.empty_table()
