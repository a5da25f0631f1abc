"""A lock in a Hive Metastore that JVM writers share: an exclusive lock of a table, kept alive by heartbeats.

Source: HiveMetastoreBasedLockProvider of Apache Hudi.
"""

from __future__ import annotations

import getpass
import logging
import socket
from dataclasses import dataclass

from pudi.catalogs.thrift_client import addresses
from pudi.config import LockSettings
from pudi.context import Context, Timer
from pudi.errors import InvalidArgumentError, PudiError, cause_text
from pudi.locks.hive_client import ACQUIRED, HiveClient
from pudi.locks.lock_provider import LockProvider

_log = logging.getLogger(__name__)

_ANSWER_S = 20.0


@dataclass(frozen=True, slots=True)
class HivePlace:
    """Address of a lock in a metastore.

    Attributes:
        servers: host and port of each metastore.
        database: the locked table's database.
        table: its name; neither needs to be there.
    """

    servers: tuple[tuple[str, int], ...]
    database: str
    table: str


def hive_place(settings: LockSettings) -> HivePlace:
    """The place that options name.

    Raises:
        InvalidArgumentError: an option is missing, or names no server.
    """
    if not (settings.hive_database and settings.hive_table and settings.hive_uris):
        raise InvalidArgumentError(
            f"{LockSettings.hive_database}, {LockSettings.hive_table} and {LockSettings.hive_uris} must be set for a "
            "lock in Hive Metastore"
        )
    servers = addresses(settings.hive_uris, LockSettings.hive_uris.key)
    return HivePlace(servers, settings.hive_database, settings.hive_table)


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
        self._client = HiveClient(place.servers, table, _ANSWER_S)
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
        self._heartbeat = every(self._settings.heartbeat_ms / 2000, self._beat, "lock-heartbeat")
        return True

    def unlock(self) -> None:
        """Give the lock back, if the metastore still has it."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        lock, self._lock = self._lock, None
        if lock is not None and not self._client.unlock(lock):
            _log.warning("%s: Hive Metastore took the lock %d away while it was held", self.table, lock)

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
