"""A lock in DynamoDB that JVM writers share: the item of Amazon's lock client.

The item of a lock names its owner and has a version that each heartbeat changes. Whoever sees one version for a whole
lease may take the lock. Each change depends on the version that was read. Sources: DynamoDBBasedLockProviderBase and
DynamoDbBasedLockConfig of Apache Hudi, AmazonDynamoDBLockClient 1.2.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pudi.config import LockSettings
from pudi.context import Context, Timer
from pudi.errors import InvalidArgumentError, SetupError, UnavailableError, cause_text
from pudi.locks.lock_provider import LockProvider

_log = logging.getLogger(__name__)

_KEY, _OWNER, _LEASE, _VERSION, _RELEASED = "key", "ownerName", "leaseDuration", "recordVersionNumber", "isReleased"
_NAMES = {"#key": _KEY, "#owner": _OWNER, "#lease": _LEASE, "#version": _VERSION, "#released": _RELEASED}
_LOST = "ConditionalCheckFailedException"
_MISSING = "ResourceNotFoundException"
_EXISTS = "ResourceInUseException"

_USUAL_POLL_S = 0.2
_TABLE_POLL_S = 1.0
_LEAST_LEASE_MS = 1000
_CONNECT_S, _ANSWER_S = 5, 5


def dynamodb_key(settings: LockSettings, table_name: str) -> str:
    """The partition key that options name; the table's name by default.

    Raises:
        InvalidArgumentError: there is none.
    """
    found = settings.dynamodb_partition_key or table_name
    if not found:
        raise InvalidArgumentError(f"{LockSettings.dynamodb_partition_key} must be set")
    return found


@dataclass(frozen=True, slots=True)
class _Item:
    """A lock as the service shows it.

    Attributes:
        owner: who holds it, or held it last.
        version: its version.
        lease_s: minimum seconds for which a version is valid.
        released: whether the holder released it.
    """

    owner: str
    version: str
    lease_s: float
    released: bool


@dataclass(frozen=True, slots=True)
class _Held:
    """Our lock: the item's version, and until when it is valid, in monotonic seconds."""

    version: str
    until: float


