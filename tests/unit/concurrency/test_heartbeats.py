"""Signs of life: who is taken for alive, and who for dead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from pudi.concurrency import Heartbeat, Liveness, liveness
from pudi.context import Context, ManualClock, Storage
from pudi.errors import UnavailableError
from pudi.format import heartbeat_path
from pudi.storage import StorageWrapper, open_storage
from pudi.testing import FaultStorage

T = TypeVar("T")
INSTANT = "20240101000001000"
EXPIRY_MS = 1000


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def found(storage: Storage, *, later_ms: int = 0) -> Liveness:
    """What is found of the writer, some time after its last beat."""
    clock = ManualClock(storage.head(heartbeat_path(INSTANT)).modified_ms + later_ms)
    return liveness(storage, INSTANT, Context(clock), expires_after_ms=EXPIRY_MS, last_seen_ms=0)


@contextmanager
def writer(root: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that gave its first sign of life."""
    code = f"""
import sys
from pudi.concurrency import Heartbeat
from pudi.context import Context
from pudi.storage import open_storage
Heartbeat(open_storage(sys.argv[1]), {INSTANT!r}, Context(), 3_600_000).start()
print("beating", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_writer_in_another_process_is_alive_until_it_is_killed(storage: Storage) -> None:
    with writer(storage.root) as process:
        assert found(storage, later_ms=EXPIRY_MS - 1) is Liveness.ALIVE
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, "its parent hasn't asked for it"
        assert found(storage) is Liveness.DEAD
        process.wait()
        assert found(storage) is Liveness.DEAD


def test_a_process_that_is_there_may_be_late_but_not_for_ever(storage: Storage) -> None:
    with writer(storage.root):
        assert found(storage, later_ms=9 * EXPIRY_MS) is Liveness.ALIVE
        assert found(storage, later_ms=11 * EXPIRY_MS) is Liveness.DEAD


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems know only the time of day")
def test_a_step_of_the_clock_kills_nobody(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer(storage.root):
        started = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda process: started(process) + 3600)
        assert found(storage) is Liveness.ALIVE


def test_a_process_with_the_same_number_is_not_the_writer(storage: Storage) -> None:
    with writer(storage.root) as process:
        facts = storage.read(heartbeat_path(INSTANT)).decode()
        waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(waits, stdin=subprocess.PIPE) as another:
            other = facts.replace(f'"pid": {process.pid}', f'"pid": {another.pid}')
            assert other != facts
            storage.put(heartbeat_path(INSTANT), other.encode())
            assert found(storage) is Liveness.DEAD


@pytest.mark.parametrize("pid", ["0", "-1", "1e400", "99999999999999999999", '"x"', "null"])
def test_a_number_that_is_no_process_tells_nothing(storage: Storage, pid: str) -> None:
    heart = Heartbeat(storage, INSTANT, Context(), 3_600_000)
    heart.start()
    facts = storage.read(heartbeat_path(INSTANT)).decode()
    heart.stop()
    storage.put(heartbeat_path(INSTANT), facts.replace(f'"pid": {os.getpid()}', f'"pid": {pid}').encode())
    assert found(storage) is Liveness.ALIVE
    assert found(storage, later_ms=EXPIRY_MS + 1) is Liveness.DEAD


@pytest.mark.parametrize(
    "facts", [b"", b"null", b"[]", b"{}", b"\xff", b'{"host": 1}', pytest.param(b"[" * 100_000, id="deep")]
)
def test_only_age_counts_for_what_hudi_writes(storage: Storage, facts: bytes) -> None:
    storage.put(heartbeat_path(INSTANT), facts)
    assert found(storage, later_ms=EXPIRY_MS) is Liveness.ALIVE
    assert found(storage, later_ms=EXPIRY_MS + 1) is Liveness.DEAD


def test_a_slow_answer_makes_no_writer_older(storage: Storage) -> None:
    storage.put(heartbeat_path(INSTANT), b"")
    clock = ManualClock(storage.head(heartbeat_path(INSTANT)).modified_ms + EXPIRY_MS // 2)

    class Slow(StorageWrapper):
        def read(self, path: str, most: int | None = None) -> bytes:
            clock.sleep(EXPIRY_MS)
            return super().read(path, most)

    looked = liveness(Slow(storage), INSTANT, Context(clock), expires_after_ms=EXPIRY_MS, last_seen_ms=0)
    assert looked is Liveness.ALIVE


def test_a_writer_of_this_process_is_alive_however_its_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "alias").symlink_to("table")
    heart = Heartbeat(open_storage(tmp_path / "table"), INSTANT, Context(), 3_600_000)
    heart.start()
    for name in ("table", "alias"):
        for root in (str(tmp_path / name), f"file://{tmp_path / name}"):
            assert found(open_storage(root)) is Liveness.ALIVE, root
    heart.stop(delete=False)
    assert found(open_storage(tmp_path / "table")) is Liveness.DEAD


class HeldStorage(StorageWrapper):
    """Holds back every put but the first until told."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.puts = 0
        self.held = threading.Event()
        self.go_on = threading.Event()

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        if kind == "put":
            self.puts += 1
            if threading.current_thread() is not threading.main_thread():
                self.held.set()
                assert self.go_on.wait(60)
        return do()


def test_a_slow_answer_to_the_first_beat_kills_nobody(storage: Storage) -> None:
    beaten = threading.Event()

    class SlowStorage(StorageWrapper):
        def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
            answer = do()
            if kind == "put" and threading.current_thread() is threading.main_thread():
                assert beaten.wait(60), "others would take the writer for dead"
            elif kind == "put":
                beaten.set()
            return answer

    heart = Heartbeat(SlowStorage(storage), INSTANT, Context(), 1)
    heart.start()
    heart.stop()
    assert not list(storage.list())


def test_a_first_beat_without_an_answer_is_no_sign_of_life(storage: Storage) -> None:
    lossy = FaultStorage(storage, fail_at=1, mode="lost_answer")
    with pytest.raises(UnavailableError):
        Heartbeat(lossy, INSTANT, Context(), 3_600_000).start()
    assert found(storage) is Liveness.DEAD, "the file is there, and nobody keeps it fresh"


@pytest.mark.parametrize("delete", [True, False])
def test_a_beat_under_way_does_not_outlive_the_writer(storage: Storage, delete: bool) -> None:
    slow = HeldStorage(storage)
    heart = Heartbeat(slow, INSTANT, Context(), 1)
    heart.start()
    assert slow.held.wait(60)
    stopping = threading.Thread(target=heart.stop, kwargs={"delete": delete})
    stopping.start()
    stopping.join(0.05)
    assert stopping.is_alive(), "the beat under way would make the file anew"
    slow.go_on.set()
    stopping.join(60)
    assert not stopping.is_alive()
    assert [info.path for info in storage.list()] == ([] if delete else [heartbeat_path(INSTANT)])
    assert not [thread for thread in threading.enumerate() if thread.name == f"pudi-heartbeat-{INSTANT}"]


def test_stopping_does_not_wait_for_the_next_beat(storage: Storage) -> None:
    heart = Heartbeat(storage, INSTANT, Context(), 3_600_000)  # longer than a test may last
    heart.start()
    heart.stop()
    assert list(storage.list()) == []
