"""A table is brought to another version: records, past states, archive and indexes stay, or it's refused by name."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.format import decode_table_properties
from support.engines import Engine, LocalEngine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

PAIRS = [(old, new) for old in (6, 8, 9) for new in (6, 8, 9) if old != new]
SHORT = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
}


def version_of(path: Path) -> int:
    return int(decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())["hoodie.table.version"])


def archived(path: Path) -> list[tuple[str, str]]:
    found = MetaClient.open(str(path), None, {}).store.archived()
    return [(each.requested, each.action.value) for each in found]


def known_commits(path: Path) -> list[tuple[str, str]]:
    meta = MetaClient.open(str(path), None, {})
    timeline = meta.store.load()
    return sorted({*archived(path), *((each.requested, each.action.value) for each in timeline.commits)})


def records(rows: Any) -> list[dict[str, Any]]:
    """Rows without the names of their files, which compactions change."""
    return [{key: value for key, value in row.items() if key != "_hoodie_file_name"} for row in rows]


def loses(kind: str, old: int, new: int) -> bool:
    return kind == "mor" and new == 6 < old


@pytest.mark.sampled(3)
@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_records_history_and_what_follows(
    engine: Engine, tmp_path: Path, old: int, new: int, kind: str, metadata: str
) -> None:
    options = {**SHORT, "hoodie.metadata.enable": metadata}
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, Layout(version=old, kind=kind), options)
    states: dict[str, Any] = {}
    for number, step in enumerate(steps(old, 14, ("insert", "upsert", "upsert", "insert_overwrite"))):
        instant, _ = made.write(step.verb, step.data)
        states[instant] = made.snapshot()
        if kind == "mor" and number % 4 == 3:
            made.table.compact()
    made.table.clean()
    made.table.archive()
    before, told = made.snapshot(), known_commits(made.path)
    kept = {each.requested for each in made.table.timeline.commits}
    assert archived(made.path), "some of it is archived"
    done = made.table.upgrade(new, accept_loss=loses(kind, old, new))
    assert done.done
    assert done.old == old
    assert version_of(made.path) == new
    assert_same(records(made.snapshot()), records(before))
    assert set(told) <= set(known_commits(made.path)), "no commit is forgotten"
    if not loses(kind, old, new):
        compared = 0
        for instant in kept & set(states):
            with suppress(pudi.NotFoundError):  # the clean before would have refused it too
                assert_same(made.as_of(instant), states[instant])
                compared += 1
        assert compared, "a state of the past is compared"
    assert made.table.check().ok
    fresh = [trip(number, 99_000, "new") for number in range(50)]
    made.write("upsert", table(fresh))
    made.write("delete", table(fresh[40:]))
    after = {row["uuid"]: row["rider"] for row in made.snapshot() if row["rider"] == "new"}
    assert after == {each["uuid"]: "new" for each in fresh[:40]}
    assert made.table.check().ok
    assert made.table.maintain().ok


def test_nothing_is_left_of_the_old_timeline(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", options={"hoodie.write.table.version": "6"})
    made.insert(table([trip(1, 10)]))
    made.upgrade(9)
    left = {path.name for path in (tmp_path / "trips" / ".hoodie").iterdir() if path.is_file()}
    assert left == {"hoodie.properties", "moved"}
    made.upgrade(6)
    assert not list((tmp_path / "trips" / ".hoodie" / "timeline").rglob("*commit*"))
    assert not (tmp_path / "trips" / ".hoodie" / "moved").exists()
    assert made.scan().to_arrow().num_rows == 1


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", options={"hoodie.write.table.version": "6"})
    made.insert(table([trip(1, 10)]))
    before = {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    found = made.upgrade(9, dry_run=True)
    assert not found.done
    assert any("layout 2" in step for step in found.steps)
    assert any("hoodie.table.version: 6 -> 9" in step for step in found.steps)
    assert {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_same_version_has_nothing_to_do(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid")
    made.insert(table([trip(1, 10)]))
    assert made.upgrade(9) == made.upgrade(9, dry_run=True)
    assert not made.upgrade(9).done


def test_indexes_come_along_or_are_named(tmp_path: Path) -> None:
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", options=options)
    made.insert(table(trip(number, 10) for number in range(20)))
    made.create_index("column_stats", columns=["fare"])
    made.create_index("secondary_index", columns=["rider"], name="rider")
    made.upgrade(8)
    names = {"files", "record_index", "column_stats", "partition_stats", "secondary_index_rider"}
    assert set(made.config.metadata_partitions) == names
    assert made.check().ok
    with pytest.raises(pudi.InvalidArgumentError, match="secondary_index_rider"):
        made.upgrade(6)
    assert made.config.version == 8
    assert made.upgrade(6, accept_loss=True).losses == ("the index secondary_index_rider",)
    assert set(made.config.metadata_partitions) == {"files", "record_index", "column_stats"}
    assert made.check().ok
    assert made.scan(where="fare > 5").to_arrow().num_rows == sum(trip(n, 10)["fare"] > 5 for n in range(20))


def test_savepoints_of_log_files_are_not_given_up(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", ordering="ts", table_type="MERGE_ON_READ")
    made.insert(table([trip(1, 10)]))
    made.upsert(table([trip(1, 20)]))
    made.savepoint()
    with pytest.raises(pudi.InvalidArgumentError, match="delete them first"):
        made.upgrade(6, accept_loss=True)
    assert made.config.version == 9
    made.upgrade(8)
    assert made.scan().to_arrow()["ts"].to_pylist() == [20]
    made.restore(made.savepoints()[0].instant)
    assert made.scan().to_arrow()["ts"].to_pylist() == [20]


@pytest.mark.parametrize("option", ["regex", "selected"])
def test_partitions_that_cleans_leave_are_in_no_downgrade_s_way(tmp_path: Path, option: str) -> None:
    chosen = {f"hoodie.clean.partition.filter.{option}": "oslo", "hoodie.clean.incremental.enabled": "false"}
    pudi.create(tmp_path / "t", SCHEMA, **Layout(kind="mor").create_arguments())
    writer = pudi.Table(tmp_path / "t")
    for ts in range(1, 5):
        writer.upsert(table(trip(number, ts) for number in range(4)))
    before = writer.scan().to_arrow()
    pudi.Table(tmp_path / "t", options=chosen).upgrade(6, accept_loss=True)
    after = pudi.Table(tmp_path / "t")
    assert after.config.version == 6
    assert_same(records(from_arrow(after.scan().to_arrow())), records(from_arrow(before)))


def test_whoever_opened_the_table_before_opens_it_again(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", options={"hoodie.write.table.version": "6"})
    made.insert(table([trip(1, 10)]))
    other = pudi.Table(tmp_path / "trips")
    made.upgrade(9)
    with pytest.raises(pudi.ConflictError, match="open it again"):
        other.scan().to_arrow()
    with pytest.raises(pudi.ConflictError, match="open it again"):
        other.upsert(table([trip(2, 10)]))
    assert other.refresh().scan().to_arrow().num_rows == 1


def test_times_of_files_that_were_copied(tmp_path: Path) -> None:
    """Copies bear the time of the copy: by those, log files would belong to slices that came later."""
    made = pudi.create(
        tmp_path / "trips",
        SCHEMA,
        record_key="uuid",
        ordering="ts",
        table_type="MERGE_ON_READ",
        options={"hoodie.write.table.version": "6"},
    )
    states = {}
    for ts in (10, 20, 30, 40, 50, 60):
        done = made.upsert(table(trip(number, ts) for number in range(5)))
        assert done is not None
        states[done.instant] = ts
        if ts in (20, 40):
            made.compact()
    for place, path in enumerate(sorted((tmp_path / "trips" / ".hoodie").glob("*"), reverse=True)):
        os.utime(path, (2_000_000_000 + place,) * 2)
    made.upgrade(9)
    assert set(made.scan().to_arrow()["ts"].to_pylist()) == {60}
    for instant, ts in states.items():
        assert set(made.scan(as_of=instant).to_arrow()["ts"].to_pylist()) == {ts}


def test_a_merge_rule_that_no_older_version_knows(tmp_path: Path) -> None:
    made = pudi.create(
        tmp_path / "trips",
        SCHEMA,
        record_key="uuid",
        ordering="ts",
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )
    made.insert(table([trip(1, 10)]))
    with pytest.raises(pudi.NotSupportedError, match="partial"):
        made.upgrade(8)
    assert made.config.version == 9


@pytest.mark.parametrize("name", ["PartialUpdateAvroPayload", "AWSDmsAvroPayload", "DefaultHoodieRecordPayload"])
def test_payload_classes_go_up_and_come_back(tmp_path: Path, name: str) -> None:
    schema = pa.schema([*SCHEMA, ("Op", pa.string())])
    made = pudi.create(
        tmp_path / "trips",
        schema,
        record_key="uuid",
        ordering="ts",
        table_type="MERGE_ON_READ",
        options={
            "hoodie.write.table.version": "6",
            "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{name}",
        },
    )
    first = made.config.to_properties()

    def rows(ts: int, rider: str | None) -> pa.Table:
        return pa.Table.from_pylist([{**trip(1, ts), "rider": rider, "Op": "I"}], schema=schema)

    made.upsert(rows(10, "ann"))
    made.upgrade(9)
    assert made.config.legacy_payload_class == f"org.apache.hudi.common.model.{name}"
    made.upsert(rows(20, None))
    kept = "ann" if name.startswith("Partial") else None
    assert made.scan().to_arrow()["rider"].to_pylist() == [kept]
    made.upgrade(6, accept_loss=True)
    assert made.config.compaction_payload_class == first["hoodie.compaction.payload.class"]
    made.upsert(rows(30, None))
    assert made.scan().to_arrow()["rider"].to_pylist() == [kept]


def test_complex_keys_without_their_column(tmp_path: Path) -> None:
    made = pudi.create(
        tmp_path / "trips",
        SCHEMA,
        record_key="uuid",
        partition_by=["city", "leg"],
        options={"hoodie.write.table.version": "8"},
    )
    made.insert(table([trip(1, 10)]), options={"hoodie.write.complex.keygen.new.encoding": "true"})
    with pytest.raises(pudi.NotSupportedError, match="omit the name"):
        made.upgrade(9)


def test_the_other_way_is_refused_while_one_is_pending(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", options={"hoodie.write.table.version": "6"})
    made.insert(table([trip(1, 10)]))
    intent = {"from": 6, "to": 8, "metadataTable": False, "indexes": []}
    (tmp_path / "trips" / ".hoodie" / "upgrade.json").write_text(json.dumps(intent))
    with pytest.raises(pudi.InvalidArgumentError, match="complete it first"):
        made.upgrade(9)
    assert any("an upgrade from version 6 to 8" in each.text for each in made.doctor().advice)
    made.upgrade(8)
    assert made.config.version == 8


def test_a_write_upgrades_only_where_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, record_key="uuid", options={"hoodie.write.table.version": "6"})
    pudi.Table(path).insert(table([trip(1, 10)]))
    assert version_of(path) == 6
    pudi.Table(path, options={"hoodie.write.auto.upgrade": "false"}).insert(table([trip(2, 10)]))
    assert version_of(path) == 6
    with pytest.raises(pudi.InvalidArgumentError, match=r"Table\.upgrade"):
        pudi.Table(path, options={"hoodie.write.table.version": "8"})
    asked = {"hoodie.write.auto.upgrade": "true", "hoodie.write.table.version": "8"}
    opened = pudi.Table(path, options=asked)
    assert opened.scan().to_arrow().num_rows == 2
    assert version_of(path) == 6, "a read changes nothing"
    opened.upsert(table([trip(3, 10)]))
    assert version_of(path) == 8
    pudi.Table(path).upsert(table([trip(4, 10)]), options={"hoodie.write.auto.upgrade": "true"})
    assert version_of(path) == 9
    assert pudi.Table(path).scan().to_arrow().num_rows == 4


def test_a_damaged_note_of_an_upgrade(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid")
    made.insert(table([trip(1, 10)]))
    (tmp_path / "trips" / ".hoodie" / "upgrade.json").write_text('{"from": 6, "to": 99')
    with pytest.raises(pudi.CorruptError, match="which upgrade"):
        made.upgrade(8)
    assert made.scan().to_arrow().num_rows == 1


def test_the_command_shows_asks_and_does(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, record_key="uuid", options={"hoodie.write.table.version": "6"})
    pudi.Table(path).insert(table([trip(1, 10)]))
    shown = CliRunner().invoke(app, ["upgrade", str(path), "--to", "8", "--dry-run"])
    assert shown.exit_code == 0
    assert "layout 2" in shown.output
    refused = CliRunner().invoke(app, ["upgrade", str(path)], input="n\n")
    assert refused.exit_code == 1
    assert version_of(path) == 6
    done = CliRunner().invoke(app, ["upgrade", str(path), "--to", "9", "--yes", "--json"])
    assert json.loads(done.output)["done"] is True
    assert version_of(path) == 9
    again = CliRunner().invoke(app, ["upgrade", str(path)])
    assert again.output.strip() == "the table is of version 9 already"


@pytest.mark.parametrize(("old", "new"), [(9, 6), (6, 9)])
def test_a_damaged_archive_leaves_the_table_as_it_was(tmp_path: Path, old: int, new: int) -> None:
    """The upgrade is refused before indexes go, and writers go on."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(version=old, kind="cow"), SHORT)
    for ts in range(8):
        made.table.upsert(table(trip(number, ts) for number in range(3)))
    made.table.create_index("record_index")
    made.table.archive()
    hoodie = made.path / ".hoodie"
    if old == 9:
        damaged = max((hoodie / "timeline" / "history").glob("manifest_*"))
    else:
        damaged = next(each for each in hoodie.rglob(".commits_.archive*"))
    damaged.write_bytes(damaged.read_bytes()[:-3])
    before, indexes = made.snapshot(), pudi.Table(made.path).config.metadata_partitions
    files = {each for each in made.path.rglob("*") if each.is_file()}
    with pytest.raises(pudi.CorruptError):
        made.table.upgrade(new, accept_loss=True)
    assert {each for each in made.path.rglob("*") if each.is_file()} == files
    now = pudi.Table(made.path, options=SHORT)
    assert (now.config.version, now.config.metadata_partitions) == (old, indexes)
    assert made.snapshot() == before
    now.upsert(table([trip(0, 99)]), options={"hoodie.archive.automatic": "false"})
    assert len(made.snapshot()) == len(before)