class DynamoDBLock(LockProvider):
    """The lock of Hudi's DynamoDBBasedLockProvider.

    Its lease is the time that its writer waits for the lock, as in Hudi, but at least a second.

    Args:
        table: the table's root.
        key: the lock's partition key.
        settings: where the lock is, and how long to wait.
        context: clock, ids and timer.

    Raises:
        InvalidArgumentError: an option is missing.
    """

    def __init__(self, table: str, key: str, settings: LockSettings, context: Context) -> None:
        super().__init__(table, {})
        if not settings.dynamodb_table:
            raise InvalidArgumentError(f"{LockSettings.dynamodb_table} must be set to the table that holds the locks")
        self._key, self._settings, self._context = key, settings, context
        self._lease_s = max(settings.wait_ms, _LEAST_LEASE_MS) / 1000
        self._owner = f"{socket.gethostname()}_{context.writer_id()}"
        self._client: Any = None
        self._state = threading.Lock()
        self._held: _Held | None = None
        self._heartbeat: Timer | None = None

    def check_ready(self) -> None:
        """Ask for the lock's item; the table that holds it may still be missing."""
        self._call("get_item", {"TableName": self._settings.dynamodb_table, "Key": _texts({_KEY: self._key})}, _MISSING)

    def try_lock(self, seconds: float) -> bool:
        """Take the lock; if another writer holds it wait one lease longer, after which it is known to be alive."""
        clock = self._context.clock
        deadline = clock.monotonic() + seconds
        seen: tuple[_Item, float] | None = None
        while True:
            found = self._read()
            now = clock.monotonic()
            if self._may_take(found, seen, now) and self._take(found):
                break
            if found is not None and not found.released:
                if seen is None:
                    deadline += self._settings.wait_ms / 1000
                if seen is None or seen[0].version != found.version:
                    seen = found, now
            left = deadline - now
            if left <= 0:
                return False
            poll = self._settings.poll_s(_USUAL_POLL_S)
            clock.sleep(min(left, self._context.uniform(poll / 2, poll)))
        try:
            self._heartbeat = self._context.executor.every(self._lease_s / 3, self._beat, "lock-heartbeat")
        except BaseException:
            self.unlock()
            raise
        return True

    def unlock(self) -> None:
        """Mark the item as released, if it's still ours."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        with self._state:
            held, self._held = self._held, None
        if held is not None and not self._change("SET #released = :yes", held.version, {":yes": "1"}):
            _log.warning("%s: the lock %s in DynamoDB was taken while it was held", self.table, self._key)

    def holds(self) -> bool:
        """Renew the lock, by a write that depends on our version: then a whole lease is left for what follows."""
        return self.renew()

    def holder(self) -> str:
        """The item's owner."""
        found = self._read()
        return super().holder() if found is None else f"owner {found.owner[:200]}"

    def renew(self) -> bool:
        """Prolong the lock; whether it's still held. A lease that has expired isn't renewed: another may have seen it.

        Raises:
            UnavailableError: the service doesn't answer. The lock is held as long as its lease lasts.
        """
        with self._state:
            held = self._held
            now = self._context.clock.monotonic()
            if held is None or now >= held.until:
                self._held = None
                return False
            version = self._context.new_id()
            values = {":new": version, ":lease": self._lease_text()}
            if not self._change("SET #lease = :lease, #version = :new", held.version, values):
                found = self._read()
                if found is None or found.version != version or found.owner != self._owner:
                    self._held = None
                    return False  # else an earlier attempt was done although no answer came
            self._held = _Held(version, now + self._lease_s)
            return True

    def _beat(self) -> None:
        try:
            if not self.renew():
                _log.warning("%s: the lock %s in DynamoDB was lost while it was held", self.table, self._key)
        except UnavailableError as error:
            _log.warning("%s: the lock couldn't be renewed, trying on: %s", self.table, error)

    def _may_take(self, found: _Item | None, seen: tuple[_Item, float] | None, now: float) -> bool:
        if found is None or found.released:
            return True
        return seen is not None and seen[0].version == found.version and now - seen[1] > found.lease_s

    def _take(self, found: _Item | None) -> bool:
        """Put our item in place of what was read; whether it's ours now."""
        version, now = self._context.new_id(), self._context.clock.monotonic()
        item = {_KEY: self._key, _OWNER: self._owner, _LEASE: self._lease_text(), _VERSION: version}
        condition, values = "attribute_not_exists(#key)", {}
        if found is not None:
            condition, values = "attribute_exists(#key) AND #version = :version", {":version": found.version}
            if found.released:
                condition, values = f"{condition} AND #released = :yes", {**values, ":yes": "1"}
        request = {"Item": _texts(item), "ConditionExpression": condition}
        if not self._conditional("put_item", request, values):
            there = self._read()
            if there is None or there.version != version or there.owner != self._owner:
                return False
        with self._state:
            self._held = _Held(version, now + self._lease_s)
        return True

    def _change(self, update: str, version: str, values: Mapping[str, str]) -> bool:
        """Change our item if it has a version; whether it had."""
        condition = "attribute_exists(#key) AND #version = :version AND #owner = :owner"
        request = {"Key": _texts({_KEY: self._key}), "UpdateExpression": update, "ConditionExpression": condition}
        return self._conditional("update_item", request, {**values, ":version": version, ":owner": self._owner})

    def _conditional(self, call: str, request: Mapping[str, Any], values: Mapping[str, str]) -> bool:
        expressions = f"{request['ConditionExpression']} {request.get('UpdateExpression', '')}"
        names = {short: name for short, name in _NAMES.items() if short in expressions}
        more = {"ExpressionAttributeValues": _texts(values)} if values else {}
        given = {"TableName": self._settings.dynamodb_table, **request, "ExpressionAttributeNames": names, **more}
        return self._call(call, given, _LOST) is not None

    def _read(self) -> _Item | None:
        request = {"Key": _texts({_KEY: self._key}), "ConsistentRead": True}
        answer = self._call("get_item", {"TableName": self._settings.dynamodb_table, **request}, _MISSING)
        if answer is None:
            self._create_table()
            return None
        item = answer.get("Item")
        if item is None:
            return None
        texts = {name: str(value.get("S", "")) for name, value in item.items()}
        lease = texts.get(_LEASE, "")
        lease_s = int(lease) / 1000 if lease.isdecimal() and len(lease) < 19 else self._lease_s
        return _Item(texts.get(_OWNER, ""), texts.get(_VERSION, ""), lease_s, _RELEASED in texts)

    def _lease_text(self) -> str:
        return str(round(self._lease_s * 1000))

    def _create_table(self) -> None:
        """Make the table of the locks, as Hudi does."""
        settings, clock = self._settings, self._context.clock
        request: dict[str, Any] = {
            "TableName": settings.dynamodb_table,
            "KeySchema": [{"AttributeName": _KEY, "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": _KEY, "AttributeType": "S"}],
            "BillingMode": settings.dynamodb_billing_mode,
        }
        if settings.dynamodb_billing_mode == "PROVISIONED":
            request["ProvisionedThroughput"] = {
                "ReadCapacityUnits": settings.dynamodb_read_capacity,
                "WriteCapacityUnits": settings.dynamodb_write_capacity,
            }
        self._call("create_table", request, _EXISTS)
        deadline = clock.monotonic() + settings.dynamodb_creation_timeout_ms / 1000
        while True:
            found = self._call("describe_table", {"TableName": settings.dynamodb_table}, _MISSING) or {}
            if found.get("Table", {}).get("TableStatus") == "ACTIVE":
                return
            if clock.monotonic() >= deadline:
                raise UnavailableError(
                    f"DynamoDB's table {settings.dynamodb_table} isn't there within "
                    f"{settings.dynamodb_creation_timeout_ms / 1000:g} s ({LockSettings.dynamodb_creation_timeout_ms})",
                    table=self.table,
                )
            clock.sleep(_TABLE_POLL_S)

    def _call(self, call: str, request: Mapping[str, Any], expected: str) -> dict[str, Any] | None:
        """The answer to a request; None if it fails with the expected code.

        Raises:
            UnavailableError: it fails otherwise.
        """
        client = self._connected()
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        try:
            answer: dict[str, Any] = getattr(client, call)(**request)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == expected:
                return None
            raise self._unavailable(error) from error
        except BotoCoreError as error:
            raise self._unavailable(error) from error
        return answer

    def _unavailable(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"the lock {self._key} in DynamoDB's table {self._settings.dynamodb_table} can't be reached: "
            f"{cause_text(error)}",
            table=self.table,
        )

    def _connected(self) -> Any:
        if self._client is None:
            try:
                import boto3  # noqa: PLC0415 - optional
                from botocore.config import Config  # noqa: PLC0415 - optional
            except ImportError:
                raise SetupError("DynamoDB's lock needs boto3: pip install 'pudi[aws]'") from None
            settings = self._settings
            self._client = boto3.session.Session().client(
                "dynamodb",
                region_name=settings.dynamodb_region or os.environ.get("AWS_REGION") or "us-east-1",
                endpoint_url=settings.dynamodb_endpoint,
                aws_access_key_id=settings.aws_access_key,
                aws_secret_access_key=settings.aws_secret_key,
                aws_session_token=settings.aws_session_token,
                # botocore's own limits let a service that is gone cost five minutes
                config=Config(connect_timeout=_CONNECT_S, read_timeout=_ANSWER_S, retries={"total_max_attempts": 2}),
            )
        return self._client


def _texts(values: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Texts as DynamoDB's attributes."""
    return {name: {"S": value} for name, value in values.items()}
