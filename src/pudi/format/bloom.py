"""Hudi's bloom filters: keys in; a set of bits that tells whether a key might be among them out.

Source: BloomFilterFactory.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format.hashes import KeyBatch, UInt32, key_batches

Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
"""Record keys: strings of any Arrow string type."""
BloomType = Literal["SIMPLE", "DYNAMIC_V0"]
"""Hudi's BloomFilterTypeCode."""
SIMPLE: Final = "SIMPLE"
"""One row of bits, which fills up."""
DYNAMIC_V0: Final = "DYNAMIC_V0"
"""Rows are added as keys come, up to a bound."""

_VERSION = -1
_MURMUR = 1
_FILTER_HEAD = struct.Struct(">iibi")
_DYNAMIC_HEAD = struct.Struct(">iii")
# More hashes than any error rate down to the smallest double needs; a lying count must not keep us busy.
_MAX_HASHES = 1100
_MAX_BITS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BloomOptions:
    """Size of a bloom filter (BloomFilterFactory).

    Attributes:
        num_entries: number of keys up to which a row keeps the error rate; from 1 on.
        fpp: error rate of a full row, between 0 and 1.
        max_entries: no row is begun for keys beyond these; they are spread over the rows (DYNAMIC_V0 only).
        kind: `SIMPLE` or `DYNAMIC_V0`.

    Raises:
        InvalidArgumentError: a value is out of range, or a row would have more than 2^31 - 1 bits.
    """

    num_entries: int = 60_000
    fpp: float = 1e-9
    max_entries: int = 100_000
    kind: BloomType = DYNAMIC_V0

    def __post_init__(self) -> None:
        if self.num_entries < 1 or not 0 < self.fpp < 1 or self.kind not in {SIMPLE, DYNAMIC_V0}:
            raise InvalidArgumentError(
                f"no {self.kind} bloom filter for {self.num_entries} keys with an error rate of {self.fpp}"
            )
        if self.bits > _MAX_BITS:
            raise InvalidArgumentError(
                f"a bloom filter for {self.num_entries} keys with an error rate of {self.fpp} needs {self.bits} bits, "
                f"more than {_MAX_BITS}: expect fewer keys or allow more errors"
            )

    @property
    def bits(self) -> int:
        """Bits in a row (BloomFilterUtils.getBitSize)."""
        return math.ceil(self.num_entries * (-math.log(self.fpp) / (math.log(2) * math.log(2))))

    @property
    def hashes(self) -> int:
        """Hash functions for each key (BloomFilterUtils.getNumHashes)."""
        return math.ceil(math.log(2) * self.bits / self.num_entries)


