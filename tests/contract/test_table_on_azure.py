"""A table in Azure Blob Storage, by each way to name it."""

from __future__ import annotations

import pytest

import pudi
from pudi.storage import open_storage
from support.azure import ACCOUNT, CONTAINER, AzureServer
from support.trips import SCHEMA, table, trip


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_verbs_and_reads(azure: AzureServer, table_type: str) -> None:
    made = pudi.create(
        azure.new_root(),
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        storage_options=azure.options(),
    )
    made.bulk_insert(table([trip(n, 10) for n in range(6)]))
    made.upsert(table([trip(0, 20), trip(9, 20)]))
    made.delete(table([trip(1, 0)]))
    named = f"az://{CONTAINER}/{made.path.partition('.net/')[2]}"
    opened = pudi.Table(named, storage_options={**azure.options(), "account_name": ACCOUNT})
    found = opened.scan().to_arrow()
    assert dict(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True)) == {
        "k0000": 20, "k0002": 10, "k0003": 10, "k0004": 10, "k0005": 10, "k0009": 20,
    }  # fmt: skip
    assert opened.check().ok


def test_a_container_that_is_not_there_is_named(azure: AzureServer) -> None:
    storage = open_storage(f"abfss://nowhere@{ACCOUNT}.dfs.core.windows.net/t", azure.options())
    with pytest.raises(pudi.NotFoundError, match="no such bucket or container"):
        storage.read("file")
    with pytest.raises(pudi.NotFoundError, match="no such bucket or container"):
        storage.delete(["file"])
