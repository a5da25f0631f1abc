"""`Table.describe` and `pudi show`: what a table is, on one screen, for few storage calls."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.metadata import MetadataWarning
from pudi.storage import CountingStorage
from support.golden import Golden
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

HUDI = ["cow_v6_basic", "mor_v6_services", "mor_v8_basic", "cow_v9_nometa", "cow_v9_schema_on_read", "mor_v9_services"]
MOST_CALLS = 30

pytestmark = pytest.mark.metadata_by_default


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(each) for each in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("layout", [Layout(version=v, kind=k) for v in (6, 8, 9) for k in ("cow", "mor")], ids=str)
def test_what_a_table_is(tmp_path: Path, layout: Layout) -> None:
    pudi.create(tmp_path / "t", SCHEMA, **layout.create_arguments())
    trips = pudi.Table(tmp_path / "t")
    trips.upsert(table([trip(number, 1) for number in range(30)]))
    last = trips.upsert(table([trip(number, 2, "bob") for number in range(4)]))
    assert last
    found = trips.describe()
    kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[layout.kind]
    assert (found.name, found.version, found.table_type) == ("t", layout.version, kind)
    assert (found.record_key, found.partition_fields, found.ordering_fields) == (("uuid",), ("city",), ("ts",))
    assert [each.name for each in found.columns] == SCHEMA.names
    assert found.columns[1].type == "int32"
    assert found.size
    assert (found.size.partitions, found.size.file_groups, found.size.records) == (3, 3, 30)
    assert found.size.log_files == (3 if layout.kind == "mor" else 0)
    sizes = [each.stat().st_size for each in (tmp_path / "t").glob("*/[!.]*.parquet")]
    assert found.size.base_bytes == sum(sizes) if layout.kind == "mor" else found.size.base_bytes < sum(sizes)
    assert found.commits == 2
    assert [each.records_updated for each in found.last_commits] == [4, 0]
    assert found.last_commits[0].instant == last.instant
    assert (found.pending, found.savepoints, found.problems) == ((), (), ())
    maintained = trips.maintain(dry_run=True)
    assert [step.name for step in found.services] == [step.name for step in maintained.steps]
    said = run("show", tmp_path / "t")
    assert said.count("\n") <= 24
    for told in (kind, "uuid (SIMPLE)", "30 records", "3 file groups in 3 partitions", last.instant, "not due: "):
        assert told in said
    assert all(len(line.rstrip()) <= 100 for line in said.splitlines() if "table" not in line)


@pytest.mark.parametrize("name", HUDI)
def test_tables_of_hudi(golden_folder: Path, name: str) -> None:
    path = Golden(name).unpack(golden_folder)
    found = json.loads(run("show", path, "--json"))
    now = json.loads(json.dumps(pudi.Table(path).describe().to_dict()))
    assert found | {"pending": [], "services": []} == now | {"pending": [], "services": []}
    assert found["problems"] == []
    assert found["version"] == int(name[5])
    newest = [each.instant for each in pudi.Table(path).history() if each.operation][:5]
    assert [each["instant"] for each in found["last_commits"]] == newest
    if found["size"]["log_files"] == 0:
        assert found["size"]["records"] == pudi.Table(path).scan([]).to_arrow().num_rows
    assert run("show", path)


def test_what_waits(tmp_path: Path) -> None:
    pudi.create(tmp_path / "t", SCHEMA, **Layout(kind="mor").create_arguments())
    plain = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    trips = pudi.Table(tmp_path / "t", options=plain)
    for ts in range(1, 7):
        trips.upsert(table([trip(0, ts)]))
    plan = trips.schedule("compaction")
    saved = trips.savepoint(comment="before \x1b[2J")
    trips.create_index("record_index")
    found = trips.describe()
    assert [(each.instant, each.action) for each in found.pending] == [(plan, "compaction")]
    assert found.savepoints == (saved.instant,)
    assert "record_index" in [each.name for each in found.indexes]
    due = [step for step in found.services if step.outcome.value == "due"]
    assert next((step.name, step.instant) for step in due if step.on == "table") == ("compaction", plan)
    said = run("show", tmp_path / "t")
    for told in (str(plan), "its plan was pending", saved.instant, "record_index"):
        assert told in said
    assert "commits wait for it" in run("show", tmp_path / "t", "-o", "hoodie.clean.commits.retained=2")


def test_an_empty_table(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options={"hoodie.metadata.enable": "false"})
    found = made.describe()
    assert found.size
    assert (found.size.file_groups, found.size.records, found.commits, found.last_commits) == (0, 0, 0, ())
    assert (found.indexes, found.metadata_table, found.problems) == ((), (), ())
    assert "0 records; 0 file groups" in run("show", tmp_path / "t")


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    made.insert(table([trip(1, 1)]))
    for file in (tmp_path / "t" / ".hoodie" / "metadata").rglob("*.hfile"):
        file.write_bytes(b"\x00" * file.stat().st_size)
    with pytest.warns(MetadataWarning):
        found = json.loads(run("show", tmp_path / "t", "--json"))
    assert found["size"]["records"] == 1
    (commit,) = (tmp_path / "t" / ".hoodie" / "timeline").glob("*.commit")
    commit.write_bytes(b"{\x1b")
    with pytest.warns(MetadataWarning):
        found = json.loads(run("show", tmp_path / "t", "--json"))
    assert found["last_commits"][0]["problem"]
    assert "its columns: " in found["problems"][0]
    with pytest.warns(MetadataWarning):
        assert "\x1b" not in run("show", tmp_path / "t")
    assert "TableNotFoundError" in run("show", tmp_path / "none", code=1)


def test_names_control_nothing(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = [
        "hoodie.table.name=x\\u001b[2J[red]y[/]" if line.startswith("hoodie.table.name=") else line
        for line in properties.read_text().splitlines()
        if not line.startswith("hoodie.table.checksum")
    ]
    properties.write_text("\n".join(lines) + "\n")
    assert made.refresh().describe().name == "x\x1b[2J[red]y[/]"
    for command in ("show", "doctor"):
        said = run(command, tmp_path / "t")
        assert "x\\x1b[2J[red]y[/]" in said
        assert "\x1b" not in said


@pytest.mark.parametrize("partitions", [10, 1000])
def test_calls_do_not_grow_with_the_partitions(tmp_path: Path, partitions: int) -> None:
    schema = pa.schema({"id": pa.int64(), "part": pa.int64()})
    made = pudi.create(tmp_path / "t", schema, record_key="id", partition_by="part")
    made.insert(pa.table([range(partitions), range(partitions)], schema=schema))
    opened = MetaClient.open(made.path, None, {})
    storage = CountingStorage(opened.storage)
    table = pudi.Table.of(MetaClient.of(storage, opened.properties, {}, opened.context), {})
    found = table.describe()
    assert found.size
    assert (found.size.partitions, found.size.records) == (partitions, partitions)
    assert sum(storage.calls.values()) <= MOST_CALLS
