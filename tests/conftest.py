"""Fixtures of every suite: one Spark session for the whole run, and the two engines behind one face."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from support import hudi
from support import spark as spark_support
from support.engines import Engine, LocalEngine, SparkEngine

# A busy machine is no failure: the whole suite has a time limit of its own. Nor does a run of the suite depend on
# chance, so that what failed fails again; `make fuzz` looks for new examples.
settings.register_profile("pudi", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=1000)
settings.load_profile("pudi")

# No test waits for the disk: what is flushed, and when, is asked of storages that lose the rest.
os.fsync = lambda fd: None


_TESTS = Path(__file__).parent
_ON_SPARK = frozenset({"spark", "tasks", "spread"})
"""Engines of the `engine` fixture that run on Spark."""
_SPARK_SHARE = 6
"""One in so many parameter sets runs on Spark each time."""
_SAMPLED_SUITES = frozenset({"behaviour", "contract", "damage", "faults", "interop", "spark"})
"""Suites whose tests take long: of each test's parameter sets a sample runs each time."""
_SAMPLE = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stock-spark", action="store_true", help="a session without Hudi, as a user has it")


@functools.cache
def _spark_version() -> str | None:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def _why_no_hudi(config: pytest.Config) -> str | None:
    version = _spark_version()
    if version is None or not version.startswith("3.5."):
        return f"Apache Hudi's bundle is for Spark 3.5; this environment has pyspark {version}"
    return "the session was asked to be without Hudi (--stock-spark)" if config.getoption("--stock-spark") else None


def _is_full(config: pytest.Config) -> bool:
    """Return whether the marker expression asks for slow tests; "not slow" alone names them to leave them out."""
    return "slow" in (config.option.markexpr or "").replace("not slow", "")


def _place_in_product(item: pytest.Item) -> tuple[int, ...]:
    return tuple(item.callspec.indices.values()) if hasattr(item, "callspec") else ()


def _mark_slow_beside_samples(items: list[pytest.Item]) -> None:
    """Mark the parameter sets that are left to the full product.

    Of the tests that take long some sets run each time, `_SAMPLE` of them or as many as a test's `sampled` marker says.
    """
    for test, group in _by_test(item for item in items if "slow" not in item.keywords):
        marker = group[0].get_closest_marker("sampled")
        suite = group[0].path.relative_to(_TESTS).parts[0]
        if marker is not None:
            _keep(test, group, marker.args[0])
        elif suite in _SAMPLED_SUITES:
            _keep(test, group, _SAMPLE)


def _mark_slow_on_spark(items: list[pytest.Item]) -> None:
    """Mark most of the parameter sets that a test runs on Spark.

    The engines share all code but how work is spread: on Arrow each set runs, on Spark a sample tells.
    """
    for test, group in _by_test(item for item in items if _is_on_spark(item) and "slow" not in item.keywords):
        _keep(test, group, -(-len(group) // _SPARK_SHARE))


def _is_on_spark(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and item.callspec.params.get("engine") in _ON_SPARK
    )


def _by_test(items: Iterable[pytest.Item]) -> Iterator[tuple[str, list[pytest.Item]]]:
    """Group parameter sets by their test, in the order of their declaration."""
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, group in by_test.items():
        yield test, sorted(group, key=_place_in_product)


def _keep(test: str, group: Sequence[pytest.Item], most: int) -> None:
    """Mark all but `most` sets slow. Each test begins elsewhere, so that together they meet all values."""
    count = min(len(group), most)
    start = zlib.crc32(test.encode())
    kept = {(start + number * len(group) // count) % len(group) for number in range(count)}
    for number, item in enumerate(group):
        if number not in kept:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what this environment can't run, and the full products unless the marker expression names them."""
    _mark_slow_on_spark(items)
    _mark_slow_beside_samples(items)
    no_hudi = _why_no_hudi(config)
    for item in items:
        if "interop" in item.keywords and no_hudi:
            item.add_marker(pytest.mark.skip(reason=no_hudi))
        if "spark" in item.keywords and _spark_version() is None:
            item.add_marker(pytest.mark.skip(reason="pyspark is not installed"))
        if "slow" in item.keywords and not _is_full(config):
            item.add_marker(pytest.mark.skip(reason="a full product of combinations: run by make interop (-m slow)"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The run's one Spark session: it holds the Hudi bundle on Spark 3.5, and is a stock one otherwise."""
    conf = {} if _why_no_hudi(request.config) else hudi.SESSION
    session = spark_support.start(tmp_path_factory.mktemp("spark"), conf)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def metadata_by_default(request: pytest.FixtureRequest) -> Iterator[None]:
    """New tables have a metadata table in modules that are marked so; others ask for one where it's their subject.

    Most modules are about something else, and some about each file and each request of a plain table.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("metadata_by_default") is None:
            patch.setattr("pudi.writes.create.build_for_new", lambda meta, options: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def same_calls_at_any_speed() -> Iterator[None]:
    """A write makes the same calls of the storage however slow the machine is: tests count them, and fail at one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pudi.writes.open_write.FRESH_SECONDS", float("inf"))
        yield


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn; `tasks` is Spark where the driver does no work of tasks, `spread` where all is large.

    Large ones: keys are found first, then records are spread over files. A record index is taken for a large one too.
    """
    if request.param == "local":
        return LocalEngine()
    if request.param in {"tasks", "spread"}:
        request.getfixturevalue("monkeypatch").setattr("pudi.engine.spark.engine._DRIVER_RECORDS", 0)
        request.getfixturevalue("monkeypatch").setattr("pudi.engine.spark.engine._DRIVER_JOBS", 0)
    if request.param == "spread":
        request.getfixturevalue("monkeypatch").setattr("pudi.engine.spark.engine._WHOLE", None)
        request.getfixturevalue("monkeypatch").setattr("pudi.engine.spark.lookups._SMALL_INDEX", 0)
    return SparkEngine(request.getfixturevalue("spark"))


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where golden tables are unpacked for tests that only read them."""
    return tmp_path_factory.mktemp("golden")


@pytest.fixture
def some_of(request: pytest.FixtureRequest) -> Callable[[Sequence[int]], list[int]]:
    """Thins out the numbers of the calls at which a test injects faults.

    All of them with `-m slow`; else the first, the last, and about five between, other ones in each test.
    """

    def thin(numbers: Sequence[int]) -> list[int]:
        every = 1 if _is_full(request.config) else max(1, len(numbers) // 5)
        begin = zlib.crc32(request.node.nodeid.encode()) % every
        return sorted({numbers[0], *numbers[begin::every], numbers[-1]})

    return thin


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How many rounds of a long sequence are taken: all with `-m slow`, else five at most."""
    return lambda most: most if _is_full(request.config) else min(most, 5)
