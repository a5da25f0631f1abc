"""Base files in ORC: pudi's writer beside pyarrow's own, of the same columns: `python bench/orc.py [ROWS]`."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyarrow import orc

from pudi.filegroup import FileOptions, OrcOptions
from pudi.schema import add_meta_fields, arrow_to_avro, with_meta_fields
from pudi.storage import open_storage

_ROUNDS = 5


def _rows(count: int) -> pa.Table:
    chance = np.random.default_rng(1)
    columns = {
        "_hoodie_commit_time": ["20260101000000000"] * count,
        "_hoodie_commit_seqno": [f"20260101000000000_0_{n}" for n in range(count)],
        "_hoodie_record_key": [f"key-{n:09}" for n in range(count)],
        "_hoodie_partition_path": ["nyc"] * count,
        "_hoodie_file_name": ["f-0_0-0-0_20260101000000000.orc"] * count,
        "id": [f"key-{n:09}" for n in range(count)],
        "ts": chance.integers(0, 1 << 40, count),
        "fare": chance.random(count),
        "rider": [f"rider-{n % 1000}" for n in range(count)],
    }
    return pa.table(columns)


def _seconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def main(count: int) -> None:
    """Print CPU seconds of both, in turns, and their ratio."""
    rows = _rows(count)
    own = rows.select(rows.column_names[5:])
    avro = add_meta_fields(arrow_to_avro(own.schema, "t"))
    assert with_meta_fields(own.schema).names == rows.column_names
    with tempfile.TemporaryDirectory() as folder:
        writer = FileOptions(orc=OrcOptions()).writer(open_storage(folder), avro)

        def plain() -> None:
            with orc.ORCWriter(pa.BufferOutputStream(), compression="zlib", stripe_size=64 << 20) as sink:
                sink.write(rows)

        pairs = [(_seconds(lambda: writer.encode(rows)), _seconds(plain)) for _ in range(_ROUNDS)]
    mine, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{count:,} rows: pudi {mine:.2f} s, pyarrow {theirs:.2f} s, {mine / theirs:.2f} times as long")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
