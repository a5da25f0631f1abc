"""A table in an S3 store, over HTTP, and what its verbs cost in requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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


def test_a_bucket_that_isnt_there_is_told_as_such(s3_server: S3Server) -> None:
    """The message doesn't advise to make a table there."""
    with pytest.raises(pudi.TableNotFoundError, match="no such bucket") as caught:
        pudi.Table("s3://no-such-bucket/x", storage_options=s3_server.options())
    assert "pudi.create" not in caught.value.message
    with pytest.raises(pudi.NotFoundError, match="no such bucket"):
        pudi.create("s3://no-such-bucket/x", SCHEMA, record_key="uuid", storage_options=s3_server.options())


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
    totals = {}
    for looked_into, rewritten in [(1, 1), (6, 1), (6, 6)]:
        _, requests = upsert_requests(s3_server, looked_into, rewritten)
        # the lock's are apart: how often it is held on to depends on how long things take
        totals[looked_into, rewritten] = sum("/.locks/" not in path for _, path in requests)
        assert len(requests) - totals[looked_into, rewritten] <= 6 + 4
    constant = totals[1, 1] - 6
    assert constant <= 18, "the timeline, again after the listing, comparing the clocks, and the commit itself"
    assert totals[6, 1] <= constant + 2 * 6 + 4
    assert totals[6, 6] <= constant + 2 * 6 + 4 * 6


def test_an_upsert_lists_only_the_partitions_it_touches(s3_server: S3Server) -> None:
    _, requests = upsert_requests(s3_server, 2, 1)
    assert not [path for _, path in requests if "chennai" in path]


def test_overwrites_changes_and_merges(s3_server: S3Server) -> None:
    made = make(s3_server, 2)
    assert made.insert_overwrite(table([trip(0, 20), trip(9, 20)])) is not None
    assert rows(made.scan()) == [("k0000", 20), ("k0002", 10), ("k0009", 20)]
    assert made.update({"ts": "ts + 5"}, where="city = 'nyc'") is not None
    assert made.delete(where="uuid = 'k0009'") is not None
    source = table([trip(0, 99), trip(2, 99), trip(4, 99)])
    merged = made.merge(source).when_matched_delete("target.city = 'chennai'").when_matched_update()
    assert merged.when_not_matched_insert().execute() is not None
    assert rows(made.scan()) == [("k0000", 99), ("k0004", 99)]
    assert made.delete_partitions(["nyc"]) is not None
    assert made.insert_overwrite_table(table([trip(7, 1)])) is not None
    assert rows(pudi.Table(made.path, storage_options=s3_server.options()).scan()) == [("k0007", 1)]


def requests_of(server: S3Server, files: int, verb: Callable[[pudi.Table], Any], **options: str) -> int:
    """Requests of a verb on a table of so many file groups in partition nyc; not the lock's, which depend on time."""
    made = pudi.Table(make(server, files).path, options=options, storage_options=server.options())
    del server.requests[:]
    assert verb(made) is not None
    return sum("/.locks/" not in path for _, path in server.requests)


BUDGETS: dict[str, tuple[Callable[[pudi.Table], Any], int]] = {
    "insert_overwrite": (lambda on: on.insert_overwrite(table([trip(0, 20)])), 0),
    "insert_overwrite_table": (lambda on: on.insert_overwrite_table(table([trip(0, 20)])), 0),
    "delete_partitions": (lambda on: on.delete_partitions(["nyc"]), 0),
    "delete of one key": (lambda on: on.delete(table([trip(0, 20)])), 2),
    "update where": (lambda on: on.update({"ts": "ts + 1"}, where="uuid = 'k0000'"), 2),
    "delete where": (lambda on: on.delete(where="uuid = 'k0000'"), 2),
    "merge": (lambda on: on.merge(table([trip(0, 20)])).when_matched_update().execute(), 4),
}
"""Verbs that write one file, or none, with the requests that each file group more may cost them."""


@pytest.mark.parametrize("verb", list(BUDGETS))
def test_each_verb_keeps_to_its_request_budget(s3_server: S3Server, verb: str) -> None:
    run, each = BUDGETS[verb]
    few, many = requests_of(s3_server, 2, run), requests_of(s3_server, 7, run)
    assert few <= 40
    assert many - few <= 5 * each + 4, "4 for the lock, which may have to be asked for again"


def test_a_bloom_upsert_asks_footers_only(s3_server: S3Server) -> None:
    """A file without the key costs its footer; the filter is in it."""
    bloom = {"hoodie.index.type": "BLOOM"}
    few = requests_of(s3_server, 2, lambda on: on.upsert(table([trip(0, 20)])), **bloom)
    many = requests_of(s3_server, 7, lambda on: on.upsert(table([trip(0, 20)])), **bloom)
    assert many - few <= 5 * 2


def make_mor(server: S3Server, groups: int) -> pudi.Table:
    """A merge-on-read table with so many file groups in partition nyc, one trip and no log file in each."""
    layout = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", "table_type": "mor"}
    root, options = server.new_root(), {"hoodie.parquet.small.file.limit": "0"}
    pudi.create(root, SCHEMA, **layout, storage_options=server.options())
    made = pudi.Table(root, options=options, storage_options=server.options())
    for number in range(groups):
        made.bulk_insert(table([trip(3 * number, 10)]))
    return made


