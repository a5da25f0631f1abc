"""A lock in a Hive Metastore that JVM writers share: an exclusive lock of a table, kept alive by heartbeats.

Source: HiveMetastoreBasedLockProvider of Apache Hudi; hive_metastore.thrift of Apache Hive (LockRequest,
CheckLockRequest, UnlockRequest, HeartbeatRequest).
"""

from __future__ import annotations

import getpass
import logging
import socket
from dataclasses import dataclass
from typing import Any, Final

from pudi.catalogs.thrift_client import (
    I32,
    I64,
    LIST,
    STRING,
    STRUCT,
    Connection,
    Field,
    Metastores,
    addresses,
    number_in,
    structs,
    text,
)
from pudi.config import LockSettings
from pudi.context import Context, Timer
from pudi.errors import InvalidArgumentError, PudiError, UnavailableError, cause_text
from pudi.locks.lock_provider import LockProvider

ACQUIRED: Final = 1
"""LockState.ACQUIRED; any other state is a lock that isn't held."""
_EXCLUSIVE, _TABLE = 3, 2

_NO_LOCK = {"check_lock": 3, "unlock": 1, "heartbeat": 1}
"""Number of the result field that holds NoSuchLockException, by call."""


class HiveClient:
    """The calls of one lock, for several threads.

    Args:
        metastores: where it is; the first server that answers is taken.
        table: the table's root, for messages.
        timeout_s: how long an answer may take.
    """

    def __init__(self, metastores: Metastores, table: str, timeout_s: float) -> None:
        self._table = table
        self._connection = Connection(metastores, timeout_s, table)

    def lock(self, database: str, table: str, user: str, host: str) -> tuple[int, int]:
        """Ask for an exclusive lock of a table; return its id and state."""
        component = [(1, I32, _EXCLUSIVE), (2, I32, _TABLE), (3, STRING, database), (4, STRING, table)]
        request = [(1, LIST, structs([component])), (2, I64, 0), (3, STRING, user), (4, STRING, host)]
        answer = self._call("lock", request) or []
        return number_in(answer, 1), number_in(answer, 2)

    def state(self, lock: int) -> int | None:
        """Return the state of a lock and keep it alive; None if it no longer exists."""
        answer = self._call("check_lock", [(1, I64, lock)])
        return None if answer is None else number_in(answer, 2)

    def heartbeat(self, lock: int) -> bool:
        """Keep a lock alive; whether it was there."""
        return self._call("heartbeat", [(1, I64, lock)]) is not None

    def unlock(self, lock: int) -> bool:
        """Give a lock back; whether it was there."""
        return self._call("unlock", [(1, I64, lock)]) is not None

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        self._connection.close()

    def _call(self, method: str, request: list[Field]) -> list[Field] | None:
        """The fields of an answer; None if it says that there is no such lock.

        Raises:
            UnavailableError: no metastore answers, or it refuses.
        """
        result: dict[int, Any] = self._connection.call(method, [(1, STRUCT, request)])
        if 0 in result:
            answer: list[Field] = result[0]
            return answer
        if not result:
            return []
        if _NO_LOCK.get(method) in result:
            return None
        said = text(next(iter(result.values())), 1)
        raise UnavailableError(
            f"the Hive Metastore of {self._connection} refused {method!r}: {said[:300]}", table=self._table
        )


_log = logging.getLogger(__name__)

_ANSWER_S = 20.0


@dataclass(frozen=True, slots=True)
class HivePlace:
    """Address of a lock in a metastore.

    Attributes:
        metastores: where the metastore is.
        database: the locked table's database.
        table: its name; neither needs to be there.
    """

    metastores: Metastores
    database: str
    table: str


def hive_place(settings: LockSettings) -> HivePlace:
    """The place that options name.

    Raises:
        InvalidArgumentError: an option is missing, or names no server or no file of certificates.
    """
    if not (settings.hive_database and settings.hive_table and settings.hive_uris):
        raise InvalidArgumentError(
            f"{LockSettings.hive_database}, {LockSettings.hive_table} and {LockSettings.hive_uris} must be set for a "
            "lock in Hive Metastore"
        )
    servers = addresses(settings.hive_uris, LockSettings.hive_uris.key)
    return HivePlace(Metastores.of(servers, settings), settings.hive_database, settings.hive_table)


class HiveLock(LockProvider):
    """The lock of Hudi's HiveMetastoreBasedLockProvider.

    Like that one it doesn't queue: a lock that isn't granted immediately is released, and requested again later. Else a
    writer that dies while it waits would hold up all others.

    Args:
        table: the table's root.
        place: metastore and name of the locked table.
        settings: time between heartbeats.
        context: timer.
    """

    def __init__(self, table: str, place: HivePlace, settings: LockSettings, context: Context) -> None:
        super().__init__(table, {})
        self._place, self._settings, self._context = place, settings, context
        self._client = HiveClient(place.metastores, table, _ANSWER_S)
        self._lock: int | None = None
        self._heartbeat: Timer | None = None

    def check_ready(self) -> None:
        """Ask for the state of a lock that no one has."""
        self._client.state(0)

    def try_lock(self, seconds: float) -> bool:
        """Ask once."""
        del seconds
        lock, state = self._client.lock(
            self._place.database, self._place.table, getpass.getuser(), socket.gethostname()
        )
        if state != ACQUIRED:
            self._client.unlock(lock)
            return False
        self._lock = lock
        every = self._context.executor.every
        try:
            self._heartbeat = every(self._settings.heartbeat_ms / 2000, self._beat, "lock-heartbeat")
        except BaseException:
            self.unlock()
            raise
        return True

    def unlock(self) -> None:
        """Give the lock back, if the metastore still has it, and close the connection."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        lock, self._lock = self._lock, None
        try:
            if lock is not None and not self._client.unlock(lock):
                _log.warning("%s: Hive Metastore took the lock %d away while it was held", self.table, lock)
        finally:
            self._client.close()

    def holds(self) -> bool:
        """Ask for the lock's state, which also keeps it alive."""
        return self._lock is not None and self._client.state(self._lock) == ACQUIRED

    def _beat(self) -> None:
        lock = self._lock
        try:
            if lock is not None and not self._client.heartbeat(lock):
                _log.warning("%s: Hive Metastore took the lock %d away while it was held", self.table, lock)
        except PudiError as error:
            _log.warning("%s: the lock couldn't be renewed, trying on: %s", self.table, cause_text(error))
