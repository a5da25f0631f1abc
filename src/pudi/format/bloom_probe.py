"""Look up many keys in many bloom filters: hashes are shared, most keys drop out early."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pudi.format.bloom import BloomFilter, as_binary, bit_position
from pudi.format.murmur import UInt32, key_batches

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
