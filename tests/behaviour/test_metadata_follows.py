"""The metadata table follows a rollback or restore by rolling back its own: what is left is what a rebuild makes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import resolve
from pudi.context import Context
from pudi.engine.local import LocalEngine
from pudi.format import Action
from pudi.indexing.rebuild import rebuild
from pudi.metadata import MetadataTable
from support.layouts import Layout
from support.rows import Row, assert_same, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
NEW_LAYOUTS = [each for each in LAYOUTS if each.version > 6]
PLAIN = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "100",
}
OF_THE_BUILD = {"instantTime", "timestamp"}
"""What says when an entry was made: an instant of the rebuild, or of the newest file slice."""


def opened(path: Path) -> tuple[MetaClient, MetadataTable]:
    meta = MetaClient.open(str(path), None, {}, Context())
    return meta, TableSnapshot.load(meta).metadata_table()


def contents(path: Path) -> dict[str, list[str]]:
    """What each partition of the metadata table says, without tombstones."""
    meta, held = opened(path)
    found = {}
    for partition in meta.config.metadata_partitions:
        entries = (said(row) for row in held.read(partition).to_pylist())
        found[partition] = sorted(str(each) for each in entries if each is not None)
    return found


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(map(is_empty, value.values())))


def said(row: dict[str, Any]) -> dict[str, Any] | None:
    for name, value in row.items():
        if isinstance(value, dict) and value.get("isDeleted"):
            return None
        if name == "filesystemMetadata" and value is not None:
            files = dict(value)
            row[name] = sorted((file, info["size"]) for file, info in files.items() if not info["isDeleted"])
            if not row[name]:
                return None
        if name == "ColumnStatsMetadata" and not value["nullCount"] and is_empty(value["minValue"]):
            return None  # as of a log file that only deletes
        if isinstance(value, dict):
            row[name] = {key: each for key, each in value.items() if key not in OF_THE_BUILD}
    return row


def made_anew(path: Path, copy: Path) -> dict[str, list[str]]:
    shutil.copytree(path, copy)
    meta, _ = opened(copy)
    rebuild(meta, LocalEngine(), resolve({}), ["files"], lambda: None)
    return contents(copy)


def assert_as_made_anew(path: Path, copy: Path) -> None:
    """Below version 8, log files whose blocks are rolled back stay; a rebuild reads statistics of them too."""
    found, expected = contents(path), made_anew(path, copy)
    assert found.keys() == expected.keys()
    for partition in expected:
        assert set(found[partition]) - set(expected[partition]) == set(), partition
        if partition != "column_stats" or not list(path.rglob(".hoodie/*.rollback")):
            assert set(expected[partition]) - set(found[partition]) == set(), partition


def first_made(path: Path) -> str | None:
    """When the metadata table was made."""
    _, held = opened(path)
    return held.timeline.commits[0].completion or held.timeline.commits[0].requested


def rows(mine: pudi.Table) -> list[Row]:
    return from_arrow(pudi.Table(mine.path).scan().to_arrow())


def made(path: Path, layout: Layout, options: dict[str, str] | None = None) -> pudi.Table:
    arguments = layout.create_arguments()
    pudi.create(path, SCHEMA, **arguments)
    mine = pudi.Table(path, options=PLAIN | (options or {}))
    mine.bulk_insert(table(trip(number, 1) for number in range(12)))
    for kind in ("record_index", "bloom_filters"):
        mine.create_index(kind)
    if layout.version > 6:
        mine.create_index("secondary_index", columns=["rider"], name="rider")
    return mine


def more(mine: pudi.Table, layout: Layout) -> list[str]:
    """Commits of several kinds: updates, inserts, a new partition, deletes, a compaction, and a replaced partition."""
    done = [mine.upsert(table(trip(number, 2) for number in range(5, 16)))]
    done.append(mine.delete(table(trip(number, 3) for number in range(3))))
    if layout.kind == "mor":
        done.append(mine.compact())
    done.append(mine.insert_overwrite(table([trip(7, 4)])))
    done.append(mine.upsert(table(trip(number, 5) for number in range(8, 20, 2))))
    return [each.instant for each in done if each is not None]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("every", ["100", "6"], ids=["logs", "compacted"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_it_holds_what_a_rebuild_makes(tmp_path: Path, layout: Layout, every: str) -> None:
    path = tmp_path / "trips"
    mine = made(path, layout, {"hoodie.metadata.compact.max.delta.commits": every})
    start, expected, when = mine.timeline.commits[-1].requested, rows(mine), first_made(path)
    instants = more(mine, layout)
    assert_as_made_anew(path, tmp_path / "before")
    compactions = opened(path)[1].timeline.of(Action.COMMIT)
    assert [each for each in compactions if each.requested > start] or every == "100"
    mine.rollback(instants.pop())
    if every == "100" or layout.version > 6:
        assert first_made(path) == when, "rolled back"
    assert_as_made_anew(path, tmp_path / "rolled back")
    assert mine.check().ok, mine.check()
    mine.restore(start)
    assert (first_made(path) == when) == (layout.version > 6)
    assert_same(rows(mine), expected)
    assert_as_made_anew(path, tmp_path / "restored")
    mine.upsert(table(trip(number, 9) for number in range(0, 20, 3)))
    assert_as_made_anew(path, tmp_path / "written")
    assert mine.check().ok, mine.check()
