"""Hashing metadata of consistent hashing: a partition's ring as JSON in, a frozen value out, and back (FORMAT 8).

Source: HoodieConsistentHashingMetadata, ConsistentHashingNode.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from dataclasses import dataclass

from pudi.errors import CorruptError

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
    """

    values: tuple[int, ...]
    prefixes: tuple[str, ...]

    @classmethod
    def first(cls, partition: str, count: int) -> Ring:
        """The ring that a partition begins with: equal shares, file ids by their bounds."""
        step = -(-MOST_HASH // count)
        ends = [min(step * number, MOST_HASH) for number in range(1, count + 1)]
        return cls(tuple(ends), tuple(_prefix(partition, *each) for each in zip([0, *ends], ends, strict=False)))


def encode_ring(partition: str, ring: Ring) -> bytes:
    """Content of a partition's first hashing metadata, as Jackson prints it."""
    nodes = ", ".join(
        "{\n" + f'    "value" : {value},\n    "fileIdPrefix" : "{prefix}",\n    "tag" : "{_NORMAL}"\n  ' + "}"
        for value, prefix in zip(ring.values, ring.prefixes, strict=True)
    )
    return (
        f'{{\n  "version" : 0,\n  "partitionPath" : {json.dumps(partition, ensure_ascii=False)},\n'
        f'  "instant" : "{FIRST_INSTANT}",\n  "numBuckets" : {len(ring.values)},\n  "seqNo" : 0,\n'
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
        nodes = sorted((node["value"], node["fileIdPrefix"], node.get("tag")) for node in json.loads(data)["nodes"])
        fits = all(
            isinstance(v, int) and 0 <= v <= MOST_HASH and isinstance(p, str) and tag == _NORMAL for v, p, tag in nodes
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"hashing metadata can't be read: {error!r}", path=path) from error
    if not nodes or not fits or len({value for value, _, _ in nodes}) < len(nodes):
        raise CorruptError("hashing metadata doesn't divide hashes among buckets", path=path)
    return Ring(tuple(value for value, _, _ in nodes), tuple(prefix for _, prefix, _ in nodes))


def _prefix(partition: str, start: int, end: int) -> str:
    """Java's `UUID.nameUUIDFromBytes` of a bucket's bounds and its partition."""
    digest = hashlib.md5(struct.pack(">qq", start, end) + partition.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
