"""Statistics that Hudi stored of its golden tables, against those that pudi makes of the same files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pudi
from pudi.context import FileInfo
from pudi.filegroup import BaseFile, LogFile
from pudi.metadata import (
    MetadataTable,
    StatsSpec,
    column_stats_records,
    partition_stats,
    partition_stats_records,
    stats_of_files,
    stats_of_records,
    stats_spec,
)
from pudi.metadata.changes import encode_changes
from pudi.schema import with_meta_fields
from pudi.task.file_stats import stats_of_file
from support.golden import Golden, tables
from support.metadata import column_stats_key, there

OLD_NAMES = {"cow_v9_schema_on_read": {"rider"}}
"""Columns that were renamed: what Hudi stored of older files stays under the name that they had then."""

MORE_FILES = {
    "cow_v9_clustered": "Hudi counts files of replaced file groups too",
    "cow_v9_schema_on_read": "a column's type was changed, and the partitions weren't written to since",
    "mor_v6_savepoint_restore": "Hudi leaves what a restore took away",
}
"""Tables where Hudi's partitions have other files, or types, than the newest slices, and why."""


def _has(table: Golden, partition: str) -> bool:
    with zipfile.ZipFile(table.archive) as archive:
        return any(f"/.hoodie/metadata/{partition}/" in name for name in archive.namelist())


INDEXED = [table for table in tables("") if _has(table, "column_stats")]
WITH_PARTITIONS = [table for table in INDEXED if _has(table, "partition_stats")]


def test_the_corpus_has_enough() -> None:
    assert len(INDEXED) == 64
    assert len(WITH_PARTITIONS) > 40


@pytest.mark.parametrize("table", INDEXED, ids=lambda table: table.name)
def test_of_every_file_and_column(golden_folder: Path, table: Golden) -> None:
    opened = pudi.Table(str(table.unpack(golden_folder)))
    spec = _spec(opened)
    stored = _stored(opened, "column_stats")
    made = column_stats_records(_of_all_files(opened, spec), spec.version)
    assert _plain(made) == _plain(stored.filter(pc.is_in(stored["key"], value_set=made["key"].combine_chunks())))
    assert encode_changes(made).values.equals(encode_changes(_in_order(stored, made)).values)
    files = {name for names in there(Path(opened.path)).values() for name in names}
    rest = stats_of_records(stored.filter(pc.invert(pc.is_in(stored["key"], value_set=made["key"].combine_chunks()))))
    left = {row["column"] for row in rest.to_pylist() if row["file"] in files and not row["deleted"]}
    assert left == OLD_NAMES.get(table.name, set())


@pytest.mark.parametrize("table", INDEXED, ids=lambda table: table.name)
def test_the_index_has_the_columns_that_a_new_one_gets(golden_folder: Path, table: Golden) -> None:
    opened = pudi.Table(str(table.unpack(golden_folder)))
    spec = _spec(opened)
    ours = stats_spec(opened.schema, spec.version, populated=opened.config.populate_meta_fields)
    more = {"dec", "bin"} if table.name == "mor_v6_types_avrolog" else set()  # its merger's records are Avro's
    assert [name for name in spec.columns if name not in more] == list(ours.columns)
    upgraded = table.name == "mor_v6_savepoint_restore"  # an index keeps the version that it was made with
    assert spec.version == (2 if opened.config.version >= 9 and not upgraded else 1)
    named = stats_spec(opened.schema, spec.version, populated=opened.config.populate_meta_fields, named=spec.columns)
    assert named == spec


@pytest.mark.parametrize("table", WITH_PARTITIONS, ids=lambda table: table.name)
def test_of_partitions(golden_folder: Path, table: Golden) -> None:
    """Taken together, the files' statistics are the partitions', where Hudi counts just those files."""
    opened = pudi.Table(str(table.unpack(golden_folder)))
    spec = _spec(opened)
    schema = with_meta_fields(opened.schema)
    newest = {
        f"{each.partition}/{file.name.name}"
        for each in opened.file_slices()
        for file in (*([each.base] if each.base else []), *each.logs)
    }
    stats = _of_all_files(opened, spec)
    paths = pc.binary_join_element_wise(stats["partition"], stats["file"], "/")
    stats = stats.filter(pc.is_in(paths, value_set=pa.array(sorted(newest), pa.string())))
    made = {
        row["key"]: row for row in partition_stats_records(partition_stats(stats, schema), spec.version).to_pylist()
    }
    stored = {row["key"]: row for row in _stored(opened, "partition_stats").to_pylist()}
    for key, row in made.items():
        ours, theirs = row["ColumnStatsMetadata"], stored[key]["ColumnStatsMetadata"]
        if theirs["isDeleted"] or ours["isDeleted"]:
            continue
        assert ours["columnName"] == theirs["columnName"]
        assert ours["fileName"] == theirs["fileName"]
        assert ours["isTightBound"] == theirs["isTightBound"]
        if table.name in MORE_FILES:
            assert ours["valueCount"] <= theirs["valueCount"]
            continue
        for member in ("valueType", "valueCount", "nullCount", "minValue", "maxValue"):
            assert ours[member] == theirs[member], (row["key"], ours["columnName"], member)


def _spec(table: pudi.Table) -> StatsSpec:
    path = Path(table.path) / ".hoodie" / ".index_defs" / "index.json"
    definition = json.loads(path.read_text("utf-8"))["indexDefinitions"]["column_stats"]
    return StatsSpec(tuple(definition["sourceFields"]), int(definition["version"][1:]))


def _stored(table: pudi.Table, partition: str) -> pa.Table:
    meta = table._meta
    opened = MetadataTable.open(meta.storage, meta.config, meta.store, meta.store.load())
    return opened.read(partition)


def _of_all_files(table: pudi.Table, spec: StatsSpec) -> pa.Table:
    """Statistics of the files that the folders hold and the metadata table tells of."""
    told = set(_stored(table, "column_stats")["key"].to_pylist())
    column = spec.columns[0]
    found = []
    for partition, files in there(Path(table.path)).items():
        for name, size in files.items():
            if column_stats_key(column, partition, name) not in told:
                continue
            info = FileInfo(f"{partition}/{name}" if partition else name, size, 0)
            file = LogFile.of(partition, info) or BaseFile.of(partition, info)
            assert file is not None
            stats = stats_of_file(table._meta.storage, file, spec)
            assert stats is not None
            found.append((partition, name, stats))
    return stats_of_files(found)


def _plain(records: pa.Table) -> dict[str, object]:
    return {row["key"]: (row["type"], row["ColumnStatsMetadata"]) for row in records.to_pylist()}


def _in_order(stored: pa.Table, made: pa.Table) -> pa.Table:
    """The stored records in the order of others, with all columns."""
    places = pc.index_in(made["key"], value_set=stored["key"].combine_chunks())
    rows = stored.take(places)
    return pa.Table.from_arrays(
        [rows[f.name] if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in made.schema],
        schema=made.schema,
    )
