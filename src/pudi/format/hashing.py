"""Hashing metadata of consistent hashing: a partition's ring as JSON in, a frozen value out, and back.

A clustering plan says by child nodes how it changes a ring: a bucket is split by two nodes that replace it, and buckets
are merged by one that replaces the last of them and others that delete the rest.

Source: HoodieConsistentHashingMetadata, ConsistentHashingNode, ConsistentBucketIdentifier.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pudi.errors import CorruptError, cause_text

MOST_HASH = 0x7FFFFFFF
"""The greatest hash (HoodieConsistentHashingMetadata.HASH_VALUE_MASK)."""
FIRST_INSTANT = "00000000000000"
"""The instant of a partition's first hashing metadata."""
HASHING_SUFFIX, COMMIT_SUFFIX = ".hashing_meta", ".commit"
_PREFIX = re.compile(r"[A-Za-z0-9-]+")


class NodeTag(str, Enum):
    """Meaning of a hash ring's node (ConsistentHashingNode.NodeTag)."""

    NORMAL = "NORMAL"
    REPLACE = "REPLACE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class ChildNode:
    """A change of a ring by a clustering.

    Attributes:
        value: the greatest hash of the bucket.
        prefix: beginning of the bucket's file id; None if the bucket is deleted.
        tag: REPLACE if the bucket is new or gets a new file group, DELETE if its hashes go to the next bucket.
    """

    value: int
    prefix: str | None
    tag: NodeTag


