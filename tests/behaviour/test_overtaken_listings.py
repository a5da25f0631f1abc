"""A clustering, and the clean of what it replaced, while a read or a write is between its timeline and its listing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.client.snapshot import TableSnapshot
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

ALONE = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.compact.max.delta.commits": "1",
}
ONE_COMMIT = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
ONE_SLICE = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]

Meanwhile = Callable[[Callable[[], object]], None]
by_listing = pytest.mark.parametrize("metadata", ["true", "false"], ids=["metadata table", "folders"])
by_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def made(path: Path, layout: Layout, metadata: str) -> pudi.Table:
    """A table whose first two files, of one partition, are from commits that were archived."""
    arguments, options = layout.create_arguments(), ALONE | {"hoodie.metadata.enable": metadata}
    pudi.create(path, SCHEMA, **{**arguments, "options": arguments["options"] | options})
    mine = pudi.Table(path, options)
    mine.insert(table([trip(0, 1), trip(3, 1)]))
    mine.insert(table([trip(6, 1)]))
    for ts in range(5):
        mine.upsert(table([trip(1, ts)]))
    if layout.kind == "mor":
        mine.compact()
    mine.clean(options=ONE_COMMIT)
    mine.upsert(table([trip(1, 6)]))
    assert mine.archive(options=ONE_COMMIT)
    return mine


def replace_and_clean(path: Path) -> None:
    other = pudi.Table(path, ALONE)
    done = other.cluster(options={"hoodie.clustering.plan.strategy.partition.selected": "nyc"})
    assert done is not None
    assert done.files_replaced == 2
    other.clean(options=ONE_SLICE)


def keys(path: Path) -> dict[str, str]:
    found = pudi.Table(path).scan(["uuid", "rider"]).to_arrow()
    assert found.num_rows == len(set(found["uuid"].to_pylist()))
    return dict(zip(found["uuid"].to_pylist(), found["rider"].to_pylist(), strict=True))


@pytest.fixture
def before_listing(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Runs a function once, when a timeline is loaded and no file is listed."""

    def register(other: Callable[[], object]) -> None:
        left, listing = [other], TableSnapshot.listing

        def overtaken(snapshot: TableSnapshot, *given: object) -> object:
            if left and not snapshot.meta.is_metadata:
                left.pop()()
            return listing(snapshot, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(TableSnapshot, "listing", overtaken)

    return register


@pytest.mark.sampled(3)
@by_listing
@by_layout
def test_a_read_misses_no_file_group(tmp_path: Path, before_listing: Meanwhile, layout: Layout, metadata: str) -> None:
    mine = made(tmp_path / "t", layout, metadata)
    before, newest = keys(Path(mine.path)), mine.timeline.commits[-1].requested
    asked: dict[str, dict[str, object]] = {
        "all": {},
        "some": {"where": "city = 'nyc'"},
        "one": {"where": "uuid = 'k0003'"},
        "past": {"as_of": newest},
    }
    for name, given in asked.items():
        path = Path(shutil.copytree(mine.path, tmp_path / name))
        before_listing(lambda path=path: replace_and_clean(path))  # type: ignore[misc]
        with pytest.raises(
            pudi.NotFoundError, match=r"clean \d+ deleted it .* read the table as it is now|no such file; .* clean"
        ):
            pudi.Table(path).scan(["uuid"], **given).to_arrow()  # type: ignore[arg-type]
        assert keys(path) == before


@pytest.mark.sampled(3)
@by_listing
@by_layout
def test_a_write_misses_no_key(tmp_path: Path, before_listing: Meanwhile, layout: Layout, metadata: str) -> None:
    """It is planned again, by the files that there are now, also where it had found nothing to do."""
    mine = made(tmp_path / "t", layout, metadata)
    old = keys(Path(mine.path))
    one: pa.Table = table([trip(3, 9, "new"), trip(9, 9, "new")])
    verbs: dict[str, tuple[Callable[[pudi.Table], object], dict[str, str]]] = {
        "upsert": (lambda on: on.upsert(one), old | {"k0003": "new", "k0009": "new"}),
        "delete": (lambda on: on.delete(one), {key: rider for key, rider in old.items() if key != "k0003"}),
        "update": (lambda on: on.update({"rider": "'new'"}, where="uuid = 'k0003'"), old | {"k0003": "new"}),
        "drop": (lambda on: on.delete(where="city = 'nyc'"), {"k0001": "ann"}),
    }
    for name, (write, after) in verbs.items():
        path = Path(shutil.copytree(mine.path, tmp_path / name))
        before_listing(lambda path=path: replace_and_clean(path))  # type: ignore[misc]
        write(pudi.Table(path, ALONE))
        assert keys(path) == after, name
        assert pudi.Table(path).check().ok, name


def test_a_read_that_was_planned_long_ago_says_what_is_gone(tmp_path: Path) -> None:
    """Meanwhile the clean was archived itself."""
    mine = made(tmp_path / "t", Layout(), "false")
    scan = mine.scan(["uuid"])
    replace_and_clean(Path(mine.path))
    for ts in range(7, 12):
        mine.upsert(table([trip(1, ts)]))
        mine.clean(options=ONE_COMMIT)
        mine.archive(options=ONE_COMMIT)
    with pytest.raises(pudi.NotFoundError, match=r"clean \d+ deleted it"):
        scan.to_arrow()


@by_listing
def test_a_read_whose_commit_was_rolled_back_says_so(tmp_path: Path, metadata: str) -> None:
    mine = made(tmp_path / "t", Layout(), metadata)
    scan = mine.scan(["uuid"])
    mine.rollback(mine.timeline.commits[-1].requested)
    with pytest.raises(pudi.NotFoundError, match=r"was rolled back while this was under way|is gone: restore it"):
        scan.to_arrow()
