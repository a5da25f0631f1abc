"""Who may commit: locks, signs of life of writers, and conflicts between commits."""

from pudi.concurrency.conflicts import ConflictCheck, KeyScope
from pudi.concurrency.heartbeats import Heartbeat, Liveness, liveness
from pudi.concurrency.locks import open_lock

__all__ = ["ConflictCheck", "Heartbeat", "KeyScope", "Liveness", "liveness", "open_lock"]
