"""Connections to Hive Metastore's Thrift service, and its messages as fields by number.

The generated classes of the service have three megabytes; pudi needs some twenty calls. Source: hive_metastore.thrift
of Apache Hive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from pudi.config import HiveClientOptions
from pudi.errors import CorruptError, InvalidArgumentError, RefusedError, SetupError, UnavailableError, cause_text

if TYPE_CHECKING:
    from ssl import SSLContext

BOOL: Final = 2
I16: Final = 6
I32: Final = 8
I64: Final = 10
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
LIST: Final = 15
logging.getLogger("thrift").addHandler(logging.NullHandler())  # it logs each failed attempt, to stderr without handlers

_BYTE, _DOUBLE, _SET = 3, 4, 14
_CALL, _EXCEPTION = 1, 3

Field: TypeAlias = tuple[int, int, Any]
"""Number, type and value.

The value of a struct is a list of fields, of a list its elements' type and they, of a map the types of keys and values
and a dict.
"""
Fields: TypeAlias = Sequence["Field | bytes"]
"""The fields of a struct; bytes are fields that `encoded` gave."""

Address: TypeAlias = tuple[str, int]

PORT: Final = 9083
_MOST = 1 << 28
"""Bytes of a text, and number of elements, that an answer may have."""
_DEPTH = 16
_HANDSHAKE_S = 30.0


def addresses(text: str, option: str) -> tuple[Address, ...]:
    """Return host and port of each metastore that a text names: `thrift://host:port`, separated by commas.

    Raises:
        InvalidArgumentError: it names none, or isn't of that form.
    """
    found = []
    for uri in text.split(","):
        parts = urlsplit(uri.strip())
        try:
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            host, port = None, 0
        if parts.scheme != "thrift" or host is None:
            raise InvalidArgumentError(f"{option}: {uri.strip()!r} isn't of the form thrift://host:port")
        found.append((host, port))
    return tuple(found)


@dataclass(frozen=True)
class Metastores:
    """Servers of one metastore.

    Attributes:
        servers: host and port of each; the first that answers is taken.
        tls: how to check their certificates; None for connections without TLS.
    """

    servers: tuple[Address, ...]
    tls: SSLContext | None = None

    @classmethod
    def of(cls, servers: Sequence[Address], options: HiveClientOptions) -> Metastores:
        """Return the servers with what options say of TLS.

        Raises:
            InvalidArgumentError: the file of certificates can't be read, or holds none as PEM.
        """
        if not options.tls:
            return cls(tuple(servers))
        import ssl  # noqa: PLC0415 - seldom needed

        try:
            return cls(tuple(servers), ssl.create_default_context(cafile=options.certificates))
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise InvalidArgumentError(
                f"{HiveClientOptions.certificates}: {options.certificates!r} can't be read as certificates in PEM: "
                f"{cause_text(error)}; keytool -exportcert -rfc -keystore FILE -alias NAME writes them"
            ) from error

    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.servers)


class Connection:
    """One connection to a metastore, made when it's first needed; for one thread at a time.

    Args:
        metastores: where it is; the first server that answers is taken.
        timeout_s: how long an answer may take.
        table: the root of the table that it's about, for errors.
        user: who asks, which a metastore without Kerberos believes; empty to leave it open.
    """

    def __init__(self, metastores: Metastores, timeout_s: float, table: str | None = None, user: str = "") -> None:
        self._metastores, self._timeout_s, self._table, self._user = metastores, timeout_s, table, user
        self._opened: tuple[Any, Any] | None = None
        self._guard = threading.Lock()

    def call(self, method: str, arguments: Fields) -> dict[int, Any]:
        """Call a method; return the fields of its result by number: 0 is the answer, others are declared exceptions.

        Raises:
            UnavailableError: no metastore answers, or it fails.
            RefusedError: its certificate isn't trusted, or it has no TLS.
            SetupError: the package thrift is missing.
        """
        with self._guard:
            try:
                return self._answer(self._protocol(), method, arguments)
            except (UnavailableError, RefusedError, SetupError):
                raise
            except Exception as error:  # the libraries' own kinds, none of which leaves the connection in a known state
                self._disconnect()
                raise UnavailableError(
                    f"the Hive Metastore of {self} doesn't answer {method!r}: {cause_text(error)}; check its "
                    "address, and that it runs and is reachable from here",
                    table=self._table,
                ) from error

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        with self._guard:
            self._disconnect()

    def _answer(self, protocol: Any, method: str, arguments: Fields) -> dict[int, Any]:
        protocol.writeMessageBegin(method, _CALL, 0)
        _write(protocol, arguments)
        protocol.writeMessageEnd()
        protocol.trans.flush()
        _, kind, _ = protocol.readMessageBegin()
        result = _read(protocol, STRUCT, _DEPTH)
        protocol.readMessageEnd()
        if kind == _EXCEPTION:
            raise UnavailableError(
                f"the Hive Metastore of {self} refused {method!r}: {str(text(result, 1))[:300]}", table=self._table
            )
        return {number: value for number, _, value in result}

    def _protocol(self) -> Any:
        if self._opened is not None:
            return self._opened[1]
        check_installed()
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - optional
        from thrift.transport.TSocket import TSocket  # noqa: PLC0415 - optional
        from thrift.transport.TTransport import TBufferedTransport, TTransportException  # noqa: PLC0415 - optional

        servers, tls = self._metastores.servers, self._metastores.tls
        for number, (host, port) in enumerate(servers, 1):
            socket = TSocket(host, port)
            socket.setTimeout(self._timeout_s * 1000)
            transport = TBufferedTransport(socket, rbuf_size=1 << 16)
            try:
                transport.open()
                if tls is not None:
                    self._secure(socket, tls, host)
            except TTransportException:
                if number == len(servers):
                    raise
                continue
            protocol = TBinaryProtocol(transport, string_length_limit=_MOST, container_length_limit=_MOST)
            self._opened = transport, protocol
            if self._user:
                self._answer(protocol, "set_ugi", [(1, STRING, self._user), (2, LIST, (STRING, [self._user]))])
            return protocol
        raise AssertionError("there is a server at least")

    def _secure(self, socket: Any, tls: SSLContext, host: str) -> None:
        """Go on by TLS on a connection that was just made."""
        import ssl  # noqa: PLC0415 - seldom needed

        socket.setTimeout(min(self._timeout_s, _HANDSHAKE_S) * 1000)
        try:
            socket.setHandle(tls.wrap_socket(socket.handle, server_hostname=host))
        except (ssl.SSLError, TimeoutError) as error:
            socket.close()
            raise RefusedError(
                f"the Hive Metastore of {self} gives no trusted answer by TLS: {cause_text(error)}; name the "
                f"file of its authority in {HiveClientOptions.certificates}, or leave {HiveClientOptions.tls} out if "
                "it has no TLS",
                table=self._table,
            ) from error
        socket.setTimeout(self._timeout_s * 1000)

    def _disconnect(self) -> None:
        if self._opened is not None:
            with suppress(Exception):
                self._opened[0].close()
            self._opened = None

    def __str__(self) -> str:
        return str(self._metastores)


def check_installed() -> None:
    """Refuse to go on without the package of Thrift.

    Raises:
        SetupError: it's missing.
    """
    if find_spec("thrift") is None:
        raise SetupError("a Hive Metastore needs the package thrift: pip install 'pudi[hive]'")


def value(fields: Sequence[Field], number: int) -> Any:
    """Return the value of a struct's field; None where it lacks it."""
    return next((value for own, _, value in fields if own == number), None)