def test_every_read_and_write_of_a_merge_on_read_table(s3_server: S3Server) -> None:
    made = make_mor(s3_server, 2)
    first = made.upsert(table([trip(0, 20), trip(3, 5), trip(9, 20)]))
    assert first is not None
    assert made.delete(table([trip(9, 0)])) is not None
    assert sum(len(s.logs) for s in made.file_slices()) == 3
    assert rows(made.scan()) == [("k0000", 20), ("k0003", 10)]
    assert rows(made.scan(read_optimized=True)) == [("k0000", 10), ("k0003", 10), ("k0009", 20)]
    assert rows(made.scan(as_of=first.instant)) == [("k0000", 20), ("k0003", 10), ("k0009", 20)]
    assert made.update({"ts": "ts + 1"}, where="uuid = 'k0003'") is not None
    before = rows(made.scan())
    assert made.compact(options={"pudi.compaction.verify": "true"}) is not None
    assert rows(made.scan()) == rows(made.scan(read_optimized=True)) == before == [("k0000", 20), ("k0003", 11)]


def test_logs_that_do_not_fit_in_memory_are_read_from_s3_in_pieces(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_mor(s3_server, 1)
    made.upsert(table([trip(0, 20)]))
    made.upsert(table([trip(0, 30)]))
    before = rows(made.scan())
    monkeypatch.setattr("pudi.config.read_options.MergeMemory.share", 16)
    assert rows(made.scan()) == before == [("k0000", 30)]
    assert made.compact() is not None
    assert rows(made.scan(read_optimized=True)) == before


def test_a_small_upsert_into_log_files_keeps_to_its_request_budget(s3_server: S3Server) -> None:
    """Each file group that's looked into costs its footer and keys; each that's written a marker and a log file."""

    def requests(groups: int, written: int) -> int:
        made = make_mor(s3_server, groups)
        del s3_server.requests[:]
        done = made.upsert(table([trip(3 * number, 20) for number in range(written)]))
        assert done is not None
        assert done.files_written == written
        return len(s3_server.requests)

    least = requests(1, 1)
    # One looks at the timeline after the listing, one asks whether the table has consistent hashing, one compares
    # clocks, and two ask for the lock.
    assert least <= 33
    assert requests(6, 1) <= least + 2 * 5
    assert requests(6, 6) <= least + 5 * 5


def test_a_snapshot_of_log_files_keeps_to_its_request_budget(s3_server: S3Server) -> None:
    """A base file and a log file cost a request each, small as they are."""
    made = make_mor(s3_server, 4)
    made.upsert(table([trip(3 * number, 20) for number in range(4)]))
    opened = pudi.Table(made.path, storage_options=s3_server.options())
    del s3_server.requests[:]
    assert len(rows(opened.scan())) == 4
    assert len(s3_server.requests) <= 12 + 2 * 4


METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "6",
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "2",
    "hoodie.keep.min.commits": "1",
    "hoodie.keep.max.commits": "2",
}


def test_a_metadata_table_with_all_its_services(s3_server: S3Server) -> None:
    root = s3_server.new_root()
    pudi.create(
        root, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", storage_options=s3_server.options()
    )
    made = pudi.Table(root, options=METADATA, storage_options=s3_server.options())
    for number in range(8):
        made.upsert(table([trip(number, number), trip(0, number)]))
    names = [path for method, path in s3_server.requests if method == "PUT" and "/.hoodie/metadata/" in path]
    assert any(path.endswith(".commit") for path in names), "compacted"
    assert any(".logcompaction." in path for path in names)
    assert any("/history/manifest_" in path for path in names), "archived"
    opened = pudi.Table(root, storage_options=s3_server.options())
    assert rows(opened.scan()) == [("k0000", 7), *((f"k{number:04}", number) for number in range(1, 8))]
    assert rows(opened.scan(where="ts = 3")) == [("k0003", 3)]
    assert opened.check().differences == ()
    assert opened.scan(where="ts > 100").plan.skipped


def test_a_metadata_table_keeps_to_its_request_budget(s3_server: S3Server) -> None:
    """What it costs doesn't grow with the table; reading through it takes the place of listing folders."""
    asked: dict[int, dict[str, int]] = {}
    for files in (2, 7):
        path = make(s3_server, files).path
        wanted = {key: value for key, value in METADATA.items() if key.endswith(("metadata.enable", "stats.enable"))}
        made = pudi.Table(path, options=wanted, storage_options=s3_server.options())
        made.upsert(table([trip(0, 15)]))
        asked[files] = {}
        verbs: dict[str, Callable[[], Any]] = {
            "upsert": lambda on=made: on.upsert(table([trip(0, 20)])),  # type: ignore[misc]
            "scan": lambda at=path: rows(pudi.Table(at, storage_options=s3_server.options()).scan()),  # type: ignore[misc]
            "skipping": lambda at=path: rows(  # type: ignore[misc]
                pudi.Table(at, storage_options=s3_server.options()).scan(where="ts = 20")
            ),
        }
        for name, verb in verbs.items():
            del s3_server.requests[:]
            assert verb()
            asked[files][name] = len(s3_server.requests)
    assert asked[2]["upsert"] <= 60
    assert asked[7]["upsert"] - asked[2]["upsert"] <= 2 * 5 + 4, "2 for each file that is looked into"
    assert asked[7]["scan"] - asked[2]["scan"] <= 2 * 5, "2 for each file"
    assert asked[7]["skipping"] <= asked[2]["skipping"] + 1
