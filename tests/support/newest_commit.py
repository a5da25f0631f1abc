"""Twenty-five commits of all kinds to a table whose metadata table is compacted, cleaned and archived often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import pudi
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

COMMITS = 25
LAYOUTS = [Layout(version=version, kind=kind) for version in (9, 8, 6) for kind in ("cow", "mor")]
SMALL = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "6",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline.max.delta.commits": "100",
}
"""Small limits, which pudi and Hudi are both given; a maintenance makes no commit of its own."""


def commits(path: Path, layout: Layout) -> Iterator[tuple[int, str]]:
    """Make a table and commit to it; yield the number and the requested time of each commit."""
    pudi.create(str(path), SCHEMA, **layout.create_arguments())
    trips = pudi.Table(path, options=SMALL | {"hoodie.write.set.null.for.missing.columns": "true"})
    trips.bulk_insert(table(trip(number, 0) for number in range(12)))
    yield 0, newest(path)
    for number in range(1, COMMITS):
        rows = [trip(number, number), trip(number + 1, number)]
        if number in {6, 17}:
            trips.add_column(f"more{number}", pa.int64())
        elif number % 7 == 3:
            trips.delete(where=f"uuid = '{trip(number - 1, 0)['uuid']}'")
        elif number == 12:
            trips.insert_overwrite(table(rows))
        elif number == 20:
            trips.delete_partitions([trip(1, 1)["city"]])
        else:
            trips.upsert(table(rows))
        if number % 4 == 1:
            assert trips.maintain().ok
        yield number, newest(path)


def newest(path: Path) -> str:
    """Return the requested time of the newest commit, table services included."""
    return str(pudi.Table(path).timeline.commits[-1].requested)