def text(fields: Sequence[Field], number: int) -> str:
    """Return the text in a struct's field; empty where it lacks it."""
    found = value(fields, number)
    return found if isinstance(found, str) else ""


def elements(found: Any) -> list[Any]:
    """Return the elements of a list."""
    return found[1] if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], list) else []


def mapping(found: Any) -> Mapping[str, str]:
    """Return a map of texts."""
    return found[2] if isinstance(found, tuple) and len(found) == 3 else {}


def number_in(fields: Sequence[Field], number: int) -> int:
    """Return the number in a struct's field.

    Raises:
        CorruptError: it lacks it.
    """
    found = value(fields, number)
    if not isinstance(found, int):
        raise CorruptError(f"the Hive Metastore's answer lacks field {number}")
    return found


def texts(values: Sequence[str]) -> tuple[int, list[str]]:
    """Return the value of a field that is a list of texts."""
    return STRING, list(values)


def structs(values: Sequence[Fields | bytes]) -> tuple[int, list[Any]]:
    """Return the value of a field that is a list of structs."""
    return STRUCT, list(values)


def text_map(values: Mapping[str, str]) -> tuple[int, int, dict[str, str]]:
    """Return the value of a field that is a map of texts."""
    return STRING, STRING, dict(values)


def replaced(fields: Sequence[Field], *new: Field) -> list[Field]:
    """Return a struct with some fields set, the others as they are."""
    numbers = {field[0] for field in new}
    return sorted([*(field for field in fields if field[0] not in numbers), *new])


