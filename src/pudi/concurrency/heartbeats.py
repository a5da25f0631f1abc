"""Signs of life: how a later writer tells a writer that died from one that is still at work."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pudi.context import Context, Storage, Timer
from pudi.context.runtime import lazy_module
from pudi.errors import NotFoundError, PudiError
from pudi.format import MaxBytes, heartbeat_path

if TYPE_CHECKING:
    import psutil
else:
    psutil = lazy_module("psutil")

_alive_here: set[str] = set()
"""Ids of this process' heartbeats; a table's location may be written in several ways."""

_HUNG_AFTER = 10
"""A writer whose process exists but whose heartbeat is older than this multiple of the expiry counts as dead. Without a
limit a hung process would block the table forever."""

_OVER = frozenset({"Z", "X", "x", "zombie", "dead"})
"""States of processes that ended, by letter (/proc) and by word (psutil): a killed one is listed as a zombie until its
parent asks for it."""


@dataclass(slots=True)
class Heartbeat:
    """The heartbeat file of one instant, kept fresh by a timer until stopped (HoodieHeartbeatClient).

    In Hudi the file is empty and only its age counts. pudi writes the process id into it, so that other processes on
    the same machine notice immediately that the writer is gone.

    Args:
        storage: the table's files.
        instant: requested time.
        context: source of its id and timer.
        interval_ms: time between two signs of life.
    """

    storage: Storage
    instant: str
    context: Context
    interval_ms: int
    _timer: Timer | None = field(default=None, init=False, repr=False)
    _id: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._id = self.context.new_id()

    def start(self) -> None:
        """Give the first sign of life and go on giving them in the background."""
        sign_on(self._id)  # before the file is there for this process' threads to see
        every = self.context.executor.every
        timer = every(self.interval_ms / 1000, self._beat, f"heartbeat-{self.instant}")
        try:
            self._put()  # the timer runs already: the store may write the file long before it answers
        except BaseException:
            timer.stop()
            sign_off(self._id)  # the file may be there all the same
            raise
        self._timer = timer

    def stop(self, *, delete: bool = True) -> None:
        """End the signs of life and, unless the writer is to be found dead, take the file away.

        Waits for a beat that is being written: it would make the file again after it was deleted.
        """
        if self._timer is not None:
            self._timer.stop()
        sign_off(self._id)
        if delete:
            self.storage.delete([heartbeat_path(self.instant)])

    def _beat(self) -> None:
        with suppress(PudiError):  # the next beat may get through; if none does, the heartbeat expires as it should
            self._put()

    def _put(self) -> None:
        facts = process_facts(self._id)  # empty, as Hudi's own, if the system won't tell
        self.storage.put(heartbeat_path(self.instant), json.dumps(facts).encode() if facts else b"")


class Liveness(Enum):
    """Liveness of the writer of a pending instant."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """It gives no heartbeat and was at work lately."""


def liveness(storage: Storage, instant: str, context: Context, *, expires_after_ms: int, last_seen_ms: int) -> Liveness:
    """Return whether the writer of a pending instant is still at work.

    A heartbeat older than the expiry belongs to a dead writer. For pudi's own writers on the same machine the process
    decides: without a process the writer is dead immediately; with one it may be late by up to ten times the expiry.

    Args:
        storage: the table's files.
        instant: requested time of the pending instant.
        context: the clock.
        expires_after_ms: age from which a sign of life counts no more.
        last_seen_ms: when the instant's files were last touched; counts for a writer that gives no heartbeat.
    """
    path, now_ms = heartbeat_path(instant), context.clock.now_ms()  # before a look that may take long
    try:
        beat = storage.head(path).modified_ms
        facts = storage.read(path, MaxBytes.NOTE)
    except NotFoundError:
        late = now_ms - last_seen_ms > expires_after_ms
        return Liveness.DEAD if late else Liveness.UNKNOWN
    return Liveness.DEAD if is_dead(facts, beat, now_ms, expires_after_ms=expires_after_ms) else Liveness.ALIVE


def is_dead(facts: bytes, beat_ms: int, now_ms: int, *, expires_after_ms: int) -> bool:
    """Return whether the writer of a sign of life is dead; see `liveness`.

    Args:
        facts: the file's content.
        beat_ms: when it was written, milliseconds since 1970.
        now_ms: what the clock said before the file was looked at: a slow answer makes no writer older.
        expires_after_ms: age from which it counts no more.
    """
    dead, age_ms = _known_dead(facts), now_ms - beat_ms
    if not dead:
        patience = 1 if dead is None else _HUNG_AFTER
        return age_ms > patience * expires_after_ms
    return dead


def sign_on(sign_id: str) -> None:
    """Note that this process gives signs of life with an id."""
    _alive_here.add(sign_id)


def sign_off(sign_id: str) -> None:
    """Note that it no longer does."""
    _alive_here.discard(sign_id)


def is_of_pudi(storage: Storage, instant: str) -> bool:
    """Return whether an instant has a heartbeat that pudi writes: its facts say so, where Hudi's is empty."""
    try:
        return storage.read(heartbeat_path(instant), MaxBytes.NOTE).startswith(b"{")
    except NotFoundError:
        return False


class _Process(NamedTuple):
    """A process as the system knows it: when it started, in the system's own unit, and whether it ended since."""

    started: float
    over: bool


def _known_dead(facts: bytes) -> bool | None:
    """Return whether the process of a heartbeat exists; None if this machine can't tell."""
    try:
        process = json.loads(facts)
        host, pid, started = str(process["host"]), int(process["pid"]), float(process["start"])
        here = process["id"] in _alive_here
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None  # Hudi's own heartbeat
    if host != _host() or not 0 < pid < 1 << 31:  # kill() takes 0 and less for groups of processes
        return None
    if pid == os.getpid():
        return not here  # the process is gone, or another one has its id
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's
    found = _process(pid)
    return None if found is None else found.over or found.started != started


def process_facts(sign_id: str) -> dict[str, Any]:
    """Return by what other processes on this machine know whether this one lives; empty if the system won't tell."""
    process = _process(os.getpid())
    if process is None:
        return {}
    return {"host": _host(), "pid": os.getpid(), "start": process.started, "id": sign_id}


def _process(pid: int) -> _Process | None:
    """A process, or None when the system won't tell.

    Linux counts its start in ticks since the boot (/proc/<pid>/stat, field 22), which no change of the clock touches;
    psutil makes a time of day of them.
    """
    try:
        # The second field is the program's name in parentheses, and may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return _Process(int(fields[19]), fields[0].decode() in _OVER)
    except (OSError, ValueError, IndexError):
        pass
    try:
        other = psutil.Process(pid)
        return _Process(other.create_time(), other.status() in _OVER)
    except psutil.ZombieProcess:
        return _Process(0, over=True)
    except psutil.Error:
        return None


def _host() -> str:
    """Identity of the machine and its process namespace, within which a process id means something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{os.uname().nodename}/{psutil.boot_time():.0f}"
