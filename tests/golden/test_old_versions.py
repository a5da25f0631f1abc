"""Tables of versions 0 to 5 and 7: read as version 6 is, and upgraded.

Those of version 5 are Hudi 0.13.1's own (`make_old.py`), as it answered every query. Those of versions 1 to 4 were
written by Hudi's Java client (`make_java.py`), and made by hand of those of version 5 (`support.old_versions`) where
that can't write such: merge-on-read tables below version 3, metadata tables. No release wrote version 7.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.format.log_block import BlockKind, decode_blocks
from pudi.format.log_deletes import decode_deletes
from pudi.upgrade import upgrade as upgrade_module
from pudi.upgrade.upgrade_old import FirstStep
from support.engines import Engine
from support.golden import Golden, queries, tables
from support.old_versions import as_version
from support.rows import META_FIELDS, Row, assert_same, from_arrow

TABLES = [table for table in tables("v5_") if table.name != "v5_mor_logcompact"]
CASES = [case for case in queries(TABLES) if case.values[0] == "local" or case.values[2] == "snapshot"]
CLEANED = ("v5_cow_archived", "as_of:20261125091522456")
"""Hudi 1.2 refuses to read a state that a clean didn't keep; 0.13.1 read what was left of it."""
ARCHIVED = ("v5_cow_archived", "incremental_after:000")
"""Hudi 1.2 reads the changes of archived commits; 0.13.1 left them out."""
BY_WRITERS = {
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}


def test_the_corpus_is_whole() -> None:
    assert [table.name for table in TABLES] == ["v5_cow_archived", "v5_cow_basic", "v5_mor_basic", "v5_mor_compacted"]
    assert {table.expected()["hudi"] for table in TABLES} == {"0.13.1"}
    assert {name: Golden(name).expected()["hudi"] for name in BY_JAVA} == BY_JAVA
    assert not Golden("v1_cow_basic").expected()["snapshot"]["rows"]


@pytest.mark.parametrize("name", ["v3_mor_basic", "v4_mor_basic"])
def test_delete_blocks_of_version_1_by_hudi(golden_folder: Path, name: str) -> None:
    """They hold keys alone, by Kryo; version 2, with ordering values, is in those of version 5."""
    path = Golden(name).unpack(golden_folder)
    blocks = [each for log in path.glob("*/.*.log.*") for each in decode_blocks(log.read_bytes())]
    deleted = [decode_deletes(each) for each in blocks if each.kind is BlockKind.DELETE]
    assert sorted(key for each in deleted for key in each.keys.to_pylist()) == ["k00", "k06", "k07"]
    assert all(each.unconditional.all() for each in deleted)
    assert_same(from_arrow(pudi.Table(path).scan().to_arrow()), _rows(name), META_FIELDS)


@pytest.mark.parametrize(("engine", "table", "query"), CASES, indirect=["engine"])
def test_query(engine: Engine, golden_folder: Path, table: Golden, query: str) -> None:
    kind, _, instant = query.partition(":")
    opened = pudi.Table(str(table.unpack(golden_folder)))
    if (table.name, query) == CLEANED:
        with pytest.raises(pudi.NotFoundError, match="cleaner has removed"):
            opened.scan(as_of=instant)
        return
    asked = opened.changes(since=None if instant == "000" else instant) if kind == "incremental_after" else None
    rows = engine.read(asked if asked is not None else opened.scan(as_of=instant or None))
    expected = table.expected()["snapshot" if (table.name, query) == ARCHIVED else query]["rows"]
    assert_same(rows, expected, about=f"{table.name} {query}")


def test_a_log_compaction_between_whose_plan_and_run_somebody_wrote(golden_folder: Path) -> None:
    """What stands in the way of log compactions below version 8: readers before 1.0 lose that write.

    Hudi 0.13.1 reads the merged block where it lies, behind the newer one; Hudi 1.2 and pudi read it in the place of
    the blocks that it merges.
    """
    golden = Golden("v5_mor_logcompact")
    rows = pudi.Table(golden.unpack(golden_folder)).scan().to_arrow().sort_by("id")
    read = [list(row) for row in zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)]
    assert read == golden.expected()["before"]
    assert read != golden.expected()["after"]


