"""Signs of life: how a later writer tells a writer that died from one that is still at work."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import psutil

from pudi.context import Context, Storage
from pudi.errors import NotFoundError, PudiError
from pudi.format import heartbeat_path

_alive_here: set[tuple[str, str]] = set()
"""Heartbeats of this process: (table root, instant)."""


@dataclass(slots=True)
class Heartbeat:
    """The heartbeat file of one instant, kept fresh by a thread until stopped (HoodieHeartbeatClient).

    Hudi's file is empty and its age is all that counts. pudi writes into it which process it is, so that another
    process on the same machine knows at once when that process is gone.

    Args:
        storage: the table's files.
        instant: requested time.
        context: the clock.
        interval_ms: time between two signs of life.
    """

    storage: Storage
    instant: str
    context: Context
    interval_ms: int
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def start(self) -> None:
        """Give the first sign of life and go on giving them in the background."""
        self.storage.put(heartbeat_path(self.instant), _process_facts())
        _alive_here.add((self.storage.root, self.instant))
        threading.Thread(target=self._beat, name=f"pudi-heartbeat-{self.instant}", daemon=True).start()

    def stop(self, *, delete: bool = True) -> None:
        """End the signs of life and, unless the writer is to be found dead, take the file away."""
        self._stopped.set()
        _alive_here.discard((self.storage.root, self.instant))
        if delete:
            self.storage.delete([heartbeat_path(self.instant)])

    def _beat(self) -> None:
        while not self._stopped.wait(self.interval_ms / 1000):
            try:
                self.storage.put(heartbeat_path(self.instant), _process_facts())
            except PudiError:  # the next beat may get through; if none does, the heartbeat expires as it should
                continue


class Liveness(Enum):
    """What can be told of the writer of a pending instant."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """It gives no heartbeat and was at work lately."""


def liveness(storage: Storage, instant: str, context: Context, *, expires_after_ms: int, last_seen_ms: int) -> Liveness:
    """Whether the writer of a pending instant is still at work.

    Args:
        storage: the table's files.
        instant: requested time of the pending instant.
        context: the clock.
        expires_after_ms: age from which a sign of life counts no more.
        last_seen_ms: when the instant's files were last touched; counts for a writer that gives no heartbeat.
    """
    path = heartbeat_path(instant)
    now_ms = context.clock.now_ms()
    try:
        beat = storage.head(path).modified_ms
        facts = storage.read(path)
    except NotFoundError:
        return Liveness.UNKNOWN if now_ms - last_seen_ms <= expires_after_ms else Liveness.DEAD
    dead = _known_dead(storage.root, instant, facts)
    if dead is None:
        dead = now_ms - beat > expires_after_ms
    return Liveness.DEAD if dead else Liveness.ALIVE


def _known_dead(root: str, instant: str, facts: bytes) -> bool | None:
    """Whether the process of a heartbeat is surely gone or surely there; None where that can't be told from here."""
    try:
        process = json.loads(facts)
        host, pid, started = str(process["host"]), int(process["pid"]), float(process["started"])
    except (ValueError, KeyError, TypeError):
        return None  # Hudi's own heartbeat
    if host != _host():
        return None
    if pid == os.getpid():
        return (root, instant) not in _alive_here
    try:
        return bool(abs(psutil.Process(pid).create_time() - started) > 1)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return None


def _process_facts() -> bytes:
    started = psutil.Process().create_time()
    return json.dumps({"host": _host(), "pid": os.getpid(), "started": started}).encode()


def _host() -> str:
    """Identity of the machine and its process namespace, within which a process id means something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{os.uname().nodename}/{psutil.boot_time():.0f}"
