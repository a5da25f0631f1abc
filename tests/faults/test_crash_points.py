"""A writer that dies at any storage call leaves the old or the new table, and the next writer repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context, Storage
from pudi.format import parse_log_file
from pudi.format.log_block import BlockKind, Header, decode_blocks
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.trips import SCHEMA, table, trip

OLD = [trip(n, 10) for n in range(9)]
VERBS: dict[str, list[dict[str, object]]] = {
    "bulk_insert": [trip(n, 20) for n in range(20, 26)],
    "insert": [trip(n, 20) for n in range(20, 26)],
    "upsert": [trip(n, 20) for n in (0, 1, 2, 20, 21)],
    "delete": [trip(n, 20) for n in (0, 4, 99)],
}
RUNS: dict[str, Callable[[pudi.Table], object]] = {
    **{verb: lambda on, verb=verb: getattr(on, verb)(table(VERBS[verb])) for verb in VERBS},  # type: ignore[misc]
    "insert_overwrite": lambda on: on.insert_overwrite(table(trip(n, 20) for n in (0, 3, 20))),
    "insert_overwrite_table": lambda on: on.insert_overwrite_table(table(trip(n, 20) for n in (0, 20))),
    "delete_partitions": lambda on: on.delete_partitions(["nyc", "chennai"]),
    "update": lambda on: on.update({"ts": "ts + 1"}, "uuid < 'k0002'"),
    "delete where": lambda on: on.delete(where="uuid < 'k0005'"),
    "merge": lambda on: (
        on.merge(table([trip(0, 20, "gone"), trip(1, 20), trip(21, 20)]))
        .when_matched_delete("source.rider = 'gone'")
        .when_matched_update()
        .when_not_matched_insert()
        .execute()
    ),
}


def rows(path: Path) -> list[tuple[object, ...]]:
    found = pudi.Table(path).scan(columns=["uuid", "ts", "city"]).to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))


def open_on(storage: Storage) -> pudi.Table:
    return pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), {})


@pytest.fixture(scope="module", params=["v9", "v8", "v6"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of either timeline layout."""
    path = tmp_path_factory.mktemp("template") / "trips"
    version, _, kind = request.param.removeprefix("v").partition("-")
    options = {"hoodie.write.table.version": version}
    if kind == "cdc":
        kind, options = "", {**options, "hoodie.table.cdc.enabled": "true"}
    if kind == "orc":
        kind, options = "", {**options, "hoodie.table.base.file.format": "ORC"}
    if kind == "virtual":
        kind, options = "mor", {**options, "hoodie.populate.meta.fields": "false"}
    made = pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind or "cow", options=options
    )
    made.bulk_insert(table(OLD))
    return path


V8 = ("upsert", "insert_overwrite")
"""Version 8 has the timeline and files of version 9: a plain commit and a replacing one stand for all."""
LOGGED = [("v9-cdc", "upsert"), ("v6-cdc", "delete")]
MERGED = [("v9-mor", "upsert"), ("v9-mor", "update"), ("v6-mor", "upsert"), ("v6-mor", "delete")]
OTHERS = [("v9-orc", "upsert"), ("v9-virtual", "upsert")]
in_both = pytest.mark.parametrize(
    ("template", "verb"),
    [*product(("v9", "v6"), RUNS), *product(("v8",), V8), *MERGED, *LOGGED, *OTHERS],
    indirect=["template"],
    scope="module",
)
"""Every verb on copy-on-write tables; some on merge-on-read ones, with CDC files, ORC files, no meta fields."""


@pytest.fixture
def copies(template: Path, tmp_path: Path) -> Iterator[Callable[[], Path]]:
    made: list[Path] = []

    def copy() -> Path:
        path = tmp_path / str(len(made)) / "trips"
        shutil.copytree(template, path)
        made.append(path)
        return path

    yield copy


