"""A process that dies while it builds or drops an index leaves a table that's right; the next one clears it up."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context, Storage
from pudi.format import Action
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.record_index import assert_record_index
from support.trips import SCHEMA, table, trip

PARTS = 8
"""Crash points are spread over so many cases."""
KINDS = ("record_index", "column_stats", "bloom_filters")
RUNS: dict[str, Callable[[pudi.Table, str], object]] = {
    "create": lambda on, kind: on.create_index(kind),
    "drop": lambda on, kind: on.drop_index(kind),
}


def run(path: Path, verb: str, kind: str, **fault: object) -> FaultStorage:
    storage: Storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    RUNS[verb](pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), {}), kind)
    return storage


def rows(path: Path) -> list[tuple[object, ...]]:
    found = pudi.Table(path).scan(columns=["uuid", "ts", "city"], where="ts > 0").to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))


def made(path: Path, version: str, kind: str) -> Path:
    options = {"hoodie.write.table.version": version}
    trips = pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options
    )
    trips.bulk_insert(table(trip(n, 10) for n in range(9)), options={"hoodie.metadata.enable": "true"})
    trips.upsert(table(trip(n, 11) for n in (0, 1, 5)))
    return path


def assert_whole(path: Path) -> None:
    """Nothing is half built, and what there is holds."""
    ready = metadata_partitions(path)
    assert_listing(path)
    if "record_index" in ready:
        assert_record_index(path)
    found = pudi.Table(path).check()
    assert found.ok, str(found)
    assert timeline_of(path / ".hoodie" / "metadata").pending == ()


CASES = [
    (version, kind, index, verb, part)
    for part in range(PARTS)
    for verb in RUNS
    for version, kind, index in (
        ("9", "mor", "record_index"),
        ("6", "mor", "column_stats"),
        ("9", "cow", "bloom_filters"),
        ("8", "mor", "column_stats"),
        ("6", "cow", "record_index"),
    )
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind", "index", "verb", "part"), CASES)
def test_every_crash_point(tmp_path: Path, version: str, kind: str, index: str, verb: str, part: int) -> None:
    template = made(tmp_path / "template", version, kind)
    if verb == "drop":
        pudi.Table(template).create_index(index)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(template, tmp_path / name))

    old, whole = rows(template), copy("whole")
    calls = run(whole, verb, index).calls
    for number in range(1 + part, calls + 1, PARTS):
        path = copy(str(number))
        with pytest.raises(SimulatedCrash):
            run(path, verb, index, fail_at=number, mode="crash", crash_after=number // PARTS % 2 == 0)
        about = f"died at call {number} of {calls}"
        assert rows(path) == old, about
        trips = pudi.Table(path)
        trips.upsert(table([trip(50, 30), trip(0, 31)]))
        trips.delete(table([trip(1, 0)]))
        if number % 2:
            trips.run_pending()
        if verb == "drop":
            with contextlib.suppress(pudi.InvalidArgumentError):
                trips.drop_index(index)
            assert index not in metadata_partitions(path), about
        if index not in {each.name for each in trips.indexes() if each.state == "ready"}:
            trips.create_index(index)
        assert index in metadata_partitions(path), about
        assert not [i for i in trips.timeline.pending if i.action is Action.INDEXING], about
        assert_whole(path)
        shutil.rmtree(path)
