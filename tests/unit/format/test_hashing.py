"""Hash rings that are split and merged: each hash stays in one bucket, and nodes are written as Hudi writes them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.format.hashing import (
    MOST_HASH,
    ChildNode,
    NodeTag,
    Ring,
    decode_children,
    decode_ring,
    encode_children,
    encode_ring,
)
from pudi.tagging import ConsistentBuckets

HASHES = st.integers(0, MOST_HASH)


def bucket(ring: Ring, value: int) -> int:
    """ConsistentBucketIdentifier.getBucket: the first node at or after the hash, or the first of all."""
    return next((n for n in ring.values if n >= value), ring.values[0])


def bucket_ids(ring: Ring, hashes: list[int]) -> list[str]:
    names, places = ConsistentBuckets(1, ("a",), {"p": ring}).named(np.array(hashes, dtype=np.uint32), "p")
    return [names[place] for place in places.tolist()]


@given(st.data(), st.integers(1, 9), st.lists(HASHES, min_size=1, max_size=30))
def test_each_hash_stays_in_one_bucket(data: Any, count: int, hashes: list[int]) -> None:
    """Hashes of a split bucket go to its two children, those of merged ones to the one that replaces them."""
    ring, numbers = Ring.first("p", count), itertools.count()
    for _ in range(data.draw(st.integers(1, 8))):
        before, old = ring, bucket_ids(ring, hashes)
        size = len(ring.values)
        if size > 1 and data.draw(st.booleans()):
            start, many = data.draw(st.integers(0, size - 1)), data.draw(st.integers(2, size))
            changed = [(start + step) % size for step in range(many)]
            children = ring.merge(changed, lambda: f"m{next(numbers)}")
        else:
            changed = [data.draw(st.integers(0, size - 1))]
            split = ring.split(changed[0], lambda: f"s{next(numbers)}")
            if split is None:
                continue
            children = split
        ring = ring.with_children(children)
        made = {child.prefix for child in children if child.prefix is not None}
        gone = {before.prefixes[place] for place in changed}
        assert set(ring.prefixes) == (set(before.prefixes) - gone) | made
        assert (ring.sequence, ring.initial) == (before.sequence + 1, count)
        new = bucket_ids(ring, hashes)
        assert new == [ring.prefixes[ring.values.index(bucket(ring, value))] for value in hashes]
        for was, now in zip(old, new, strict=True):
            assert now in made if was in gone else now == was
        assert decode_ring(encode_ring("p", ring, "1")) == ring
        assert decode_children(encode_children(children)) == tuple(children)


def test_a_bucket_is_split_in_the_middle() -> None:
    ring = Ring((10, 20, 30), ("a", "b", "c"))
    low, high = ring.split(1, lambda: "x") or (None, None)
    assert (low, high) == (ChildNode(15, "x", NodeTag.REPLACE), ChildNode(20, "x", NodeTag.REPLACE))
    beyond = ring.split(0, lambda: "x")
    assert beyond is not None
    assert beyond[0].value == (30 + 10 + MOST_HASH + 1) // 2, "the first bucket begins after the last one"
    assert Ring((10, 11), ("a", "b")).split(1, lambda: "x") is None
    assert (Ring((10,), ("a",)).split(0, lambda: "x") or [None])[0] == ChildNode(10 + 2**30, "x", NodeTag.REPLACE)


def test_nodes_are_printed_as_by_jackson() -> None:
    text = encode_children([ChildNode(7, None, NodeTag.DELETE), ChildNode(9, "abc", NodeTag.REPLACE)])
    assert text == (
        '[ {\n  "value" : 7,\n  "fileIdPrefix" : null,\n  "tag" : "DELETE"\n}, '
        '{\n  "value" : 9,\n  "fileIdPrefix" : "abc",\n  "tag" : "REPLACE"\n} ]'
    )


@pytest.mark.parametrize(
    "nodes",
    [
        "",
        "{}",
        "[1]",
        [],
        [{"value": 1, "fileIdPrefix": None, "tag": "DELETE"}],
        [{"value": 1, "fileIdPrefix": None, "tag": "REPLACE"}],
        [{"value": 1, "fileIdPrefix": "a", "tag": "NORMAL"}],
        [{"value": -1, "fileIdPrefix": "a", "tag": "REPLACE"}],
        [{"value": 1, "fileIdPrefix": "../a", "tag": "REPLACE"}],
    ],
)
def test_nodes_that_are_none_are_refused(nodes: Any) -> None:
    with pytest.raises(CorruptError, match="child nodes"):
        decode_children(nodes if isinstance(nodes, str) else json.dumps(nodes))


@pytest.mark.parametrize("prefix", ["../a", "a/b", "a_b", "a.b", "", None, 7])
def test_a_ring_names_no_file_ids_that_readers_would_miss(prefix: Any) -> None:
    """Of a log file of bucket `a_b` readers would take `a` for the file group, and pass it over."""
    whole = json.loads(encode_ring("p", Ring((10, MOST_HASH), ("a", "b"))))
    whole["nodes"][0]["fileIdPrefix"] = prefix
    with pytest.raises(CorruptError, match="hashing metadata"):
        decode_ring(json.dumps(whole).encode())


def test_what_a_ring_does_not_have_is_not_deleted() -> None:
    gone, made = ChildNode(3, None, NodeTag.DELETE), ChildNode(10, "x", NodeTag.REPLACE)
    with pytest.raises(CorruptError, match="isn't there"):
        Ring((10,), ("a",)).with_children([gone, made])
