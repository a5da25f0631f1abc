"""Encoding and reading the entries of a record index as an HFile, beside Parquet with gzip.

python bench/hfile.py --entries 1000000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.format.avro_encode import join, varint_piece
from pudi.format.hfile_read import open_bytes
from pudi.format.hfile_write import encode_hfile


def entries(count: int, groups: int) -> tuple[pa.Array, pa.Array]:
    """Sorted random keys of 36 characters, and values like those of a record index over so many file groups."""
    chance = np.random.default_rng(7)
    digits = np.frombuffer(chance.bytes(16 * count).hex().encode(), dtype="S32")
    text = pa.array(digits.astype(object), pa.binary()).cast(pa.string())
    cuts = (0, 8, 12, 16, 20, 32)
    parts = [pc.utf8_slice_codeunits(text, a, b) for a, b in pairwise(cuts)]
    keys = pc.binary_join_element_wise(*parts, "-").sort().cast(pa.binary())
    group, live, lead = chance.integers(0, groups, count), np.ones(count, bool), np.full(count, 2, np.uint8)
    halves = [chance.integers(-(2**63), 2**63 - 1, groups)[group] for _ in range(2)]
    folders = pa.array([b"\2\0242023/01/%02d" % (n % 28 + 1) for n in range(groups)], pa.binary())
    values = join(
        [
            pa.scalar(bytes(6) + b"\x0a" + bytes(3) + b"\2", pa.binary()),
            folders.take(pa.array(group)),
            *(varint_piece(half, live, lead) for half in halves),
            pa.scalar(b"\2\0\2\0", pa.binary()),
            varint_piece(1_690_000_000_000 + group * 1000, live, lead),
            pa.scalar(bytes(3), pa.binary()),
        ],
        count,
    )
    return keys, values


def best(what: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Seconds of the fastest run, and what it gave."""
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = what()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def parquet(keys: pa.Array, values: pa.Array) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"key": keys, "value": values}), sink, compression="gzip")
    return sink.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lookups", type=int, default=100_000)
    arguments = parser.parse_args()
    count, repeats = arguments.entries, arguments.repeats
    keys, values = entries(count, arguments.groups)

    peer, stored = best(lambda: parquet(keys, values), repeats)
    print(f"Parquet, gzip: {peer:.2f} s, {stored.size / count:.1f} bytes an entry")
    took, content = best(lambda: encode_hfile(keys, values, avro_schema="{}"), repeats)
    print(
        f"HFile:         {took:.2f} s, {len(content) / count:.1f} bytes an entry; {took / peer:.2f} of Parquet's time"
    )
    reader = open_bytes(content, path="bench.hfile")
    scan, _ = best(reader.scan, repeats)
    print(f"scan:          {scan:.2f} s")
    wanted = keys.take(pa.array(np.random.default_rng(1).choice(count, min(count, arguments.lookups), replace=False)))
    seek, found = best(lambda: reader.seek(wanted), repeats)
    assert found.num_rows == len(wanted)
    print(f"{len(wanted)} lookups: {seek:.2f} s")
    one, _ = best(lambda: reader.seek(wanted.slice(0, 1)), repeats)
    print(f"one lookup:    {one * 1000:.1f} ms")


if __name__ == "__main__":
    main()
