"""A loss of power at any moment leaves the old or the new table, and nothing is lost that was told to be done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.services.orphans import find_orphans
from pudi.testing import Outcome, PowerStorage, SimulatedCrash
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OUTCOMES: tuple[tuple[Outcome, int], ...] = (("lost", 0), ("kept", 1), ("mixed", 2), ("mixed", 3))
UNSYNCED = {"pudi.write.sync": "false"}
RUNS: dict[str, Callable[[pudi.Table], object]] = {
    "insert": lambda on: on.insert(table(trip(n, 20, city=city) for n, city in enumerate(("nyc", "new", "far"), 20))),
    "upsert": lambda on: on.upsert(table(trip(n, 20) for n in (0, 1, 2, 20, 21))),
    "delete": lambda on: on.delete(table(trip(n, 20) for n in (0, 4, 99))),
    "insert_overwrite": lambda on: on.insert_overwrite(table(trip(n, 20) for n in (0, 3, 20))),
    "compact": lambda on: on.compact(),
    "log_compact": lambda on: on.compact(
        log_compaction=True, options={"hoodie.log.compaction.blocks.threshold": "1"}
    ),
    "create_index": lambda on: on.create_index("record_index"),
    "drop_index": lambda on: on.drop_index("column_stats"),
    "add_column": lambda on: on.add_column("tip", SCHEMA.field("fare").type),
    "maintain": lambda on: on.upsert(
        table(trip(n, 20) for n in (0, 1, 2)), options={"hoodie.metadata.compact.max.delta.commits": "1"}
    ),
}  # fmt: skip
OF_LOGS = {"compact": ("9", "6"), "log_compact": ("9",)}
CASES = [
    (version, kind, verb)
    for verb in RUNS
    for version in OF_LOGS.get(verb, ("9", "6"))
    for kind in (("mor",) if verb in OF_LOGS else ("cow", "mor"))
]
PARTS = 100
"""A test is of every 100th moment: of one or two."""


def create(path: Path, version: str, kind: str) -> pudi.Table:
    options = {"hoodie.write.table.version": version}
    return pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options
    )


def made(path: Path, version: str, kind: str) -> Path:
    trips = create(path, version, kind)
    trips.bulk_insert(table(trip(n, 10) for n in range(9)))
    if kind == "mor":
        trips.upsert(table(trip(n, 11) for n in (0, 1, 5)))
        trips.upsert(table(trip(n, 12) for n in (0, 5)))
    return path


def rows(path: Path) -> list[tuple[object, ...]]:
    found = pudi.Table(path).scan(columns=["uuid", "ts", "city"]).to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))


def outcomes(number: int) -> tuple[tuple[Outcome, int], ...]:
    """Two of them for each moment, others for the next."""
    return tuple(OUTCOMES[each % len(OUTCOMES)] for each in (number, number + 1 + number // 4 % 3))


def open_on(storage: PowerStorage, **options: str) -> pudi.Table:
    return pudi.Table.of(MetaClient.open(storage.root, None, options, Context(), storage), options)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    known: dict[tuple[str, str], Path] = {}

    def template(version: str, kind: str) -> Path:
        if (version, kind) not in known:
            known[version, kind] = made(tmp_path_factory.mktemp("template") / "t", version, kind)
        return known[version, kind]

    return template


@pytest.fixture
def copy(templates: Callable[[str, str], Path], tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    count = 0

    def fresh(version: str, kind: str) -> Path:
        nonlocal count
        count += 1
        return Path(shutil.copytree(templates(version, kind), tmp_path / f"copy{count}"))

    yield fresh


def assert_goes_on(path: Path, found: list[tuple[object, ...]], verb: str, about: str) -> None:
    """The next writer repairs what there is to repair, and nothing is wrong after it."""
    again = pudi.Table(path)
    if verb in OF_LOGS:
        again.run_pending()
        assert rows(path) == found, about
    again.upsert(table([trip(50, 30)]))
    again.upsert(table([trip(51, 30)]), options={"hoodie.metadata.compact.max.delta.commits": "1"})
    assert rows(path) == sorted([*found, *((f"k00{n}", 30, trip(n, 30)["city"]) for n in (50, 51))]), about
    assert find_orphans(MetaClient.open(str(path), None, {})).data_files == (), about
    checked = pudi.Table(path).check()
    assert checked.ok, f"{about}: {checked}"


@pytest.mark.sampled(7)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("version", "kind", "verb"), CASES)
def test_every_moment(
    copy: Callable[[str, str], Path], tmp_path: Path, version: str, kind: str, verb: str, part: int
) -> None:
    old = rows(copy(version, kind))
    with closing(PowerStorage(str(copy(version, kind)))) as storage:
        RUNS[verb](open_on(storage))
        calls, new = storage.calls, rows(Path(storage.root))
    for number in range(1 + part, calls + 1, PARTS):
        path = copy(version, kind)
        with closing(PowerStorage(str(path), fail_at=number, crash_after=number % 2 == 0)) as storage:
            with pytest.raises(SimulatedCrash):
                RUNS[verb](open_on(storage))
            for outcome, seed in outcomes(number):
                back = tmp_path / f"back{seed}-{number}"
                storage.restore(back, outcome, seed)
                about = f"{outcome} {seed} at call {number} of {calls}, {storage.log[-1]}"
                found = rows(back)
                assert found in (old, new), about
                assert_goes_on(back, found, verb, about)
                shutil.rmtree(back)
        shutil.rmtree(path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind", "verb"), CASES)
def test_what_was_told_is_there(
    copy: Callable[[str, str], Path], tmp_path: Path, version: str, kind: str, verb: str
) -> None:
    with closing(PowerStorage(str(copy(version, kind)))) as storage:
        RUNS[verb](open_on(storage))
        new, config = rows(Path(storage.root)), pudi.Table(storage.root).config
        for outcome, seed in OUTCOMES:
            back = tmp_path / f"back{seed}"
            storage.restore(back, outcome, seed)
            assert rows(back) == new, outcome
            assert pudi.Table(back).config.metadata_partitions == config.metadata_partitions
            assert_goes_on(back, new, verb, outcome)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_without_it_a_loss_of_power_takes_the_commit(
    copy: Callable[[str, str], Path], tmp_path: Path, kind: str
) -> None:
    """It's the bringing to the disk that the tests above see."""
    with closing(PowerStorage(str(copy("9", kind)))) as storage:
        old = rows(Path(storage.root))
        RUNS["upsert"](open_on(storage, **UNSYNCED))
        assert "flush" not in {each for each, _ in storage.log}
        storage.restore(tmp_path / "lost", "lost")
        assert rows(tmp_path / "lost") == old
        storage.restore(tmp_path / "kept", "kept")
        with pytest.raises(pudi.CorruptError):
            rows(tmp_path / "kept")


