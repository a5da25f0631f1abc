"""A process that dies while it makes a table leaves none, or a table that opens, takes writes and is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pudi
from pudi.context import Storage
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

STATISTICS = {"column_stats", "files", "partition_stats"}
PARTITIONS = {"9": STATISTICS, "8": STATISTICS, "6": {"column_stats", "files"}}
"""What the metadata table of a new table has, by the table's version."""
SOME, EVERY = 11, 1


def create(path: Path, version: str, kind: str) -> pudi.Table:
    options = {"hoodie.write.table.version": version}
    return pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options
    )


def create_on(patch: pytest.MonkeyPatch, path: Path, version: str, kind: str, **fault: object) -> FaultStorage:
    """Make a table on a storage that may die."""
    used: list[FaultStorage] = []

    def faulty(root: str, *args: object, **more: object) -> Storage:
        storage = open_storage(root, *args, **more)  # type: ignore[arg-type]
        if root != str(path):  # the folders above, in which other tables are looked for
            return storage
        used.append(FaultStorage(storage, **fault))  # type: ignore[arg-type]
        return used[-1]

    with patch.context() as during:
        during.setattr("pudi.writes.create.open_storage", faulty)
        create(path, version, kind)
    (storage,) = used
    return storage


def assert_no_leftovers(path: Path) -> None:
    """The metadata table has the folders that the properties name, and is at rest."""
    folder = path / ".hoodie" / "metadata"
    assert {each.name for each in folder.iterdir()} - {".hoodie"} == set(metadata_partitions(path))
    assert timeline_of(folder).pending == ()


def assert_takes_writes(path: Path, kind: str, about: str) -> None:
    """Writes come through, the first of which asks for a metadata table; what they leave is right."""
    opened = pudi.Table(path)
    opened.insert(table(trip(n, 10) for n in range(6)), options={"hoodie.metadata.enable": "true"})
    opened.upsert(table([trip(1, 20), trip(7, 20)]))
    found = pudi.Table(path).scan(columns=["uuid", "ts"], where="ts > 0").to_arrow()
    times = dict(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True))
    assert times == {"k0001": 20, "k0007": 20} | {f"k{n:04}": 10 for n in (0, 2, 3, 4, 5)}, about
    assert pudi.Table(path).config.table_type.lower().startswith({"cow": "copy", "mor": "merge"}[kind])
    assert "files" in metadata_partitions(path), about
    assert_listing(path)
    assert_no_leftovers(path)
    checked = pudi.Table(path).check()
    assert checked.ok, f"{about}: {checked}"


@pytest.mark.parametrize(
    ("version", "kind", "step"),
    [
        ("9", "cow", SOME),
        *(
            pytest.param(version, kind, EVERY, marks=pytest.mark.slow)
            for version in ("9", "8", "6")
            for kind in ("cow", "mor")
        ),
    ],
)
@pytest.mark.parametrize("crash_after", [False, True], ids=["before", "after"])
def test_every_crash_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, kind: str, step: int, crash_after: bool
) -> None:
    whole = tmp_path / "whole"
    calls = create_on(monkeypatch, whole, version, kind).calls
    assert set(metadata_partitions(whole)) == PARTITIONS[version]
    seen = set()
    for number in range(1, calls + 1, step):
        path = tmp_path / str(number)
        with pytest.raises(SimulatedCrash):
            create_on(monkeypatch, path, version, kind, fail_at=number, mode="crash", crash_after=crash_after)
        about = f"died at call {number} of {calls}"
        try:
            opened = pudi.Table(path)
        except pudi.TableNotFoundError:
            seen.add("none")
            other = "6" if version == "9" else "9"  # it need not be the same table
            made = create(path, other, kind)
            assert set(made.config.metadata_partitions) == PARTITIONS[other], about
        else:
            ready = set(opened.config.metadata_partitions)
            seen.add("indexed" if ready else "plain")
            assert ready in (set(), PARTITIONS[version]), about
            assert opened.scan().to_arrow().num_rows == 0, about
            with pytest.raises(pudi.TableExistsError):
                create(path, version, kind)
        assert_takes_writes(path, kind, about)
        shutil.rmtree(path)
    assert seen == {"none", "plain", "indexed"} if step == EVERY else seen > {"plain"}


def test_a_crash_without_a_metadata_table_to_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead process left of its metadata table counts for nothing where writes go on without one."""
    path = tmp_path / "t"
    calls = create_on(monkeypatch, tmp_path / "whole", "9", "mor").calls
    with pytest.raises(SimulatedCrash):
        create_on(monkeypatch, path, "9", "mor", fail_at=calls // 2, mode="crash")
    assert (path / ".hoodie" / "metadata").exists()
    opened = pudi.Table(path)
    opened.insert(table(trip(n, 10) for n in range(6)))
    opened.upsert(table([trip(1, 20)]))
    assert opened.config.metadata_partitions == ()
    assert opened.scan(where="ts > 10").to_arrow()["uuid"].to_pylist() == ["k0001"]
    assert opened.check().ok