BY_JAVA = {"v1_cow_basic": "0.8.0", "v2_cow_archived": "0.9.0", "v3_mor_basic": "0.10.1", "v4_mor_basic": "0.11.1"}
OF_VERSION_1 = {1: "cid", 2: "bob", 3: "bob", 4: "ann", 5: "ann", 7: "cid", 8: "cid", 9: "ann", 20: "bob"}
"""What the writer of `v1_cow_basic` left. Hudi 1.2 reads no row of it, since its properties don't say that it has
partitions."""


def _rows(name: str) -> list[Row]:
    if name != "v1_cow_basic":
        return Golden(name).expected()["snapshot"]["rows"]
    when, cities = {"ann": 10, "bob": 20, "cid": 40}, ("nyc", "sf")
    return [
        {"uuid": f"k{n:02}", "ts": when[rider], "rider": rider, "fare": n * 1.5, "city": cities[n % 2]}
        for n, rider in OF_VERSION_1.items()
    ]


def _old(folder: Path, name: str, version: int) -> Path:
    path = Golden(name).unpack(folder)
    if not name.startswith(f"v{version}_"):
        as_version(path, version)
    return path


HAND_MADE = [
    ("v5_cow_archived", 4),
    ("v5_mor_basic", 4),
    ("v5_mor_compacted", 3),
    ("v5_cow_basic", 2),
    ("v5_cow_basic", 1),
    ("v1_cow_basic", 0),
    ("v5_cow_basic", 0),
]
REAL = [*((table.name, 5) for table in TABLES), *((name, int(name[1])) for name in BY_JAVA)]


@pytest.mark.parametrize(("name", "version"), [*REAL, *HAND_MADE])
@pytest.mark.parametrize("target", [6, 9])
def test_upgrades(tmp_path: Path, name: str, version: int, target: int) -> None:
    path, expected = _old(tmp_path, name, version), _rows(name)
    opened = pudi.Table(path)
    assert opened.config.version == version
    assert_same(from_arrow(opened.scan().to_arrow()), expected, META_FIELDS, "before")
    new = pa.Table.from_pylist([dict(zip(opened.schema.names, ("k02", 99, "last", 0.5, "nyc"), strict=True))])
    with pytest.raises(pudi.NotSupportedError, match="pudi upgrade"):
        opened.upsert(new)
    options = BY_WRITERS if version < 3 else {}
    planned = pudi.Table(path, options=options).upgrade(target, dry_run=True)
    assert planned.old == version
    assert planned.steps
    assert pudi.Table(path).config.version == version
    done = pudi.Table(path, options=options).upgrade(target)
    assert (done.old, done.new, done.done) == (version, target, True)
    upgraded = pudi.Table(path)
    assert upgraded.config.version == target
    assert upgraded.config.record_key_fields == ("uuid",)
    assert bool(upgraded.config.metadata_partitions) == (name in {"v5_cow_basic", "v5_mor_basic"} and version >= 4)
    assert_same(from_arrow(upgraded.scan().to_arrow()), expected, META_FIELDS, "after")
    upgraded.upsert(new)
    rows = [row for row in expected if row["uuid"] != "k02"] + from_arrow(new)
    assert_same(from_arrow(upgraded.scan().to_arrow()), rows, META_FIELDS, "after an upsert")
    assert not upgraded.check().differences


@pytest.mark.parametrize("target", [6, 9])
@pytest.mark.parametrize("name", ["v5_cow_basic", "v5_mor_basic"])
def test_the_second_of_two_processes_leaves_what_the_first_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: int
) -> None:
    """It planned the upgrade when the table was old still, and gets the lock when it's of version 6."""
    path, expected = _old(tmp_path, name, 5), _rows(name)
    first = upgrade_module.bring_to_6

    def after_another(meta: MetaClient, step: FirstStep) -> MetaClient:
        monkeypatch.undo()
        pudi.Table(path).upgrade(6)
        if name == "v5_cow_basic":
            pudi.Table(path).create_index("record_index")
        made.update(pudi.Table(path).config.metadata_partitions)
        return first(meta, step)

    made: set[str] = set()
    monkeypatch.setattr(upgrade_module, "bring_to_6", after_another)
    assert pudi.Table(path).upgrade(target).done
    upgraded = pudi.Table(path)
    assert upgraded.config.version == target
    assert made
    assert set(upgraded.config.metadata_partitions) == made
    assert upgraded.check().ok
    assert_same(from_arrow(upgraded.scan().to_arrow()), expected, META_FIELDS)