def run(path: Path, verb: str, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    RUNS[verb](open_on(storage))
    return storage


def write(path: Path, verb: str, data: pa.Table, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    getattr(open_on(storage), verb)(data)
    return storage


def assert_tidy(path: Path) -> None:
    """Nothing is pending, and each data file on disk is one that a completed commit names."""
    meta = MetaClient.open(str(path), None, {})
    timeline = meta.store.load()
    assert timeline.pending == ()
    named = {
        name
        for instant in timeline.commits
        for stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.values()
        for stat in stats
        for name in stat.paths
    }
    kept = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and _is_data(path, file)}
    assert kept == named
    if meta.config.cdc_enabled:
        assert _replayed(path) == rows(path)
    for leftovers in (".hoodie/.temp", ".hoodie/.heartbeat"):
        assert [file for file in (path / leftovers).rglob("*") if file.is_file()] == []


def _replayed(path: Path) -> list[tuple[object, ...]]:
    """The rows that all changes since the first commit make."""
    there: dict[tuple[str, str], tuple[object, ...]] = {}
    for change in pudi.Table(path).changes(format="cdc", images="struct").to_arrow().to_pylist():
        image = change["after"] or change["before"]
        there.pop((image["city"], image["uuid"]), None)
        if change["after"] is not None:
            there[image["city"], image["uuid"]] = (image["uuid"], image["ts"], image["city"])
    return sorted(there.values())


def _is_data(path: Path, file: Path) -> bool:
    """Whether it's a file of records: log files of version 6 that take blocks back, and those taken back, are none."""
    log = parse_log_file(file.name)
    if log is None:
        return file.suffix in {".parquet", ".orc"}
    blocks = list(decode_blocks(file.read_bytes()))
    taken_back = {
        block.headers[Header.TARGET_INSTANT_TIME]
        for other in file.parent.glob(f".{log.file_id}_{log.instant}.log.*")
        for block in decode_blocks(other.read_bytes())
        if block.kind is BlockKind.COMMAND
    }
    return all(block.kind is not BlockKind.COMMAND and block.instant not in taken_back for block in blocks)


@pytest.mark.sampled(10)
@in_both
@pytest.mark.parametrize("crash_after", [False, True], ids=["before", "after"])
def test_every_crash_point(
    copies: Callable[[], Path], some_of: Callable[[Sequence[int]], list[int]], verb: str, crash_after: bool
) -> None:
    whole = copies()
    old = rows(whole)
    calls = run(whole, verb).calls
    new = rows(whole)
    assert new != old
    assert calls > 8
    seen = set()
    for number in some_of(range(1, calls + 1)):
        path = copies()
        with pytest.raises(SimulatedCrash):
            run(path, verb, fail_at=number, mode="crash", crash_after=crash_after)
        found = rows(path)
        assert found in (old, new), f"crash at call {number} left neither the old nor the new table"
        seen.add(found == new)
        again = pudi.Table(path).upsert(table([trip(50, 30)]))
        assert again is not None
        assert rows(path) == sorted([*found, ("k0050", 30, trip(50, 30)["city"])])
        assert_tidy(path)
    assert seen == {False, True}, "the last calls come after the commit, the first before it"


@pytest.mark.sampled(5)
@in_both
@pytest.mark.parametrize("mode", ["error", "lost_answer"])
def test_every_failing_call(
    copies: Callable[[], Path], some_of: Callable[[Sequence[int]], list[int]], verb: str, mode: str
) -> None:
    whole = copies()
    old = rows(whole)
    calls = run(whole, verb).calls
    new = rows(whole)
    for number in some_of(range(1, calls + 1)):
        path = copies()
        try:
            run(path, verb, fail_at=number, mode=mode)
        except pudi.PudiError:
            assert rows(path) == old, f"the commit stands, and the verb failed at call {number}"
        else:
            assert rows(path) == new, f"call {number} failed, the verb did not, and the rows are not there"
        pudi.Table(path).upsert(table([trip(50, 30)]))
        assert_tidy(path)


def test_a_crashed_repair_is_taken_up(
    copies: Callable[[], Path], some_of: Callable[[Sequence[int]], list[int]]
) -> None:
    data, fresh = table(VERBS["upsert"]), table([trip(50, 30)])
    broken = copies()
    calls = write(copies(), "upsert", data).calls
    with pytest.raises(SimulatedCrash):  # files written, not committed
        write(broken, "upsert", data, fail_at=calls - 6, mode="crash")
    assert MetaClient.open(str(broken), None, {}).store.load().pending

    def broken_copy(number: int) -> Path:
        path = broken.parent / f"copy{number}"
        shutil.copytree(broken, path)
        return path

    repairs = write(broken_copy(0), "upsert", fresh).calls
    old = rows(broken)
    for number in some_of(range(1, repairs + 1)):
        path = broken_copy(number)
        with pytest.raises(SimulatedCrash):
            write(path, "upsert", fresh, fail_at=number, mode="crash", crash_after=True)
        assert set(old) <= set(rows(path))
        pudi.Table(path).upsert(table([trip(51, 30)]))
        assert {row[0] for row in rows(path)} >= {row[0] for row in old} | {"k0051"}
        assert_tidy(path)
