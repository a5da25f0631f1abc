"""The four calls of Hive Metastore's Thrift service that a lock needs, and their answers by field number.

Source: hive_metastore.thrift of Apache Hive (LockRequest, CheckLockRequest, UnlockRequest, HeartbeatRequest).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from pudi.errors import CorruptError, SetupError, UnavailableError, cause_text

ACQUIRED: Final = 1
"""LockState.ACQUIRED; any other state is a lock that isn't held."""
_EXCLUSIVE, _TABLE = 3, 2

_I32, _I64, _STRING, _STRUCT, _LIST = 8, 10, 11, 12, 15
_CALL, _EXCEPTION = 1, 3

Field: TypeAlias = tuple[int, int, Any]
"""Number, type and value; a struct's value is a list of fields, a list's a list of structs."""

_NO_LOCK = {"check_lock": 3, "unlock": 1, "heartbeat": 1}
"""Where an answer says NoSuchLockException."""

_MOST = 1 << 20
"""Bytes of a text, and number of elements, that an answer may have."""
_DEPTH = 8


class HiveClient:
    """One connection to a metastore, made when it's first needed, for several threads.

    Args:
        servers: host and port of each; the first that answers is taken.
        table: the table's root, for messages.
        timeout_s: how long an answer may take.
    """

    def __init__(self, servers: Sequence[tuple[str, int]], table: str, timeout_s: float) -> None:
        self._servers, self._table, self._timeout_s = servers, table, timeout_s
        self._connection: tuple[Any, Any] | None = None
        self._guard = threading.Lock()

    def lock(self, database: str, table: str, user: str, host: str) -> tuple[int, int]:
        """Ask for an exclusive lock of a table; return its id and state."""
        component = [(1, _I32, _EXCLUSIVE), (2, _I32, _TABLE), (3, _STRING, database), (4, _STRING, table)]
        request = [(1, _LIST, [component]), (2, _I64, 0), (3, _STRING, user), (4, _STRING, host)]
        answer = self._call("lock", request)
        return _number(answer, 1), _number(answer, 2)

    def state(self, lock: int) -> int | None:
        """Return the state of a lock and keep it alive; None if it no longer exists."""
        answer = self._call("check_lock", [(1, _I64, lock)])
        return None if answer is None else _number(answer, 2)

    def heartbeat(self, lock: int) -> bool:
        """Keep a lock alive; whether it was there."""
        return self._call("heartbeat", [(1, _I64, lock)]) is not None

    def unlock(self, lock: int) -> bool:
        """Give a lock back; whether it was there."""
        return self._call("unlock", [(1, _I64, lock)]) is not None

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        with self._guard:
            self._disconnect()

    def _call(self, method: str, request: list[Field]) -> dict[int, Any] | None:
        """The fields of an answer; None if it says that there is no such lock.

        Raises:
            UnavailableError: no metastore answers, or it refuses.
        """
        with self._guard:
            try:
                protocol = self._connected()
                return self._answer(protocol, method, request)
            except (UnavailableError, SetupError):
                raise
            except Exception as error:  # the libraries' own kinds, none of which leaves the connection in a known state
                self._disconnect()
                raise UnavailableError(
                    f"the Hive Metastore of {self._text()} doesn't answer {method!r}: {cause_text(error)}",
                    table=self._table,
                ) from error

    def _answer(self, protocol: Any, method: str, request: list[Field]) -> dict[int, Any] | None:
        protocol.writeMessageBegin(method, _CALL, 0)
        _write(protocol, [(1, _STRUCT, request)])
        protocol.writeMessageEnd()
        protocol.trans.flush()
        _, kind, _ = protocol.readMessageBegin()
        fields = _read(protocol, _STRUCT, _DEPTH)
        protocol.readMessageEnd()
        if kind != _EXCEPTION and 0 in fields:
            answer: dict[int, Any] = fields[0]
            return answer
        if kind != _EXCEPTION and not fields:
            return {}
        if kind != _EXCEPTION and _NO_LOCK.get(method) in fields:
            return None
        said = fields.get(1) if kind == _EXCEPTION else next(iter(fields.values())).get(1)
        raise UnavailableError(
            f"the Hive Metastore of {self._text()} refused {method!r}: {str(said)[:300]}", table=self._table
        )

    def _connected(self) -> Any:
        if self._connection is not None:
            return self._connection[1]
        try:
            from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - optional
            from thrift.transport.TSocket import TSocket  # noqa: PLC0415 - optional
            from thrift.transport.TTransport import TBufferedTransport, TTransportException  # noqa: PLC0415 - optional
        except ImportError:
            raise SetupError("Hive Metastore's lock needs thrift: pip install 'pudi[hive]'") from None
        for number, (host, port) in enumerate(self._servers, 1):
            socket = TSocket(host, port)
            socket.setTimeout(self._timeout_s * 1000)
            transport = TBufferedTransport(socket)
            try:
                transport.open()
            except TTransportException:
                if number == len(self._servers):
                    raise
                continue
            protocol = TBinaryProtocol(transport, string_length_limit=_MOST, container_length_limit=_MOST)
            self._connection = transport, protocol
            return protocol
        raise AssertionError("there is a server at least")

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection[0].close()
            self._connection = None

    def _text(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._servers)


def _write(protocol: Any, fields: list[Field]) -> None:
    for number, kind, value in fields:
        protocol.writeFieldBegin("", kind, number)
        if kind == _STRUCT:
            _write(protocol, value)
        elif kind == _LIST:
            protocol.writeListBegin(_STRUCT, len(value))
            for each in value:
                _write(protocol, each)
        elif kind == _STRING:
            protocol.writeString(value)
        elif kind == _I64:
            protocol.writeI64(value)
        else:
            protocol.writeI32(value)
    protocol.writeFieldStop()


def _read(protocol: Any, kind: int, depth: int) -> Any:
    """A value: fields by number of a struct, a number or a text; other types are passed over."""
    if kind == _I32:
        return protocol.readI32()
    if kind == _I64:
        return protocol.readI64()
    if kind == _STRING:
        return protocol.readString()
    if kind != _STRUCT or depth == 0:
        protocol.skip(kind)
        return None
    fields: dict[int, Any] = {}
    while True:
        _, inner, number = protocol.readFieldBegin()
        if inner == 0:
            return fields
        fields[number] = _read(protocol, inner, depth - 1)


def _number(fields: dict[int, Any] | None, number: int) -> int:
    found = None if fields is None else fields.get(number)
    if not isinstance(found, int):
        raise CorruptError(f"the Hive Metastore's answer lacks field {number}")
    return found
