"""What is registered is what Hudi's HiveSyncTool registered for the same table, property by property."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest

from pudi.catalogs.registered import HudiTable, Registration, registered_tables, sync_properties
from pudi.config import TableConfig, resolve
from pudi.config.sync_options import SyncOptions
from pudi.config.table_options import OtherTableOptions
from support.catalog_entries import ENTRIES, entry

CASES = [json.loads(line) for line in ENTRIES.read_text("utf-8").splitlines()]


def registration(case: dict[str, Any]) -> Registration:
    """The entries that pudi makes for a case."""
    options = resolve(case["options"])
    config = TableConfig.parse(case["properties"], table=case["root"])
    first = next(iter(case["tables"].values()))["properties"]
    table = HudiTable(
        config,
        case["schema"],
        case["root"],
        first.get("last_commit_time_sync"),
        first.get("last_commit_completion_time_sync"),
        first.get("spark.sql.create.version", ""),
    )
    extractor = options.explicit(OtherTableOptions.partition_extractor)
    found = registered_tables(table, SyncOptions.of(options), extractor=None if extractor is None else str(extractor))
    tables = tuple(each.with_properties(sync_properties(table)) for each in found.tables)
    return Registration(tables, found.reader, found.location)


def without_comments(found: dict[str, Any]) -> dict[str, Any]:
    """A table without comments of partition columns, which Hudi doesn't register."""
    return {**found, "partition_columns": [[*column[:2], ""] for column in found["partition_columns"]]}


def test_the_dumps_are_there() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize("case", CASES, ids=[case["label"] for case in CASES])
def test_entries_are_hudis_to_the_property(case: dict[str, Any]) -> None:
    found = registration(case)
    if case["label"].endswith("_none"):  # Hudi's tool takes a table for unpartitioned if nobody tells it the columns
        assert found.is_partitioned
        return
    decode = unquote if case["options"].get("hoodie.meta.sync.decode_partition") == "true" else str  # Hudi doesn't
    expected = {
        name: {key: value for key, value in table.items() if key != "partitions"}
        for name, table in case["tables"].items()
    }
    assert {each.name.table: without_comments(entry(each)) for each in found.tables} == expected
    for name, table in case["tables"].items():
        parts = found.partitions(case["paths"]) if found.is_partitioned else []
        expected_parts = sorted((tuple(map(decode, part["values"])), part["location"]) for part in table["partitions"])
        assert sorted((each.values, each.location) for each in parts) == expected_parts, name
