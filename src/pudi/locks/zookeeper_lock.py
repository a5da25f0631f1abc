"""A lock in ZooKeeper that JVM writers share: the nodes of Curator's InterProcessMutex.

Whoever waits has an ephemeral node `_c_<uuid>-lock-<sequence>` below the lock's path, and the one with the lowest
sequence holds the lock. A node goes with the session of its maker. Sources: BaseZookeeperBasedLockProvider and
HoodieInterProcessMutex of Apache Hudi 1.2; LockInternals and StandardLockInternalsDriver of Apache Curator.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from posixpath import basename
from typing import Any
from weakref import WeakValueDictionary

from pudi.config import LockSettings
from pudi.context import Context
from pudi.errors import InvalidArgumentError, SetupError, UnavailableError, cause_text
from pudi.format.hashes import path_hash
from pudi.locks.lock_provider import LockProvider

_log = logging.getLogger(__name__)

_PORT = 2181
_LOCK = "lock-"
_LOOK_AGAIN_S = 5.0
"""Seconds after which a waiting writer looks at the queue again, whatever its watch says."""
_RECONNECTING_S = 0.05
"""Seconds between two questions while the connection is lost."""
_CLOSING_S = 0.5
"""Seconds for which the end of an attempt to connect is waited for."""
_IMPLICIT_BASE, _IMPLICIT_KEY = "/tmp/", "lock_key"


@dataclass(frozen=True, slots=True)
class ZookeeperPlace:
    """Address of a lock in ZooKeeper.

    Attributes:
        hosts: `host:port` of the servers, separated by commas, perhaps with a path in front of all nodes.
        path: the lock's path.
    """

    hosts: str
    path: str


def zookeeper_place(settings: LockSettings, table_name: str) -> ZookeeperPlace:
    """The place that options name; the lock's key is the table's name by default (HoodieLockConfig.ZK_LOCK_KEY).

    Raises:
        InvalidArgumentError: an option is missing, or contradicts another.
    """
    base, key = settings.zk_base_path, settings.zk_lock_key or table_name
    if not base or not base.startswith("/"):
        raise InvalidArgumentError(
            f"{LockSettings.zk_base_path} must be set to a path in ZooKeeper that begins with '/', the same for all "
            f"writers of the table; it is {base or 'not set'}"
        )
    if not key:
        raise InvalidArgumentError(f"{LockSettings.zk_lock_key} must be set")
    return ZookeeperPlace(_hosts(settings), _joined(base, key))


def implicit_zookeeper_place(settings: LockSettings, table: str) -> ZookeeperPlace:
    """The place that follows from the table's root (ZookeeperBasedImplicitBasePathLockProvider).

    Raises:
        InvalidArgumentError: an option is missing, or contradicts another.
    """
    return ZookeeperPlace(_hosts(settings), _joined(f"{_IMPLICIT_BASE}{path_hash(table)}", _IMPLICIT_KEY))


def _hosts(settings: LockSettings) -> str:
    """The servers. Hudi's provider ignores the option of the port, and so connects to the default one."""
    if not settings.zk_url:
        raise InvalidArgumentError(f"{LockSettings.zk_url} must be set: host:port of the servers, separated by commas")
    hosts, slash, chroot = settings.zk_url.partition("/")
    servers = [host.strip() for host in hosts.split(",")]
    for server in servers:
        _, colon, port = server.rpartition(":")
        found = int(port) if colon and port.isdecimal() else _PORT
        if settings.zk_port is not None and settings.zk_port != found:
            raise InvalidArgumentError(
                f"{LockSettings.zk_port}={settings.zk_port} isn't the port of {server}. Hudi ignores this option: say "
                f"the port in {LockSettings.zk_url}, as host:{settings.zk_port}"
            )
    return ",".join(servers) + slash + chroot


def _joined(base: str, key: str) -> str:
    return "/" + "/".join(part for part in f"{base}/{key}".split("/") if part)


