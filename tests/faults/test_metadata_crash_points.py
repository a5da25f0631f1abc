"""A writer that dies at any call leaves a metadata table that lists what is there; the next one repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context, Storage
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.metadata import assert_listing, listed, metadata_partitions, there, timeline_of
from support.trips import SCHEMA, table, trip

ON = {"hoodie.metadata.enable": "true"}
RUNS: dict[str, Callable[[pudi.Table], object]] = {
    "upsert": lambda on: on.upsert(table(trip(n, 20) for n in (0, 1, 2, 20, 21))),
    "delete_partitions": lambda on: on.delete_partitions(["nyc", "chennai"]),
    "compact": lambda on: on.compact(),
    "maintain": lambda on: on.upsert(
        table(trip(n, 20) for n in (0, 1, 2)), options={"hoodie.metadata.compact.max.delta.commits": "1"}
    ),
}


def open_on(storage: Storage) -> pudi.Table:
    return pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), dict(ON))


def run(path: Path, verb: str, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    RUNS[verb](open_on(storage))
    return storage


def rows(path: Path) -> list[tuple[object, ...]]:
    found = pudi.Table(path).scan(columns=["uuid", "ts", "city"]).to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))


def made(path: Path, version: str, kind: str, *, before: bool) -> Path:
    options = {"hoodie.write.table.version": version}
    table_ = pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options
    )
    table_.bulk_insert(table(trip(n, 10) for n in range(9)), options=ON if before else {})
    if kind == "mor":
        table_.upsert(table(trip(n, 11) for n in (0, 1, 5)))
    return path


def assert_right(path: Path) -> None:
    """What readers take from the metadata table is there, and all files of completed commits are among it."""
    if not metadata_partitions_now(path):
        return
    found, files = listed(path), there(path)
    for partition, names in found.items():
        assert names.items() <= files.get(partition, {}).items(), f"{partition!r} lists files that are not there"
    meta = MetaClient.open(str(path), None, {})
    timeline = meta.store.load()
    for instant in timeline.commits:
        for partition, stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                assert stat.path.rpartition("/")[2] in found[partition], f"{stat.path} of {instant} is not listed"


def metadata_partitions_now(path: Path) -> tuple[str, ...]:
    return pudi.Table(path).config.metadata_partitions


CASES = [(v, k, verb) for v in ("9", "6") for k in ("cow", "mor") for verb in RUNS if verb != "compact" or k == "mor"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind", "verb"), CASES)
@pytest.mark.parametrize("crash_after", [False, True], ids=["before", "after"])
def test_every_crash_point(
    tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], version: str, kind: str, verb: str, crash_after: bool
) -> None:
    template = made(tmp_path / "template", version, kind, before=True)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(template, tmp_path / name))

    whole = copy("whole")
    old = rows(whole)
    calls = run(whole, verb).calls
    new = rows(whole)
    assert_listing(whole)
    for number in some_of(range(1, calls + 1)):
        path = copy(str(number))
        with pytest.raises(SimulatedCrash):
            run(path, verb, fail_at=number, mode="crash", crash_after=crash_after)
        assert rows(path) in (old, new)
        assert_right(path)
        if verb == "compact":
            pudi.Table(path).compact()
        pudi.Table(path).upsert(table([trip(50, 30)]))
        assert_right(path)
        if version != "6" or kind == "cow":
            assert_listing(path)
        if verb == "maintain":  # the next compaction takes a plan up that was left
            pudi.Table(path).upsert(table([trip(50, 31)]), options={"hoodie.metadata.compact.max.delta.commits": "1"})
            assert_listing(path)
        assert timeline_of(path / ".hoodie" / "metadata").pending == ()
        shutil.rmtree(path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", ["9", "6"])
@pytest.mark.parametrize("crash_after", [False, True], ids=["before", "after"])
def test_a_metadata_table_half_built_is_made_anew(
    tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], version: str, crash_after: bool
) -> None:
    template = made(tmp_path / "template", version, "cow", before=False)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(template, tmp_path / name))

    calls = run(copy("whole"), "upsert").calls
    for number in some_of(range(1, calls + 1)):
        path = copy(str(number))
        with pytest.raises(SimulatedCrash):
            run(path, "upsert", fail_at=number, mode="crash", crash_after=crash_after)
        assert_right(path)
        pudi.Table(path).upsert(table([trip(50, 30)]), options=ON)
        assert metadata_partitions(path) == ["files"]
        assert_listing(path)
        shutil.rmtree(path)