def test_version_7_is_one_of_layout_1(tmp_path: Path) -> None:
    path = Golden("mor_v6_basic").unpack(tmp_path)
    as_version(path, 7)
    expected = Golden("mor_v6_basic").expected()["snapshot"]["rows"]
    assert_same(from_arrow(pudi.Table(path).scan().to_arrow()), expected)
    pudi.Table(path).upgrade()
    assert pudi.Table(path).config.version == 9
    assert_same(from_arrow(pudi.Table(path).scan().to_arrow()), expected, META_FIELDS)


def test_what_doctor_says(golden_folder: Path) -> None:
    first = pudi.Table(Golden("v1_cow_basic").unpack(golden_folder)).doctor()
    assert first.facts["partitioned by"].startswith("not said")
    who = {each.who: (each.reads, each.writes, each.why) for each in first.access}
    assert who["Apache Hudi 1.1, 1.2"][:2] == (False, False)
    assert "finds no rows" in who["Apache Hudi 1.1, 1.2"][2]
    third = pudi.Table(Golden("v3_mor_basic").unpack(golden_folder)).doctor()
    who = {each.who: (each.reads, each.writes, each.why) for each in third.access}
    assert who["Apache Hudi 1.1, 1.2"][:2] == (True, False)
    assert "Apache Hudi 0.15" in who


def test_a_write_that_died_in_version_0_is_refused(tmp_path: Path) -> None:
    path = _old(tmp_path, "v1_cow_basic", 0)
    (path / ".hoodie" / "20270101000000.commit.requested").touch()
    (path / ".hoodie" / "20270101000000.inflight").touch()
    assert_same(from_arrow(pudi.Table(path).scan().to_arrow()), _rows("v1_cow_basic"), META_FIELDS)
    with pytest.raises(pudi.InvalidArgumentError, match="a write has begun and not completed"):
        pudi.Table(path, options=BY_WRITERS).upgrade()
    assert pudi.Table(path).config.version == 0


def test_what_old_properties_do_not_say_is_asked_for(tmp_path: Path) -> None:
    path = _old(tmp_path, "v5_cow_basic", 1)
    with pytest.raises(pudi.InvalidArgumentError, match=r"hoodie\.table\.recordkey\.fields"):
        pudi.Table(path).upgrade()
    wrong = BY_WRITERS | {"hoodie.datasource.write.hive_style_partitioning": "true"}
    with pytest.raises(pudi.InvalidArgumentError, match=r"would be 'k.*' in 'city="):
        pudi.Table(path, options=wrong).upgrade()
    with pytest.raises(pudi.InvalidArgumentError, match="isn't in the table"):
        pudi.Table(path, options=BY_WRITERS | {"hoodie.datasource.write.recordkey.field": "gone"}).upgrade()
    assert pudi.Table(path).config.version == 1


def test_the_old_folder_of_no_partition_value_is_refused_as_hudi_does(tmp_path: Path) -> None:
    path = _old(tmp_path, "v5_cow_archived", 4)
    (path / "default").mkdir()
    (path / "default" / ".hoodie_partition_metadata").write_text("commitTime=20260101000000\npartitionDepth=1\n")
    with pytest.raises(pudi.InvalidArgumentError, match="'default'"):
        pudi.Table(path).upgrade()
    assert pudi.Table(path).config.version == 4


def test_copies_of_plans_go_and_the_plans_stay(tmp_path: Path) -> None:
    path = Golden("mor_v6_basic").unpack(tmp_path)
    instant = pudi.Table(path).schedule("compaction")
    as_version(path, 5)
    plan, copies = path / ".hoodie" / f"{instant}.compaction.requested", path / ".hoodie" / ".aux"
    copies.mkdir(exist_ok=True)
    shutil.copy(plan, copies)
    (copies / "notes").write_text("of somebody else")
    before = {each for each in path.rglob("*") if each.is_file() and "metadata" not in each.parts}
    expected = from_arrow(pudi.Table(path).scan().to_arrow())
    pudi.Table(path).upgrade(6)
    after = {each for each in path.rglob("*") if each.is_file() and "metadata" not in each.parts}
    assert before - after == {copies / plan.name}
    assert len(pudi.Table(path).run_pending()) == 1
    assert_same(from_arrow(pudi.Table(path).scan().to_arrow()), expected, META_FIELDS)