class _Session:
    """A session with ZooKeeper, shared by all locks of this process with the same servers.

    Args:
        client: kazoo's client, connected.
        wait_s: how long an answer may take.
    """

    def __init__(self, client: Any, wait_s: float) -> None:
        self.client = client
        self.ended = False
        self._wait_s = wait_s
        weakref.finalize(self, _close, client)

    @property
    def id(self) -> int:
        """The session's id now: another one after the session has expired."""
        known = self.client.client_id
        return 0 if known is None else int(known[0])

    def ask(self, request: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return the answer to one of the client's asynchronous requests; raises kazoo's errors after a timeout."""
        return request(*args, **options).get(timeout=self._wait_s)

    def drop(self) -> None:
        """End the session, and with it all nodes that it made."""
        self.ended = True
        _close(self.client)


def _set(event: Any, _change: object) -> None:
    event.set()


def _close(client: Any) -> None:
    with suppress(Exception):
        client.stop()
        client.close()


_sessions: WeakValueDictionary[tuple[object, ...], _Session] = WeakValueDictionary()
_guard = threading.Lock()


class ZookeeperLock(LockProvider):
    """The lock of Hudi's ZookeeperBasedLockProvider.

    Args:
        table: the table's root.
        place: servers and path.
        settings: timeouts, and the name that the node shows.
        context: clock and ids.
    """

    def __init__(self, table: str, place: ZookeeperPlace, settings: LockSettings, context: Context) -> None:
        super().__init__(table, {})
        self._place, self._settings, self._context = place, settings, context
        self._session: _Session | None = None
        self._held: tuple[str, int] | None = None

    def try_lock(self, seconds: float) -> bool:
        """Queue, and wait for the nodes before ours to go."""
        deadline = self._context.clock.monotonic() + seconds
        session = self._session = self._connected()
        prefix = f"_c_{self._context.new_id()}-{_LOCK}"
        try:
            node = self._enter(session, prefix)
            taken = self._wait_turn(session, node, deadline)
            if taken:
                self._held = f"{self._place.path}/{node}", session.id
        finally:
            if self._held is None:
                self._delete(session, lambda: [name for name in self._queue(session) if name.startswith(prefix)])
        return taken

    def unlock(self) -> None:
        """Delete our node."""
        held, self._held = self._held, None
        if held is not None and self._session is not None:
            self._delete(self._session, lambda: [basename(held[0])])

    def holds(self) -> bool:
        """Ask the server, brought up to date, whether the node of our session is there."""
        from kazoo.exceptions import ConnectionLoss, SessionExpiredError  # noqa: PLC0415 - optional

        if self._held is None or self._session is None:
            return False
        clock = self._context.clock
        deadline = clock.monotonic() + self._settings.zk_connection_timeout_ms / 1000
        while True:
            try:
                return self._is_there(self._session, *self._held)
            except SessionExpiredError:
                return False
            except ConnectionLoss:  # kazoo connects again, and learns then whether the session has expired
                if clock.monotonic() >= deadline:
                    raise
                clock.sleep(_RECONNECTING_S)

    def _is_there(self, session: _Session, path: str, owner: int) -> bool:
        session.ask(session.client.sync_async, path)
        found = session.ask(session.client.exists_async, path)
        return found is not None and found.ephemeralOwner == owner

    def check_ready(self) -> None:
        """Connect to a server."""
        self._connected()

    def holder(self) -> str:
        """The first node, and what it shows."""
        session = self._session
        nodes = [] if session is None else self._queue(session)
        if session is None or not nodes:
            return super().holder()
        shown = b""
        with suppress(Exception):
            shown = session.ask(session.client.get_async, f"{self._place.path}/{nodes[0]}")[0]
        return f"the ZooKeeper node {self._place.path}/{nodes[0]} ({shown[:200].decode('utf-8', 'replace')})"

    def _connected(self) -> _Session:
        settings = self._settings
        key = (os.getpid(), self._place.hosts, settings.zk_session_timeout_ms, settings.zk_connection_timeout_ms)
        with _guard:
            found = _sessions.get(key)
            if found is None or found.ended:
                found = _sessions[key] = self._connect()
            return found

    def _connect(self) -> _Session:
        try:
            from kazoo.client import KazooClient  # noqa: PLC0415 - optional
        except ImportError:
            raise SetupError("ZooKeeper's lock needs kazoo: pip install 'pudi[zookeeper]'") from None
        wait_s = self._settings.zk_connection_timeout_ms / 1000
        client = KazooClient(self._place.hosts, timeout=self._settings.zk_session_timeout_ms / 1000, logger=_log)
        client.start_async().wait(wait_s)
        if not client.connected:
            # kazoo ends only when its attempt does, which may last for the timeout of a session
            self._context.executor.call_within(_CLOSING_S, lambda: _close(client))
            raise UnavailableError(
                f"no ZooKeeper server of {self._place.hosts} answers within {wait_s:g} s "
                f"({LockSettings.zk_connection_timeout_ms})",
                table=self.table,
            )
        return _Session(client, wait_s)

    def _enter(self, session: _Session, prefix: str) -> str:
        """Make our node; return its name. If the answer was lost, the prefix finds it (Curator's protection)."""
        from kazoo.exceptions import ConnectionLoss, NoNodeError  # noqa: PLC0415 - optional

        shown = f"application_id={self._settings.app_id}".encode()
        create, path = session.client.create_async, f"{self._place.path}/{prefix}"
        try:
            try:
                made = session.ask(create, path, shown, ephemeral=True, sequence=True)
            except NoNodeError:
                session.ask(session.client.ensure_path_async, self._place.path)
                made = session.ask(create, path, shown, ephemeral=True, sequence=True)
        except ConnectionLoss:
            found = [node for node in self._queue(session) if node.startswith(prefix)]
            if not found:
                raise
            return found[0]
        return basename(str(made))

    def _wait_turn(self, session: _Session, node: str, deadline: float) -> bool:
        """Wait until no node is before ours; whether that was so before the deadline.

        Raises:
            UnavailableError: the session expired meanwhile, and our node with it.
        """
        client, clock = session.client, self._context.clock
        while True:
            queue = self._queue(session)
            if node not in queue:
                raise UnavailableError("ZooKeeper's session expired while waiting for the lock", table=self.table)
            place = queue.index(node)
            if place == 0:
                return True
            changed = client.handler.event_object()
            before = session.ask(
                client.exists_async, f"{self._place.path}/{queue[place - 1]}", watch=partial(_set, changed)
            )
            if before is None:
                continue
            left = deadline - clock.monotonic()
            if left <= 0:
                return False
            changed.wait(min(left, _LOOK_AGAIN_S))

    def _queue(self, session: _Session) -> list[str]:
        """Names of all nodes, in Curator's order: by the text after the last `lock-`."""
        nodes = session.ask(session.client.get_children_async, self._place.path)
        return sorted(nodes, key=lambda name: name[name.rfind(_LOCK) + len(_LOCK) :] if _LOCK in name else name)

    def _delete(self, session: _Session, nodes: Callable[[], list[str]]) -> None:
        """Delete nodes of ours. If that isn't possible the session ends, and takes them along."""
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415 - optional

        try:
            for node in nodes():
                with suppress(NoNodeError):
                    session.ask(session.client.delete_async, f"{self._place.path}/{node}")
        except NoNodeError:
            return
        except Exception as error:  # noqa: BLE001 - whatever it was, the lock must not stay taken
            _log.warning("%s: the session with ZooKeeper ends, to free the lock: %s", self.table, cause_text(error))
            session.drop()