def test_an_index_made_after_a_dead_upgrade_is_kept(tmp_path: Path) -> None:
    """What a dead upgrade noted is old by then."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(version=9, kind="cow"), SHORT)
    made.table.upsert(table(trip(number, 1) for number in range(3)))
    note = {"from": 9, "to": 6, "metadataTable": True, "indexes": []}
    (made.path / ".hoodie" / "upgrade.json").write_text(json.dumps(note))
    made.table.create_index("record_index")
    made.table.upgrade(6)
    now = pudi.Table(made.path)
    assert "record_index" in now.config.metadata_partitions
    assert now.check().ok


@pytest.mark.parametrize("partition", ["secondary_index_x/../../../../victim", "../../victim", "/etc", ""])
def test_the_note_of_an_upgrade_names_only_partitions(tmp_path: Path, partition: str) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(version=9, kind="cow"), SHORT)
    made.table.upsert(table([trip(0, 1)]))
    spec = {"columns": ["rider"], "method": "", "function": "identity", "options": {}, "version": 1}
    note = {"from": 8, "to": 9, "metadataTable": True, "indexes": [{"partition": partition, **spec}]}
    (made.path / ".hoodie" / "upgrade.json").write_text(json.dumps(note))
    victim = tmp_path / "victim" / "file"
    victim.parent.mkdir()
    victim.write_text("x")
    with pytest.raises((pudi.CorruptError, pudi.NotSupportedError)):
        made.table.upgrade(9)
    assert victim.read_text() == "x"
    assert len(made.snapshot()) == 1
