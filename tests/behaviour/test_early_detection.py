"""With early detection the loser of a conflict stops before it has written its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.writes import commit_write

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
EARLY = "hoodie.write.concurrency.early.conflict."
MARKERS = {f"{EARLY}detection.enable": "true"}
COMMITS = {**MARKERS, f"{EARLY}check.commit.conflict": "true"}


def rows(*values: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "v": v} for key, v in values], SCHEMA)


def data_files(table: pudi.Table) -> set[str]:
    files = (path.name for path in Path(table.path).iterdir() if path.is_file())
    return {name for name in files if not name.startswith(".hoodie_partition")}


@pytest.fixture
def table(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id")
    made.insert(rows(("a", 1)))
    return made


@pytest.fixture
def around_writing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Runs functions once before and after the next write works on its files."""
    work = commit_write._run_tasks

    def register(before: Callable[[], object] | None = None, after: Callable[[], object] | None = None) -> None:
        left = [(before, after)]

        def wrapped(*arguments: Any) -> Any:
            first, then = left.pop() if left else (None, None)
            if first is not None:
                first()
            results = work(*arguments)
            if then is not None:
                then()
            return results

        monkeypatch.setattr(commit_write, "_run_tasks", wrapped)

    yield register


@pytest.mark.parametrize("early", [True, False])
def test_the_later_writer_gives_way_to_the_markers_of_the_earlier(
    table: pudi.Table, around_writing: Callable[..., None], early: bool
) -> None:
    """The earlier one has written its file, which isn't visible yet."""
    other, there = pudi.Table(table.path), set[str]()

    def later() -> None:
        there.update(data_files(table))
        if early:
            with pytest.raises(pudi.ConflictError, match=r"which began earlier, also writes file group .* found early"):
                other.upsert(rows(("a", 3)), options=MARKERS)
            assert data_files(table) == there, "it wrote no file"
        else:
            other.upsert(rows(("a", 3)))

    around_writing(after=later)
    if early:
        table.upsert(rows(("a", 2)))
    else:
        with pytest.raises(pudi.ConflictError, match="also wrote file group"):
            table.upsert(rows(("a", 2)))
    assert table.scan(columns=["v"]).to_arrow()["v"].to_pylist() == [2 if early else 3]
    assert table.check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("options", [MARKERS, COMMITS], ids=["markers", "commits"])
def test_a_commit_since_the_plan_is_found_if_asked_for(
    tmp_path: Path, around_writing: Callable[..., None], kind: str, options: dict[str, str]
) -> None:
    table = pudi.create(tmp_path / kind, SCHEMA, record_key="id", table_type=kind)
    table.insert(rows(("a", 1)))
    other, there = pudi.Table(table.path), set[str]()

    def quick() -> None:
        other.upsert(rows(("a", 3)))
        there.update(data_files(table))

    seen: list[set[str]] = []
    around_writing(before=quick, after=lambda: seen.append(data_files(table)))
    with pytest.raises(pudi.ConflictError, match="also wrote file group") as raised:
        table.upsert(rows(("a", 2)), options=options)
    early = options is COMMITS
    assert ("found early" in str(raised.value)) == early
    assert bool(seen) == (not early), "without it the files are written first"
    assert table.scan(columns=["v"]).to_arrow()["v"].to_pylist() == [3]


def test_who_meets_nobody_writes(table: pudi.Table) -> None:
    assert table.upsert(rows(("a", 2), ("b", 1)), options=COMMITS)
    assert table.update({"v": "v + 1"}, where="id = 'a'", options=COMMITS)
    assert table.delete(where="id = 'nobody'", options=COMMITS) is None
    assert sorted(table.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == [1, 3]
    assert not list(Path(table.path, ".hoodie", ".temp").glob("*/*"))


def test_hudis_strategies_by_name(table: pudi.Table) -> None:
    name = "org.apache.hudi.table.marker.SimpleTransactionDirectMarkerBasedDetectionStrategy"
    assert table.upsert(rows(("a", 2)), options={**MARKERS, f"{EARLY}detection.strategy": name})
    server = "org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy"
    with pytest.raises(pudi.NotSupportedError, match="timeline server"):
        table.upsert(rows(("a", 2)), options={**MARKERS, f"{EARLY}detection.strategy": server})
