"""The lock in ZooKeeper: the contract, Curator's nodes, sessions that end, and Hudi's own provider beside it."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.context import Context
from pudi.locks.locks import open_lock
from pudi.locks.table_lock import TableLock
from pudi.storage import open_storage
from pudi.testing import LockTests
from support.hudi_lock import hudi_bundle, hudi_lock
from support.zookeeper import ZookeeperServer, serve_zookeeper

pytest.importorskip("kazoo")
from kazoo.client import KazooClient

__all__ = ["hudi_bundle"]

_numbers = itertools.count()
PACKAGE = "org.apache.hudi.client.transaction.lock."
KEY = "hoodie.write.lock."
NODE = re.compile(r"_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-\d{10}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    with serve_zookeeper(tmp_path_factory.mktemp("zookeeper")) as served:
        yield served


@pytest.fixture
def options(server: ZookeeperServer) -> dict[str, str]:
    return {
        f"{KEY}provider": f"{PACKAGE}ZookeeperBasedLockProvider",
        f"{KEY}zookeeper.url": server.hosts,
        f"{KEY}zookeeper.base_path": f"/hudi/{next(_numbers)}",
        f"{KEY}zookeeper.lock_key": "table",
        f"{KEY}zookeeper.connection_timeout_ms": "60000",
        f"{KEY}app_id": "app-7",
    }


@pytest.fixture
def client(server: ZookeeperServer) -> Iterator[Any]:
    found = KazooClient(server.hosts)
    found.start()
    yield found
    found.stop()
    found.close()


def path_of(options: Mapping[str, str]) -> str:
    return f"{options[f'{KEY}zookeeper.base_path']}/{options[f'{KEY}zookeeper.lock_key']}"


def lock_of(options: Mapping[str, str], **changed: str) -> TableLock:
    given = {**options, **{f"{KEY}{key}": value for key, value in changed.items()}}
    return open_lock(open_storage("memory://zoo"), given[f"{KEY}provider"], given, Context(), "t")


class TestContract(LockTests):
    name = "ZookeeperBasedLockProvider"

    @pytest.fixture
    def lock_options(self, options: dict[str, str]) -> Mapping[str, str]:
        return options

    @pytest.fixture
    def steal(self, options: dict[str, str], client: Any) -> Callable[[], None]:
        def end() -> None:
            for node in client.get_children(path_of(options)):
                client.delete(f"{path_of(options)}/{node}")

        return end


class TestImplicitContract(LockTests):
    name = f"{PACKAGE}ZookeeperBasedImplicitBasePathLockProvider"

    @pytest.fixture
    def lock_options(self, server: ZookeeperServer) -> Mapping[str, str]:
        return {f"{KEY}zookeeper.url": server.hosts}


def test_the_nodes_are_curators(options: dict[str, str], client: Any) -> None:
    with lock_of(options):
        (node,) = client.get_children(path_of(options))
        assert NODE.fullmatch(node)
        data, stat = client.get(f"{path_of(options)}/{node}")
        assert data == b"application_id=app-7"
        assert stat.ephemeralOwner
    assert client.get_children(path_of(options)) == []
    assert client.get(path_of(options))[1].ephemeralOwner == 0


@pytest.mark.parametrize("node", ["_c_ffffffff-0000-4000-8000-000000000000-lock-", "lock-"])
def test_whoever_came_first_holds_it(
    options: dict[str, str], client: Any, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pudi.locks.zookeeper_lock._LOOK_AGAIN_S", 3600.0)  # so that only the watch wakes it
    client.ensure_path(path_of(options))
    first = client.create(f"{path_of(options)}/{node}", b"application_id=hudi", ephemeral=True, sequence=True)
    with pytest.raises(pudi.UnavailableError, match=r"lock-0000000000 \(application_id=hudi\)"):
        lock_of(options, wait_time_ms="50").__enter__()
    threading.Timer(0.3, client.delete, [first]).start()
    with lock_of(options):
        assert not client.exists(first)


def test_a_holder_that_was_suspended_publishes_nothing(options: dict[str, str], tmp_path: Path, client: Any) -> None:
    """A process that is stopped while it holds the lock, for longer than its session lasts; another one writes."""
    options[f"{KEY}zookeeper.session_timeout_ms"] = "4000"
    rows = pa.table({"id": [1]})
    table = pudi.create(tmp_path / "t", rows.schema, record_key="id", options=options)
    program = (
        "import sys, pudi, pyarrow as pa\n"
        "from pudi.locks.lock_provider import ProvidedLock\n"
        "verify, calls, options = ProvidedLock.verify, [], dict(a.split('=', 1) for a in sys.argv[2:])\n"
        "def paused(self):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 2: print('about to commit', flush=True); sys.stdin.readline()\n"
        "    verify(self)\n"
        "ProvidedLock.verify = paused\n"
        "try: pudi.Table(sys.argv[1], options=options).upsert(pa.table({'id': [2]}))\n"
        "except pudi.ConflictError as error: print('lost:', error)\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "t"), *(f"{k}={v}" for k, v in options.items())]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "about to commit\n"
        writer.send_signal(signal.SIGSTOP)
        with lock_of(options, wait_time_ms="120000"):  # free once ZooKeeper has ended the session
            pass
        writer.send_signal(signal.SIGCONT)
        told, _ = writer.communicate("go on\n", timeout=120)
    assert "lost: the table's lock was lost" in told
    assert pudi.Table(table.path).scan().to_arrow().num_rows == 0


def test_a_session_that_ended_takes_the_lock_along(options: dict[str, str]) -> None:
    lock = lock_of(options)
    with pytest.raises(pudi.ConflictError, match="ZookeeperBasedLockProvider"), lock:
        session = lock._provider._session  # type: ignore[attr-defined]
        twin = KazooClient(options[f"{KEY}zookeeper.url"], client_id=session.client.client_id)
        twin.start()
        twin.stop()  # ends the session of both
        twin.close()
        lock.verify()
    with lock:  # by a new session
        lock.verify()


def test_no_server_is_an_error_in_time(options: dict[str, str]) -> None:
    with pytest.raises(pudi.UnavailableError, match=r"127.0.0.1:1 answers within 0.2 s"):
        lock_of(options, **{"zookeeper.url": "127.0.0.1:1", "zookeeper.connection_timeout_ms": "200"}).__enter__()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"zookeeper.url": ""}, "zookeeper.url must be set"),
        ({"zookeeper.base_path": ""}, "zookeeper.base_path must be set"),
        ({"zookeeper.base_path": "hudi"}, "begins with '/'"),
        ({"zookeeper.url": "zoo1,zoo2:2182", "zookeeper.port": "2182"}, "isn't the port of zoo1"),
    ],
)
def test_what_cant_be_is_refused_when_the_table_is_opened(
    options: dict[str, str], changed: dict[str, str], message: str
) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=message):
        lock_of(options, **changed)


def test_the_key_is_the_tables_name_by_default(options: dict[str, str], client: Any) -> None:
    del options[f"{KEY}zookeeper.lock_key"]
    with lock_of(options):
        assert client.get_children(options[f"{KEY}zookeeper.base_path"]) == ["t"]


@pytest.mark.interop
@pytest.mark.parametrize("implicit", [False, True])
def test_hudis_provider_and_pudi_exclude_each_other(
    options: dict[str, str], implicit: bool, hudi_bundle: Path, tmp_path: Path
) -> None:
    name = f"{PACKAGE}ZookeeperBased{'ImplicitBasePath' if implicit else ''}LockProvider"
    root = tmp_path / "t"
    options = {**options, f"{KEY}provider": name}
    file = tmp_path / "number"
    file.write_text("0")

    def lock(wait_ms: int = 60_000) -> TableLock:
        given = {**options, f"{KEY}wait_time_ms": str(wait_ms)}
        return open_lock(open_storage(root), name, given, Context(), "t")

    with hudi_lock(hudi_bundle, name, {**options, "hoodie.base.path": str(root)}, tmp_path / "log") as hudi:
        assert hudi.lock(60)
        with pytest.raises(pudi.UnavailableError, match="application_id=app-7"):
            lock(200).__enter__()
        hudi.unlock()
        with lock():
            assert not hudi.lock(0.3)
        assert hudi.lock(60)
        hudi.unlock()
        ended, done = hudi.start_counting(file, 2), 0
        end = time.monotonic() + 1
        while time.monotonic() < end or not done:
            with lock():
                file.write_text(str(int(file.read_text()) + 1))
            done += 1
        theirs = ended()
    assert min(done, theirs) > 0
    assert int(file.read_text()) == done + theirs
