"""A table in an S3 store, over HTTP, and what its verbs cost in requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import pudi
from support.s3 import S3Server
from support.trips import SCHEMA, table, trip


def make(server: S3Server, files: int) -> pudi.Table:
    """A table with `files` file groups in partition nyc (trips 0, 3, 6, …), one trip in each, and one in chennai."""
    made = pudi.create(
        server.new_root(),
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        storage_options=server.options(),
    )
    for number in range(files):
        made.bulk_insert(table([trip(3 * number, 10)]))
    made.bulk_insert(table([trip(2, 10)]))
    return made


def rows(read: pudi.Scan) -> list[tuple[Any, ...]]:
    found = read.to_arrow()
    return sorted(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True))


def test_every_verb_and_read(s3_server: S3Server) -> None:
    made = make(s3_server, 2)
    first = made.upsert(table([trip(0, 20), trip(3, 5), trip(9, 20)]))
    assert first is not None
    assert (first.records_inserted, first.records_updated) == (1, 1)
    assert made.insert(table([trip(4, 20)])) is not None
    assert made.delete(table([trip(2, 0)])) is not None
    opened = pudi.Table(made.path, storage_options=s3_server.options())
    assert rows(opened.scan()) == [("k0000", 20), ("k0003", 10), ("k0004", 20), ("k0009", 20)]
    assert rows(opened.scan(as_of=first.instant)) == [("k0000", 20), ("k0002", 10), ("k0003", 10), ("k0009", 20)]
    assert rows(opened.changes(since=first.completion_time)) == [("k0004", 20)]
    assert rows(opened.scan(where="city = 'nyc' and ts > 10")) == [("k0000", 20), ("k0009", 20)]


def test_a_second_table_at_the_same_place_is_refused(s3_server: S3Server) -> None:
    made = make(s3_server, 1)
    with pytest.raises(pudi.TableExistsError):
        pudi.create(made.path, SCHEMA, record_key="uuid", storage_options=s3_server.options())


def upsert_requests(server: S3Server, looked_into: int, rewritten: int) -> tuple[Counter[str], list[tuple[str, str]]]:
    made = make(server, looked_into)
    keys = [trip(3 * number, 20) for number in range(rewritten)]
    made = pudi.Table(made.path, storage_options=server.options())
    del server.requests[:]
    result = made.upsert(table(keys))
    assert result is not None
    assert result.files_written == rewritten
    return Counter(method for method, _ in server.requests), list(server.requests)


def test_an_upsert_keeps_to_its_request_budget(s3_server: S3Server) -> None:
    totals = {
        (looked_into, rewritten): sum(upsert_requests(s3_server, looked_into, rewritten)[0].values())
        for looked_into, rewritten in [(1, 1), (6, 1), (6, 6)]
    }
    constant = totals[1, 1] - 6
    assert constant <= 22, "opening the lock, the timeline, the listing and the commit itself"
    assert totals[6, 1] <= constant + 2 * 6 + 4
    assert totals[6, 6] <= constant + 2 * 6 + 4 * 6


def test_an_upsert_lists_only_the_partitions_it_touches(s3_server: S3Server) -> None:
    _, requests = upsert_requests(s3_server, 2, 1)
    assert not [path for _, path in requests if "chennai" in path]