def create_on(patch: pytest.MonkeyPatch, path: Path, version: str, **cut: object) -> PowerStorage:
    """Make a table on a disk whose power may be cut."""
    path.parent.mkdir()
    storage = PowerStorage(str(path), **cut)  # type: ignore[arg-type]
    with patch.context() as during:
        during.setattr("pudi.writes.create.open_storage", lambda *args, **more: storage)
        with pytest.raises(SimulatedCrash) if cut else nullcontext():
            create(path, version, "mor")
    return storage


@pytest.mark.parametrize("version", ["9", "6"])
@pytest.mark.parametrize("step", [43, pytest.param(1, marks=pytest.mark.slow)])
def test_creating_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, step: int) -> None:
    with closing(create_on(monkeypatch, tmp_path / "whole" / "t", version)) as storage:
        calls = storage.calls
        indexed = pudi.Table(tmp_path / "whole" / "t").config.metadata_partitions
        for outcome, seed in OUTCOMES[:3]:
            back = tmp_path / f"told{seed}"
            storage.restore(back, outcome, seed)
            assert pudi.Table(back).config.metadata_partitions == indexed != ()
            assert_goes_on(back, [], "create", outcome)
    for number in range(1, calls + 1, step):
        path = tmp_path / str(number) / "t"
        with closing(create_on(monkeypatch, path, version, fail_at=number, crash_after=number % 2 == 0)) as storage:
            for outcome, seed in outcomes(number):
                back = tmp_path / f"back{seed}-{number}"
                storage.restore(back, outcome, seed)
                about = f"{outcome} {seed} at call {number} of {calls}, {storage.log[-1]}"
                try:
                    found = pudi.Table(back).config.metadata_partitions
                except pudi.TableNotFoundError:
                    create(back, version, "mor")
                else:
                    assert found in ((), indexed), about
                assert_goes_on(back, [], "create", about)
                shutil.rmtree(back)