def encoded(fields: Fields) -> bytes:
    """Return the bytes of some fields, for structs that share them."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - optional
    from thrift.transport.TTransport import TMemoryBuffer  # noqa: PLC0415 - optional

    buffer = TMemoryBuffer()
    _write_fields(TBinaryProtocol(buffer), fields)
    found: bytes = buffer.getvalue()
    return found


def _write(protocol: Any, fields: Fields) -> None:
    _write_fields(protocol, fields)
    protocol.writeFieldStop()


def _write_fields(protocol: Any, fields: Fields) -> None:
    for field in fields:
        if isinstance(field, bytes):
            protocol.trans.write(field)
        else:
            number, kind, value = field
            protocol.writeFieldBegin("", kind, number)
            _write_value(protocol, kind, value)


def _write_value(protocol: Any, kind: int, value: Any) -> None:
    if kind == STRING:
        if isinstance(value, bytes):
            protocol.writeBinary(value)
        else:
            protocol.writeString(value)
    elif kind == STRUCT:
        _write(protocol, value)
    elif kind in {LIST, _SET}:
        protocol.writeListBegin(value[0], len(value[1]))
        for each in value[1]:
            _write_value(protocol, value[0], each)
    elif kind == MAP:
        protocol.writeMapBegin(value[0], value[1], len(value[2]))
        for key, each in value[2].items():
            _write_value(protocol, value[0], key)
            _write_value(protocol, value[1], each)
    else:
        writers = {BOOL: "writeBool", _BYTE: "writeByte", _DOUBLE: "writeDouble"}
        writers |= {I16: "writeI16", I32: "writeI32", I64: "writeI64"}
        getattr(protocol, writers[kind])(value)


def _read(protocol: Any, kind: int, depth: int) -> Any:
    """Read a value: a list of fields of a struct, see `Field` for the others."""
    if kind == STRING:
        return protocol.readString()
    if depth == 0:
        protocol.skip(kind)
        return None
    if kind == STRUCT:
        fields: list[Field] = []
        while True:
            _, inner, number = protocol.readFieldBegin()
            if inner == 0:
                return fields
            fields.append((number, inner, _read(protocol, inner, depth - 1)))
    if kind in {LIST, _SET}:
        inner, size = protocol.readListBegin()
        return inner, [_read(protocol, inner, depth - 1) for _ in range(size)]
    if kind == MAP:
        key, inner, size = protocol.readMapBegin()
        return key, inner, {_read(protocol, key, depth - 1): _read(protocol, inner, depth - 1) for _ in range(size)}
    readers = {BOOL: "readBool", _BYTE: "readByte", _DOUBLE: "readDouble"}
    readers |= {I16: "readI16", I32: "readI32", I64: "readI64"}
    return getattr(protocol, readers[kind])()
