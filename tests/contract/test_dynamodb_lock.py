"""The lock in DynamoDB: the contract, the items of Amazon's lock client, and that client itself beside it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import pudi
from pudi.context import Context, ManualClock
from pudi.locks.locks import open_lock
from pudi.locks.table_lock import TableLock
from pudi.storage import open_storage
from pudi.testing import InlineExecutor, LockTests, TimerClock
from support.s3 import S3Server

_numbers = itertools.count()
PACKAGE = "org.apache.hudi.aws.transaction.lock."
KEY = "hoodie.write.lock."
TABLE = "locks"


@pytest.fixture
def options(s3: S3Server) -> dict[str, str]:
    return {
        f"{KEY}provider": f"{PACKAGE}DynamoDBBasedLockProvider",
        f"{KEY}dynamodb.table": TABLE,
        f"{KEY}dynamodb.partition_key": f"key-{next(_numbers)}",
        f"{KEY}dynamodb.endpoint_url": s3.url,
        f"{KEY}dynamodb.region": "us-east-1",
        f"{KEY}wait_time_ms_between_retry": "20",
        "hoodie.aws.access.key": "test",
        "hoodie.aws.secret.key": "test",
    }


@pytest.fixture
def table(s3: S3Server) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.resource("dynamodb", endpoint_url=s3.url, region_name="us-east-1", **keys).Table(TABLE)


def key_of(options: Mapping[str, str]) -> dict[str, str]:
    return {"key": options[f"{KEY}dynamodb.partition_key"]}


def lock_of(options: Mapping[str, str], context: Context | None = None, **changed: str) -> TableLock:
    given = {**options, **{f"{KEY}{key}": value for key, value in changed.items()}}
    return open_lock(open_storage("memory://dynamo"), given[f"{KEY}provider"], given, context or Context(), "t")


class TestContract(LockTests):
    name = "DynamoDBBasedLockProvider"

    @pytest.fixture
    def lock_options(self, options: dict[str, str]) -> Mapping[str, str]:
        return options

    @pytest.fixture
    def steal(self, options: dict[str, str], table: Any) -> Callable[[], None]:
        item = {**key_of(options), "ownerName": "hudi", "leaseDuration": "60000", "recordVersionNumber": "7"}
        return lambda: table.put_item(Item=item) and None


def test_the_implicit_key_is_the_hash_of_the_tables_root(options: dict[str, str], table: Any) -> None:
    name = f"{PACKAGE}DynamoDBBasedImplicitPartitionKeyLockProvider"
    with open_lock(open_storage("s3a://b/t/", {"region": "x"}), name, options, Context(), "t"):
        # what Hudi's HashID gives for s3://b/t
        assert "ownerName" in table.get_item(Key={"key": "45205BCC2F82AB53"})["Item"]


def test_the_item_is_amazons(options: dict[str, str], table: Any) -> None:
    lock = lock_of(options)
    with lock:
        held = table.get_item(Key=key_of(options))["Item"]
        assert set(held) == {"key", "ownerName", "leaseDuration", "recordVersionNumber"}
        assert held["leaseDuration"] == "60000"
        lock.verify()
        renewed = table.get_item(Key=key_of(options))["Item"]
        assert renewed["recordVersionNumber"] != held["recordVersionNumber"]
    assert table.get_item(Key=key_of(options))["Item"] == {**renewed, "isReleased": "1"}


def test_a_table_is_made_as_hudis(options: dict[str, str], s3: S3Server) -> None:
    made = f"locks-{next(_numbers)}"
    with lock_of(options, **{"dynamodb.table": made}):
        pass
    client = boto3.client("dynamodb", endpoint_url=s3.url, region_name="us-east-1", aws_access_key_id="test",
                          aws_secret_access_key="test")  # fmt: skip
    found = client.describe_table(TableName=made)["Table"]
    assert found["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
    assert found["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_a_dead_holders_lock_is_free_after_its_lease(options: dict[str, str], table: Any) -> None:
    with lock_of(options):
        pass
    clock = TimerClock(1_800_000_000_000)
    dead = {"ownerName": "hudi", "leaseDuration": "50000", "recordVersionNumber": "7", "data": b"kept by the client"}
    table.put_item(Item={**key_of(options), **dead})
    began = clock.monotonic()
    with lock_of(options, Context(clock, executor=InlineExecutor(clock)), wait_time_ms_between_retry="500"):
        assert 50 < clock.monotonic() - began < 52
        assert table.get_item(Key=key_of(options))["Item"]["ownerName"] != "hudi"


def test_a_living_holders_lock_is_not(options: dict[str, str], table: Any) -> None:
    with lock_of(options):
        pass
    versions = itertools.count()

    class Beating(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if int(self.monotonic()) % 10 == 0:
                alive = {"ownerName": "hudi", "leaseDuration": "20000", "recordVersionNumber": str(next(versions))}
                table.put_item(Item={**key_of(options), **alive})

    clock = Beating(1_800_000_000_000)
    clock.sleep(10 - clock.monotonic() % 10)
    began = clock.monotonic()
    with pytest.raises(pudi.UnavailableError, match="owner hudi"):
        lock_of(options, Context(clock), wait_time_ms="30000", wait_time_ms_between_retry="500").__enter__()
    assert 60 <= clock.monotonic() - began < 62, "the time to wait, and as much again for a lease to pass"


def test_an_expired_lease_is_not_revived(options: dict[str, str], table: Any) -> None:
    clock = ManualClock(1_800_000_000_000)
    lock = lock_of(options, Context(clock, executor=InlineExecutor(TimerClock(0))))
    with lock:
        clock.advance(59)
        lock.verify()
        clock.advance(60)
        with pytest.raises(pudi.ConflictError, match="lost"):
            lock.verify()
    assert "isReleased" not in table.get_item(Key=key_of(options))["Item"], "it's left to run out"


def test_a_change_whose_answer_was_lost_is_done(options: dict[str, str], s3: S3Server) -> None:
    lock = lock_of(options)
    with lock:
        s3.faults.append(("POST", "/", None))  # boto3 asks again
        lock.verify()
        lock.verify()
    client = lock._provider._client  # type: ignore[attr-defined]
    put = client.put_item
    client.put_item = lambda **request: (put(**request), put(**request))[1]
    with lock:
        lock.verify()


def test_a_paused_writer_publishes_nothing(options: dict[str, str], table: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    pudi.create(tmp_path / "t", rows.schema, record_key="id", options=options)
    from pudi.locks.lock_provider import ProvidedLock

    verify, calls = ProvidedLock.verify, itertools.count()

    def paused(self: ProvidedLock) -> None:
        if next(calls) == 1:  # about to commit
            item = {**key_of(options), "ownerName": "hudi", "leaseDuration": "1", "recordVersionNumber": "7"}
            table.put_item(Item=item)
        verify(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProvidedLock, "verify", paused)
        with pytest.raises(pudi.ConflictError, match="lock was lost"):
            pudi.Table(tmp_path / "t", options=options).upsert(rows)
    assert pudi.Table(tmp_path / "t").scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"dynamodb.table": ""}, pudi.InvalidArgumentError, "dynamodb.table must be set"),
        ({"dynamodb.billing_mode": "FREE"}, pudi.InvalidArgumentError, "PAY_PER_REQUEST"),
    ],
)
def test_what_cant_be_is_refused_when_the_table_is_opened(
    options: dict[str, str], changed: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lock_of(options, **changed)


def test_the_key_is_the_tables_name_by_default(options: dict[str, str], table: Any) -> None:
    del options[f"{KEY}dynamodb.partition_key"]
    with lock_of(options):
        assert "Item" in table.get_item(Key={"key": "t"})
