"""A table in an object store whose user says that one process writes it: another one that does is found out."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import StorageWrapper, open_storage
from support.s3 import S3Server
from support.trips import SCHEMA, table, trip

OPTIONS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.concurrency.mode": "single_writer",
}
TIMELINE = ".hoodie/timeline"
VERBS: dict[str, Callable[[pudi.Table], object]] = {
    "insert": lambda made: made.insert(table([trip(7, 20)])),
    "bulk_insert": lambda made: made.bulk_insert(table([trip(7, 20)])),
    "upsert": lambda made: made.upsert(table([trip(0, 20)])),
    "update": lambda made: made.update({"ts": "ts + 1"}),
    "delete": lambda made: made.delete(where="ts >= 10"),
    "overwrite": lambda made: made.insert_overwrite(table([trip(0, 20)])),
    "delete_partitions": lambda made: made.delete_partitions(["nyc"]),
    "add_column": lambda made: made.add_column("tip", pa.int64()),
    "compact": lambda made: made.compact(),
    "schedule": lambda made: made.schedule("compaction"),
    "create_index": lambda made: made.create_index("bloom_filters"),
}


class Watched(StorageWrapper):
    """Has another process do something when this one puts an instant on the timeline."""

    at = ""
    then: Callable[[], None] = staticmethod(lambda: None)

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        self.inner.create(path, data, durable=durable)
        if self.at and path.startswith(TIMELINE) and path.endswith(self.at):
            self.at = ""
            self.then()


@pytest.fixture
def storage(s3_server: S3Server) -> Watched:
    return Watched(open_storage(s3_server.new_root(), s3_server.options()))


@pytest.fixture
def trips(s3_server: S3Server, storage: Watched) -> pudi.Table:
    connected = s3_server.options()
    made = pudi.create(
        storage.root,
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        table_type="mor",
        options=OPTIONS,
        storage_options=connected,
    )
    made.insert(table([trip(n, 10) for n in range(6)]))
    made.upsert(table([trip(n, 11) for n in range(6)]))
    return pudi.Table.of(MetaClient.open(storage.root, None, OPTIONS, Context(), storage), OPTIONS)


def records(made: pudi.Table, server: S3Server) -> list[tuple[str, int]]:
    found = pudi.Table(made.path, storage_options=server.options()).scan(columns=["uuid", "ts"]).to_arrow()
    return sorted(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True))


@pytest.mark.parametrize("verb", VERBS)
def test_what_another_process_begins_ends_in_a_conflict(
    trips: pudi.Table, storage: Watched, s3_server: S3Server, verb: str
) -> None:
    before = records(trips, s3_server)
    stranger = f"{TIMELINE}/20200101000000000.deltacommit.requested"
    storage.at, storage.then = ".requested", lambda: storage.inner.create(stranger, b"")
    with pytest.raises(pudi.ConflictError, match=r"another process writes this table.*20200101000000000"):
        VERBS[verb](trips)
    assert records(trips, s3_server) == before
    assert [i.requested for i in trips.timeline.pending] == ["20200101000000000"]


def test_a_commit_of_another_process_ends_in_a_conflict_whatever_it_wrote(
    trips: pudi.Table, storage: Watched, s3_server: S3Server
) -> None:
    def commit() -> None:  # other records than those of this process, with the lock of no process
        other = MetaClient.open(storage.root, s3_server.options(), {})
        pudi.Table.of(other, {}).insert(table([trip(8, 20)]))

    storage.at, storage.then = ".inflight", commit
    with pytest.raises(pudi.ConflictError, match="another process writes this table"):
        trips.upsert(table([trip(0, 20)]))
    assert ("k0008", 20) in records(trips, s3_server)
    assert ("k0000", 11) in records(trips, s3_server)
    assert trips.upsert(table([trip(0, 20)])) is not None, "and it's forgotten by the next write"


def test_threads_of_the_process_are_no_strangers(trips: pudi.Table, storage: Watched, s3_server: S3Server) -> None:
    def commit() -> None:
        pudi.Table(trips.path, OPTIONS, s3_server.options()).upsert(table([trip(1, 20)]))

    storage.at, storage.then = ".inflight", commit
    assert trips.upsert(table([trip(0, 20)])) is not None
    found = records(trips, s3_server)
    assert ("k0000", 20) in found
    assert ("k0001", 20) in found