DEFAULT_BLOOM_OPTIONS: Final = BloomOptions()
"""Hudi's defaults: 2,587,966 bits and 30 hashes a row."""


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set of keys that may claim a key it hasn't, and never denies one it has.

    Attributes:
        kind: `SIMPLE` or `DYNAMIC_V0`.
        hashes: hash functions for each key.
        bits: bits in a row.
        rows: the rows; bit i is in byte i >> 3 at 1 << (i & 7). One row when `SIMPLE`.
        row_entries: keys that a row takes before the next is begun; 0 when `SIMPLE`.
        last_row_entries: keys added since the last row was begun; 0 when `SIMPLE`.
    """

    kind: BloomType
    hashes: int
    bits: int
    rows: tuple[bytes, ...] = field(repr=False)
    row_entries: int = 0
    last_row_entries: int = 0

    @classmethod
    def build(cls, keys: Keys, options: BloomOptions = DEFAULT_BLOOM_OPTIONS) -> BloomFilter:
        """The filter that Hudi builds of the same keys in the same order, bit for bit.

        Args:
            keys: strings of any Arrow string type, none null or empty.
            options: how large.

        Raises:
            InvalidArgumentError: a key is null or empty, or they are no strings.
        """
        builder = BloomBuilder(options)
        builder.add(keys)
        return builder.build()

    def might_contain(self, keys: Keys) -> pa.BooleanArray:
        """Return a mask of the keys that may have been added; null for null keys.

        An empty one may: Hudi's hash refuses it, so that no filter tells of empty keys.

        Args:
            keys: strings of any Arrow string type.

        Raises:
            InvalidArgumentError: they are no strings.
        """
        strings = as_binary(keys)
        rows = [np.frombuffer(row, dtype=np.uint8) for row in self.rows]
        answer = pc.equal(pc.binary_length(strings), 0).fill_null(False).to_numpy()
        first = 0
        for batch in key_batches(strings):
            for row in rows:
                answer[first + self._matches(row, batch)] = True
            first += len(batch.order)
        return pa.array(answer, mask=strings.is_null().to_numpy())

    def _matches(self, row: npt.NDArray[np.uint8], batch: KeyBatch) -> npt.NDArray[np.int64]:
        """Return the positions of keys whose bits are all set; others drop out at the first missing bit."""
        seeds: UInt32 = np.zeros(len(batch.order), dtype=np.uint32)
        for _ in range(self.hashes):
            seeds = batch.hash(seeds)
            positions = bit_position(seeds, self.bits)
            hit = (row[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1 == 1
            if not hit.all():
                batch, seeds = batch.where(hit), seeds[hit]
            if not len(seeds):
                break
        return batch.order

    def to_bytes(self) -> bytes:
        """The filter as Hudi serialises it, before base64 (InternalBloomFilter, InternalDynamicBloomFilter)."""
        head = _FILTER_HEAD.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        filters = b"".join(head + row for row in self.rows)
        if self.kind == SIMPLE:
            return filters
        return head + _DYNAMIC_HEAD.pack(self.row_entries, self.last_row_entries, len(self.rows)) + filters

    def to_base64(self) -> str:
        """The filter as it stands in a base file's footer."""
        return base64.b64encode(self.to_bytes()).decode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, kind: BloomType = DYNAMIC_V0, *, path: str | None = None) -> BloomFilter:
        """The filter that Hudi serialised.

        Args:
            data: bytes of the filter, base64 undone.
            kind: what the footer says; it isn't among the bytes.
            path: path of the file that holds it, for errors.

        Raises:
            CorruptError: the bytes are not a filter of that type.
            NotSupportedError: made with Jenkins hashes, as Hudi never did by itself.
        """
        try:
            version, hashes, hash_type, bits = _FILTER_HEAD.unpack_from(data)
            offset, counters, rows = 0, (0, 0), 1
            if kind == DYNAMIC_V0:
                *counted, rows = _DYNAMIC_HEAD.unpack_from(data, _FILTER_HEAD.size)
                counters = (counted[0], counted[1])
                offset = _FILTER_HEAD.size + _DYNAMIC_HEAD.size
        except struct.error as error:
            raise CorruptError(f"bloom filter of {len(data)} bytes is cut off", path=path) from error
        if version > 0 or (version == _VERSION and hash_type == 0):
            raise NotSupportedError("bloom filter with Jenkins hashes", path=path)
        head, row_bytes = data[: _FILTER_HEAD.size], (bits + 7) // 8
        step = _FILTER_HEAD.size + row_bytes
        credible = version == _VERSION and hash_type == _MURMUR and 0 < hashes <= _MAX_HASHES and bits > 0
        if not credible or rows < 1 or len(data) != offset + rows * step or min(counters) < 0:
            raise CorruptError(
                f"bloom filter of {len(data)} bytes can't hold {rows} rows of {bits} bits with {hashes} hashes",
                path=path,
            )
        starts = range(offset, len(data), step)
        if any(data[start : start + len(head)] != head for start in starts):
            raise CorruptError("rows of the bloom filter disagree on their size", path=path)
        return cls(kind, hashes, bits, tuple(data[start + len(head) : start + step] for start in starts), *counters)

    @classmethod
    def from_base64(
        cls,
        text: str | bytes,
        kind: BloomType = DYNAMIC_V0,
        *,
        path: str | None = None,
    ) -> BloomFilter:
        """The filter that stands in a base file's footer; arguments and errors are those of `from_bytes`."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptError(f"bloom filter is not base64: {error}", path=path) from error
        return cls.from_bytes(data, kind, path=path)


class BloomBuilder:
    """Makes the filter that Hudi builds of the same keys in the same order, from some keys after others.

    Args:
        options: how large.
    """

    def __init__(self, options: BloomOptions = DEFAULT_BLOOM_OPTIONS) -> None:
        self._options = options
        self._simple = options.kind == SIMPLE
        self._keys = 0
        self._bits = np.zeros((0, options.bits), dtype=np.bool_)

    def add(self, keys: Keys) -> None:
        """Add keys; raises as `BloomFilter.build`."""
        options = self._options
        strings = as_binary(keys)
        if strings.null_count or (len(strings) and pc.min(pc.binary_length(strings)).as_py() == 0):
            raise InvalidArgumentError("a null or empty key can't be put into a bloom filter")
        first, self._keys = self._keys, self._keys + len(strings)
        matrix = self._grown().reshape(-1)
        for batch in key_batches(strings):
            rows = _rows_of(first + batch.order, options.num_entries, len(self._bits))
            first += len(batch.order)
            for positions in _positions(batch, options.hashes, options.bits):
                matrix[rows * options.bits + positions] = True

    def _grown(self) -> npt.NDArray[np.bool_]:
        """Rows for all keys; while there are fewer than that may be, no key has gone around them."""
        options = self._options
        rows = 1 if self._simple else _row_count(self._keys, options.num_entries, options.max_entries)
        if rows > len(self._bits):
            more = np.zeros((rows - len(self._bits), options.bits), dtype=np.bool_)
            self._bits = np.concatenate([self._bits, more])
        return self._bits

    def build(self) -> BloomFilter:
        """The filter of the keys so far."""
        options = self._options
        packed = np.packbits(self._grown(), axis=1, bitorder="little")
        counters = (0, 0)
        if not self._simple:
            counters = (options.num_entries, self._keys - options.num_entries * (len(packed) - 1))
        return BloomFilter(
            options.kind, options.hashes, options.bits, tuple(row.tobytes() for row in packed), *counters
        )


def as_binary(keys: Keys) -> pa.ChunkedArray[Any]:
    """Keys as bytes, to be hashed; raises InvalidArgumentError where they are no strings."""
    kind = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InvalidArgumentError(f"record keys are strings, not {keys.type}")
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return pa.chunked_array([chunk.cast(kind).cast(pa.large_binary()) for chunk in chunks], pa.large_binary())


def _row_count(keys: int, row_entries: int, max_entries: int) -> int:
    """Rows after `keys` additions (InternalDynamicBloomFilter.getActiveStandardBF)."""
    allowed = max(1, math.ceil(max_entries / row_entries))
    return min(allowed, max(1, math.ceil(keys / row_entries)))


def _rows_of(places: npt.NDArray[np.int64], row_entries: int, rows: int) -> npt.NDArray[np.int64]:
    """Row that takes the key added at each place.

    Rows fill one after another. When the last is full, the next key goes to row 0 and those after it around the rows,
    from row 0 again (InternalDynamicBloomFilter.getActiveStandardBF).
    """
    beyond = places - row_entries * rows
    return np.where(beyond < 0, places // row_entries, np.maximum(beyond - 1, 0) % rows)


def _positions(batch: KeyBatch, hashes: int, bits: int) -> Iterator[npt.NDArray[np.int64]]:
    """Bits of each key, one hash function at a time (HashFunction.hash)."""
    seeds: UInt32 = np.zeros(len(batch.order), dtype=np.uint32)
    for _ in range(hashes):
        seeds = batch.hash(seeds)
        yield bit_position(seeds, bits)


def bit_position(hashes: UInt32, bits: int) -> npt.NDArray[np.int64]:
    """`Math.abs(hash % bits)` of Java's signed integers; division by a constant is what numpy has a fast path for."""
    size = np.uint32(bits)
    magnitude: UInt32 = np.abs(hashes.view(np.int32)).view(np.uint32)
    remainder: npt.NDArray[np.int64] = (magnitude - (magnitude // size) * size).astype(np.int64)
    return remainder


Int64 = npt.NDArray[np.int64]

_MANY = 1 << 20
_ROUNDS, _ROUNDS_OF_MANY = 4, 2
"""Number of hash functions whose values are cached: with half of the bits set, one foreign key in 16 passes four of
them. Each takes 8 bytes a key."""


class BloomProbe:
    """Keys with the values of their first hash functions.

    Args:
        keys: strings without nulls.
    """

    def __init__(self, keys: pa.Array[Any]) -> None:
        self._keys = keys
        self._rounds = _hashes(keys)
        self._positions: dict[int, list[npt.NDArray[np.uint32]]] = {}

    def matches(self, bloom: BloomFilter, first: int, last: int) -> Int64:
        """Places of those keys, from `first` to before `last`, that a filter might contain; ascending."""
        known = self._known(bloom.bits)[: bloom.hashes]
        rows = [np.frombuffer(row, dtype=np.uint8) for row in bloom.rows]
        found: Int64 = np.unique(np.concatenate([_passing(row, known, first, last) for row in rows]))
        if len(found) and bloom.hashes > len(known):
            might = bloom.might_contain(self._keys.take(pa.array(found)))
            found = found[might.to_numpy(zero_copy_only=False)]
        return found

    def _known(self, bits: int) -> list[npt.NDArray[np.uint32]]:
        """Bits of all keys by the first hash functions, in filters of one size: a table's have the same as a rule."""
        known = self._positions.get(bits)
        if known is None:
            known = self._positions[bits] = [bit_position(hashes, bits).astype(np.uint32) for hashes in self._rounds]
        return known


def _passing(row: npt.NDArray[np.uint8], known: list[npt.NDArray[np.uint32]], first: int, last: int) -> Int64:
    places: Int64 = np.arange(first, last)
    for positions in known:
        bits = positions[first:last] if len(places) == last - first else positions[places]
        places = places[(row[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1 == 1]
        if not len(places):
            break
    return places


def _hashes(keys: pa.Array[Any]) -> list[UInt32]:
    kept = _ROUNDS if len(keys) <= _MANY else _ROUNDS_OF_MANY
    rounds: list[UInt32] = [np.zeros(len(keys), dtype=np.uint32) for _ in range(kept)]
    start = 0
    for batch in key_batches(as_binary(keys)):
        seeds: UInt32 = np.zeros(len(batch.order), dtype=np.uint32)
        for hashes in rounds:
            seeds = batch.hash(seeds)
            hashes[start + batch.order] = seeds
        start += len(batch.order)
    return rounds