@dataclass(frozen=True, slots=True)
class Ring:
    """The buckets of one partition on their ring.

    Attributes:
        values: the greatest hash of each bucket, ascending.
        prefixes: what the file id of each begins with.
        sequence: how often the ring was changed.
        path: the file that says so, for errors.
        initial: number of buckets that the partition began with; 0 for as many as it has.
    """

    values: tuple[int, ...]
    prefixes: tuple[str, ...]
    sequence: int = 0
    path: str | None = field(default=None, compare=False)
    initial: int = field(default=0, compare=False)

    @classmethod
    def first(cls, partition: str, count: int) -> Ring:
        """The ring that a partition begins with: equal shares, file ids by their bounds."""
        step = -(-MOST_HASH // count)
        ends = [min(step * number, MOST_HASH) for number in range(1, count + 1)]
        return cls(tuple(ends), _prefixes(partition, ends), initial=count)

    def renewed(self, partition: str, seed: str) -> Ring:
        """The same shares with other file ids, where others had them before.

        Args:
            partition: partition path.
            seed: makes the ids unlike those of any other ring.
        """
        return replace(
            self, prefixes=_prefixes(f"{partition}/{seed}", self.values), sequence=self.sequence + 1, path=None
        )

    def split(self, bucket: int, new_prefix: Callable[[], str]) -> tuple[ChildNode, ChildNode] | None:
        """Return the nodes by which a bucket is split in the middle of its hashes; None if it has only one or two.

        Args:
            bucket: position of the bucket on the ring.
            new_prefix: makes beginnings of file ids.
        """
        end, former = self.values[bucket], self.values[bucket - 1]
        beyond = 0 if former < end else MOST_HASH + 1
        middle = (former + end + beyond) // 2 & MOST_HASH
        if middle in {former, end}:
            return None
        low, high = (ChildNode(value, new_prefix(), NodeTag.REPLACE) for value in (middle, end))
        return low, high

    def merge(self, buckets: Sequence[int], new_prefix: Callable[[], str]) -> tuple[ChildNode, ...]:
        """Return the nodes by which buckets that follow each other on the ring become one.

        Args:
            buckets: positions of the buckets, in the order of the ring; the last bucket's end stays.
            new_prefix: makes beginnings of file ids.
        """
        *gone, last = (self.values[bucket] for bucket in buckets)
        deleted = (ChildNode(value, None, NodeTag.DELETE) for value in gone)
        return *deleted, ChildNode(last, new_prefix(), NodeTag.REPLACE)

    def with_children(self, children: Iterable[ChildNode]) -> Ring:
        """Return the ring after a clustering.

        Args:
            children: the nodes of all groups of the partition.

        Raises:
            CorruptError: a node deletes a bucket that isn't there, or none is left.
        """
        prefixes = dict(zip(self.values, self.prefixes, strict=True))
        for child in children:
            if child.prefix is not None:
                prefixes[child.value] = child.prefix
            elif prefixes.pop(child.value, None) is None:
                raise CorruptError(f"a clustering plan deletes bucket {child.value}, which isn't there", path=self.path)
        if not prefixes:
            raise CorruptError("a clustering plan deletes all buckets of a partition", path=self.path)
        values = tuple(sorted(prefixes))
        changed = tuple(prefixes[value] for value in values)
        return replace(
            self,
            values=values,
            prefixes=changed,
            sequence=self.sequence + 1,
            path=None,
            initial=self.initial or len(self.values),
        )


def encode_ring(partition: str, ring: Ring, instant: str = FIRST_INSTANT) -> bytes:
    """Content of a partition's hashing metadata, as Jackson prints it.

    Args:
        partition: partition path.
        ring: its buckets.
        instant: requested time of the commit that changes the ring.
    """
    nodes = _nodes_json(((v, p, NodeTag.NORMAL) for v, p in zip(ring.values, ring.prefixes, strict=True)), "  ")
    return (
        f'{{\n  "version" : 0,\n  "partitionPath" : {json.dumps(partition, ensure_ascii=False)},\n'
        f'  "instant" : "{instant}",\n  "numBuckets" : {ring.initial or len(ring.values)},\n'
        f'  "seqNo" : {ring.sequence},\n  "nodes" : {nodes}\n}}'
    ).encode()


def encode_children(children: Iterable[ChildNode]) -> str:
    """Text of child nodes in the extra metadata of a clustering group (ConsistentHashingNode.toJsonString)."""
    return _nodes_json(((child.value, child.prefix, child.tag) for child in children), "")


def decode_children(text: str, *, path: str | None = None) -> tuple[ChildNode, ...]:
    """Child nodes of a clustering group.

    Args:
        text: the extra metadata.
        path: path of the plan, for errors.

    Raises:
        CorruptError: it's none, or a node that takes no part in a change.
    """
    try:
        children = tuple(_child(node) for node in json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"the child nodes of a clustering can't be read: {cause_text(error)}", path=path) from error
    if not any(child.prefix is not None for child in children):
        raise CorruptError("the child nodes of a clustering leave no bucket", path=path)
    return children


def _child(node: Mapping[str, Any]) -> ChildNode:
    value, tag = node["value"], NodeTag(node["tag"])
    prefix = None if tag is NodeTag.DELETE else node["fileIdPrefix"]
    if tag is NodeTag.NORMAL or not isinstance(value, int) or not 0 <= value <= MOST_HASH:
        raise ValueError(f"a node {value!r} that changes nothing")
    if tag is NodeTag.REPLACE and not _is_prefix(prefix):
        raise ValueError(f"node {value} without a file id: {prefix!r:.80}")
    return ChildNode(value, prefix, tag)


def _is_prefix(text: object) -> bool:
    """Return whether file ids can begin with a text: readers would pass over files of other names."""
    return isinstance(text, str) and _PREFIX.fullmatch(text) is not None


def _nodes_json(nodes: Iterable[tuple[int, str | None, NodeTag]], indent: str) -> str:
    """Nodes as Jackson's pretty printer writes a list of objects."""
    printed = ", ".join(
        f'{{\n{indent}  "value" : {value},\n{indent}  "fileIdPrefix" : {json.dumps(prefix)},\n'
        f'{indent}  "tag" : "{tag.value}"\n{indent}}}'
        for value, prefix, tag in nodes
    )
    return f"[ {printed} ]"


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
        sequence, initial = int(said.get("seqNo") or 0), int(said.get("numBuckets") or 0)
        fits = all(
            isinstance(v, int) and 0 <= v <= MOST_HASH and _is_prefix(p) and tag == NodeTag.NORMAL.value
            for v, p, tag in nodes
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"hashing metadata can't be read: {cause_text(error)}", path=path) from error
    if not nodes or not fits or len({value for value, _, _ in nodes}) < len(nodes):
        raise CorruptError("hashing metadata doesn't divide hashes among buckets", path=path)
    values, prefixes = tuple(value for value, _, _ in nodes), tuple(prefix for _, prefix, _ in nodes)
    return Ring(values, prefixes, sequence, path, initial)


def _prefixes(name: str, ends: Sequence[int]) -> tuple[str, ...]:
    """Prefix of file ids of buckets with known upper hash values."""
    return tuple(_prefix(name, *each) for each in zip([0, *ends], ends, strict=False))


def _prefix(partition: str, start: int, end: int) -> str:
    """Java's `UUID.nameUUIDFromBytes` of a bucket's bounds and its partition."""
    digest = hashlib.md5(struct.pack(">qq", start, end) + partition.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
