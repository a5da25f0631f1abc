"""`pudi doctor`: what it says of tables of known state, as a page and as JSON."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.format import Action
from pudi.metadata import MetadataWarning
from pudi.services.registry import planned_services
from support.golden import Golden
from support.trips import SCHEMA, table, trip

SMALL = "hoodie.parquet.small.file.limit"


def _table(path: Path) -> pudi.Table:
    made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.insert(table([trip(number, 10) for number in range(9)]))
    return made


def test_a_table_that_is_well(tmp_path: Path) -> None:
    found = _table(tmp_path / "t").doctor()
    assert found.ok
    assert (found.facts["version"], found.facts["record key"], found.facts["partitioned by"]) == ("9", "uuid", "city")
    files = found.files
    assert (files.partitions, files.file_groups, files.base_files, files.log_files, files.older_files) == (
        3,
        3,
        3,
        0,
        0,
    )
    assert [size.files for size in files.histogram] == [3, 0, 0, 0, 0, 0, 0]
    assert sum(size.bytes for size in files.histogram) == files.base_bytes > 0
    who = {each.who.split(",")[0]: (each.reads, each.writes) for each in found.access}
    assert who["Apache Hudi 1.0"] == (False, False)
    assert who["Apache Hudi 1.1"] == (True, True)
    assert who["hudi-rs 0.5"] == who["Trino 476"] == (True, False)


def test_a_table_of_hfiles(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options={"hoodie.table.base.file.format": "HFILE"})
    made.insert(table([trip(1, 10)]))
    who = {each.who.split(",")[0].split(" 0")[0]: (each.reads, each.writes) for each in made.doctor().access}
    assert (who["pudi"], who["Apache Hudi 1.1"], who["hudi-rs"]) == ((True, True), (False, False), (False, False))
    assert who["Trino 476"] == (False, False)


@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        ("cow", {}, {"0.15": (True, True), "1.0": (True, True)}),
        ("mor", {}, {"0.15": (True, True), "1.0": (True, True)}),
        ("cow", {"ordering": ["ts", "leg"]}, {"0.15": (True, False), "1.0": (True, False)}),
        ("mor", {"ordering": ["ts", "leg"]}, {"0.15": (False, False), "1.0": (False, False)}),
        ("mor", {"partition_by": ["city", "leg"]}, {"0.15": (True, False), "1.0": (True, False)}),
    ],
)
def test_what_earlier_releases_make_of_a_table_of_version_6(
    tmp_path: Path, kind: str, more: dict[str, Any], expected: dict[str, tuple[bool, bool]]
) -> None:
    """As tests/interop/test_other_releases.py finds them."""
    given = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", **more}
    made = pudi.create(tmp_path / "t", SCHEMA, table_type=kind, options={"hoodie.write.table.version": "6"}, **given)
    who = {each.who: (each.reads, each.writes) for each in made.doctor().access}
    assert {name: who[f"Apache Hudi {name}"] for name in expected} == expected


def test_a_table_without_the_older_name_of_its_ordering_field(tmp_path: Path) -> None:
    options = {"hoodie.write.table.version": "8"}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", ordering="ts", table_type="mor", options=options)
    file = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "precombine" not in line))
    found = {each.who: each for each in pudi.Table(made.path).doctor().access}["Apache Hudi 1.0"]
    assert (found.reads, found.writes) == (False, False)
    assert "the next write by pudi adds hoodie.table.precombine.field" in found.why


def test_what_pudi_refuses_is_said(golden_folder: Path) -> None:
    found = pudi.Table(Golden("v5_cow_basic").unpack(golden_folder)).doctor()
    who = {each.who.split(" ")[0]: each for each in found.access}
    assert (who["pudi"].reads, who["pudi"].writes) == (True, False)
    assert "pudi upgrade" in who["pudi"].why
    assert not who["hudi-rs"].reads
    assert any("pudi can't write this table" in each.text for each in found.advice)
    assert not found.ok


def test_small_files_and_old_ones(tmp_path: Path) -> None:
    made = _table(tmp_path / "t")
    for ts in range(20, 22):
        made.upsert(table([trip(number, ts) for number in range(9)]))
    found = made.doctor(options={SMALL: "1"})
    assert (found.files.small_files, found.files.older_files) == (0, 6)
    assert any("older slices" in each.text and "pudi clean" in each.text for each in found.advice)
    for number in range(20):
        made.bulk_insert(table([trip(100 + number, 10, city="nyc")]))
    found = made.doctor()
    assert found.files.most_small == ("nyc", 21)
    assert any("base files of partition 'nyc' are smaller than 100 MiB" in each.text for each in found.advice)


def test_a_dead_writer(tmp_path: Path) -> None:
    made = _table(tmp_path / "t")
    dead = made._meta.store.request(made._meta.commit_action)
    for file in (tmp_path / "t" / ".hoodie" / "timeline").glob(f"{dead.requested}*"):
        os.utime(file, (1, 1))
    found = made.doctor()
    assert [(each.instant, each.action, each.writer) for each in found.pending] == [(dead.requested, "commit", "dead")]
    assert any(dead.requested in each.text and "pudi repair" in each.text for each in found.advice)
    assert not found.ok


@pytest.mark.parametrize("action", [each for each in Action if each not in (Action.SAVEPOINT, Action.SCHEMACOMMIT)])
def test_every_pending_action_says_what_waits_for_it(tmp_path: Path, action: Action) -> None:
    made = _table(tmp_path / "t")
    made._meta.store.request(action)
    (pending,) = made.doctor().pending
    services = {each.action: each.blocks for each in planned_services()}
    assert pending.action == action.value
    assert pending.blocks == services.get(action, pending.blocks) != ""


def test_a_metadata_table_that_cannot_be_used(golden_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(Golden("mor_v9_rli").unpack(golden_folder), tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / ".hoodie" / "metadata" / ".hoodie")
    with pytest.warns(MetadataWarning, match="can't be read"):
        found = pudi.Table(tmp_path / "t").doctor()
    assert found.metadata is not None
    assert found.metadata.problem
    assert any("pudi repair" in each.text for each in found.advice)


def test_from_a_shell(tmp_path: Path) -> None:
    path = _table(tmp_path / "t").path
    said = CliRunner().invoke(app, ["doctor", path])
    assert said.exit_code == 0, said.output
    assert "who can read and write it" in said.output
    assert "0 to 1 MiB" in said.output
    found = json.loads(CliRunner().invoke(app, ["doctor", path, "--json"]).output)
    assert (found["ok"], found["facts"]["version"], found["files"]["base_files"]) == (True, "9", 3)
