"""Hashing metadata of consistent hashing: a partition's ring as JSON in, a frozen value out, and back.

Source: HoodieConsistentHashingMetadata.

Source: HoodieConsistentHashingMetadata, ConsistentHashingNode.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pudi.errors import CorruptError, cause_text

MOST_HASH = 0x7FFFFFFF
"""The greatest hash (HoodieConsistentHashingMetadata.HASH_VALUE_MASK)."""
FIRST_INSTANT = "00000000000000"
"""The instant of a partition's first hashing metadata."""
HASHING_SUFFIX, COMMIT_SUFFIX = ".hashing_meta", ".commit"
_NORMAL = "NORMAL"


@dataclass(frozen=True, slots=True)
class Ring:
    """The buckets of one partition on their ring.

    Attributes:
        values: the greatest hash of each bucket, ascending.
        prefixes: what the file id of each begins with.
        sequence: how often the ring was changed.
        path: the file that says so, for errors.
    """

    values: tuple[int, ...]
    prefixes: tuple[str, ...]
    sequence: int = 0
    path: str | None = field(default=None, compare=False)

    @classmethod
    def first(cls, partition: str, count: int) -> Ring:
        """The ring that a partition begins with: equal shares, file ids by their bounds."""
        step = -(-MOST_HASH // count)
        ends = [min(step * number, MOST_HASH) for number in range(1, count + 1)]
        return cls(tuple(ends), _prefixes(partition, ends))

    def renewed(self, partition: str, seed: str) -> Ring:
        """The same shares with other file ids, where others had them before.

        Args:
            partition: partition path.
            seed: makes the ids unlike those of any other ring.
        """
        return replace(
            self, prefixes=_prefixes(f"{partition}/{seed}", self.values), sequence=self.sequence + 1, path=None
        )


def encode_ring(partition: str, ring: Ring, instant: str = FIRST_INSTANT) -> bytes:
    """Content of a partition's hashing metadata, as Jackson prints it.

    Args:
        partition: partition path.
        ring: its buckets.
        instant: requested time of the commit that changes the ring.
    """
    nodes = ", ".join(
        "{\n" + f'    "value" : {value},\n    "fileIdPrefix" : "{prefix}",\n    "tag" : "{_NORMAL}"\n  ' + "}"
        for value, prefix in zip(ring.values, ring.prefixes, strict=True)
    )
    return (
        f'{{\n  "version" : 0,\n  "partitionPath" : {json.dumps(partition, ensure_ascii=False)},\n'
        f'  "instant" : "{instant}",\n  "numBuckets" : {len(ring.values)},\n  "seqNo" : {ring.sequence},\n'
        f'  "nodes" : [ {nodes} ]\n}}'
    ).encode()


def decode_ring(data: bytes, *, path: str | None = None) -> Ring:
    """A partition's ring.

    Args:
        data: content of hashing metadata.
        path: path of the file, for errors.

    Raises:
        CorruptError: it's none, or has a bucket that isn't in use.
    """
    try:
        said = json.loads(data)
        nodes = sorted((node["value"], node["fileIdPrefix"], node.get("tag")) for node in said["nodes"])
        sequence = int(said.get("seqNo") or 0)
        fits = all(
            isinstance(v, int) and 0 <= v <= MOST_HASH and isinstance(p, str) and tag == _NORMAL for v, p, tag in nodes
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"hashing metadata can't be read: {cause_text(error)}", path=path) from error
    if not nodes or not fits or len({value for value, _, _ in nodes}) < len(nodes):
        raise CorruptError("hashing metadata doesn't divide hashes among buckets", path=path)
    return Ring(tuple(value for value, _, _ in nodes), tuple(prefix for _, prefix, _ in nodes), sequence, path)


def _prefixes(name: str, ends: Sequence[int]) -> tuple[str, ...]:
    """Prefix of file ids of buckets with known upper hash values."""
    return tuple(_prefix(name, *each) for each in zip([0, *ends], ends, strict=False))


def _prefix(partition: str, start: int, end: int) -> str:
    """Java's `UUID.nameUUIDFromBytes` of a bucket's bounds and its partition."""
    digest = hashlib.md5(struct.pack(">qq", start, end) + partition.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
