"""The four calls of Hive Metastore's Thrift service that a lock needs, and their answers.

Source: hive_metastore.thrift of Apache Hive (LockRequest, CheckLockRequest, UnlockRequest, HeartbeatRequest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pudi.catalogs.thrift_client import (
    I32,
    I64,
    LIST,
    STRING,
    STRUCT,
    Address,
    Connection,
    Field,
    number_in,
    structs,
    text,
)
from pudi.errors import UnavailableError

ACQUIRED: Final = 1
"""LockState.ACQUIRED; any other state is a lock that isn't held."""
_EXCLUSIVE, _TABLE = 3, 2

_NO_LOCK = {"check_lock": 3, "unlock": 1, "heartbeat": 1}
"""Number of the result field that holds NoSuchLockException, by call."""


class HiveClient:
    """The calls of one lock, for several threads.

    Args:
        servers: host and port of each metastore; the first that answers is taken.
        table: the table's root, for messages.
        timeout_s: how long an answer may take.
    """

    def __init__(self, servers: Sequence[Address], table: str, timeout_s: float) -> None:
        self._table = table
        self._connection = Connection(servers, timeout_s, table)

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
