"""`table.check()` and `pudi check`: a table that is right, and each kind of damage by its name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.golden import Golden
from support.trips import SCHEMA, table, trip


@pytest.fixture
def indexed(golden_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(Golden("mor_v9_rli").unpack(golden_folder), tmp_path / "t")
    return tmp_path / "t"


def differences(path: Path) -> list[tuple[str, str, str]]:
    return [(each.index, each.path, each.what) for each in pudi.Table(str(path)).check().differences]


def test_a_table_that_is_right(indexed: Path) -> None:
    result = pudi.Table(str(indexed)).check()
    assert result.ok
    in_slices = 3 * (1 + 3)  # a base file and three log files in each group's newest slice
    assert result.compared == {"file groups": 3, "record keys": 33, "files by expr_index_idx_expr": in_slices}
    said = CliRunner().invoke(app, ["check", str(indexed)])
    found = f"no difference in 3 file groups, 33 record keys, {in_slices} files by expr_index_idx_expr\n"
    assert (said.exit_code, said.output) == (0, found)


ALL_INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_that_pudi_writes_is_right_after_every_verb(tmp_path: Path, kind: str, version: str) -> None:
    options = {**ALL_INDEXES, "hoodie.write.table.version": version}
    made = pudi.create(
        str(tmp_path / "t"),
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options=options,
    )
    opened = pudi.Table(made.path, options=ALL_INDEXES)
    for step, verb in enumerate(["bulk_insert", "upsert", "delete", "upsert"]):
        getattr(opened, verb)(table([trip(number, 10 * (step + 1)) for number in range(step, 12, 1 + step)]))
        found = opened.check()
        assert found.ok, f"after {verb}: {found}"
    assert {"files", "column_stats", "record_index"} <= set(opened.refresh().config.metadata_partitions)
    for key, rows in (("k0004", 1), ("nobody", 0)):
        assert opened.scan(where=f"uuid = '{key}'").to_arrow().num_rows == rows


def on(path: Path, **fault: object) -> tuple[FaultStorage, pudi.Table]:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    return storage, pudi.Table.of(MetaClient.open(str(path), None, {}, Context(), storage), ALL_INDEXES)


def written(path: Path, version: str, kind: str) -> pudi.Table:
    options = {**ALL_INDEXES, "hoodie.write.table.version": version}
    made = pudi.create(str(path), SCHEMA, record_key="uuid", partition_by="city", table_type=kind, options=options)
    made.upsert(table([trip(number, 10) for number in range(6)]))
    made.upsert(table([trip(number, 11) for number in range(3)]))
    return made


def write_more(path: Path) -> None:
    """New keys, and another version of known ones."""
    pudi.Table(str(path), options=ALL_INDEXES).upsert(table([trip(number, 12) for number in range(2, 9)]))


@pytest.mark.parametrize(("version", "kind"), [("9", "mor"), ("9", "cow"), ("6", "mor")])
def test_what_another_writer_commits_meanwhile_is_no_difference(tmp_path: Path, version: str, kind: str) -> None:
    written(tmp_path / "t", version, kind)
    counted, opened = on(tmp_path / "t")
    before = counted.calls
    assert opened.check().ok
    for number in range(before + 1, min(counted.calls, before + 16) + 1):
        path = shutil.copytree(tmp_path / "t", tmp_path / str(number) / "t")
        _, opened = on(path, fail_at=number, mode="delay", on_delay=lambda path=path: write_more(path))
        found = opened.check()
        assert found.ok, f"a commit at call {number}, {counted.log[number - 1]}: {found}"
        assert len(pudi.Table(path).timeline.commits) == 3


@pytest.mark.parametrize("version", ["9", "6"])
def test_log_files_of_a_write_that_has_not_completed_are_no_difference(tmp_path: Path, version: str) -> None:
    written(tmp_path / "t", version, "mor")
    counted, opened = on(shutil.copytree(tmp_path / "t", tmp_path / "counted" / "t"))
    opened.upsert(table([trip(0, 13)]))
    data = [n for n, (_, path) in enumerate(counted.log, 1) if ".log." in path and not path.startswith(".hoodie")]
    _, opened = on(tmp_path / "t", fail_at=data[-1] + 1, mode="crash")
    with pytest.raises(SimulatedCrash):
        opened.upsert(table([trip(0, 13)]))
    assert len(list((tmp_path / "t").glob("*/.*.log.*"))) > 3
    found = pudi.Table(str(tmp_path / "t")).check()
    assert found.ok, found


def test_a_table_without_a_metadata_table_is_looked_at_for_keys(golden_folder: Path) -> None:
    path = Golden("cow_v9_duplicates").unpack(golden_folder)
    assert differences(path) == [
        ("record keys", city, f"{len(keys)} record keys ({', '.join(map(repr, keys))}) are stored more than once")
        for city, keys in {
            "chennai": ["k0002", "k0005", "k0008"],
            "nyc": ["k0000", "k0006", "k0009"],
            "sao_paulo": ["k0001", "k0007"],
        }.items()
    ]


def _base(path: Path) -> Path:
    return max((path / "nyc").glob("*.parquet"), key=lambda file: file.name.split("_")[-1])


def _rewrite(file: Path, change: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> None:
    """Other rows in a base file."""
    found = pq.read_table(file)
    rows = change(found.to_pylist())
    pq.write_table(type(found).from_pylist(rows, found.schema), file, compression="zstd")


def test_values_and_keys_that_are_others_than_the_indexes_say(indexed: Path) -> None:
    file = _base(indexed)

    def change(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        rows[0] = {**rows[0], "uuid": "strange", "_hoodie_record_key": "strange", "rider": "zzz"}
        return rows

    _rewrite(file, change)
    found = differences(indexed)
    name = f"nyc/{file.name}"
    kinds = {(index, path) for index, path, _ in found}
    assert ("files", name) in kinds  # another size
    assert ("column_stats", name) in kinds
    assert ("bloom_filters", name) in kinds
    assert ("record_index", f"nyc/{file.name.split('_')[0]}") in kinds
    assert any(
        index == "record_index" and "'strange'" in what and "missing from the index" in what for index, _, what in found
    )
    assert any(index == "secondary_index_idx_rider" and "strange='zzz'" in what for index, _, what in found)
    said = CliRunner().invoke(app, ["check", str(indexed)])
    assert said.exit_code == 2
    assert f"column_stats: {name}: column 'uuid': values from" in said.output


def test_a_file_that_is_gone_and_one_that_is_not_listed(indexed: Path) -> None:
    opened = pudi.Table(str(indexed))
    old = min((indexed / "nyc").glob("*.parquet"), key=lambda file: file.name.split("_")[-1])
    old.unlink()  # of an older slice, which no reader of the newest state misses
    assert differences(indexed) == [("files", f"nyc/{old.name}", "the file is listed, but missing")]
    assert opened.scan().to_arrow().num_rows == 33


def test_a_metadata_table_that_cannot_be_read(indexed: Path) -> None:
    shutil.rmtree(indexed / ".hoodie" / "metadata" / "column_stats")
    assert [(index, what[:14]) for index, _, what in differences(indexed)] == [("column_stats", "can't be read:")]
    shutil.rmtree(indexed / ".hoodie" / "metadata")
    assert [(index, what[:14]) for index, _, what in differences(indexed)] == [("metadata table", "can't be read:")]


@pytest.mark.parametrize("name", ["cow_v9_duplicates", "mor_v9_rli", "mor_v9_partitioned_rli", "cow_v9_nonpart"])
def test_parts_of_any_size_find_the_same(golden_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = Golden(name).unpack(golden_folder)
    expected = pudi.Table(str(path)).check()
    monkeypatch.setattr("pudi.indexes.checking._PART_BYTES", 1 << 10)
    monkeypatch.setattr("pudi.indexes.checking._STAGE_BYTES", 1)
    monkeypatch.setattr("pudi.indexes.checking._MOST_FILES", 1)
    assert pudi.Table(str(path)).check() == expected
