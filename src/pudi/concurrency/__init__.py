"""Who may commit: locks, signs of life of writers, and conflicts between commits."""

from pudi.concurrency.conflicts import ConflictCheck
from pudi.concurrency.heartbeats import Heartbeat, Liveness, liveness
from pudi.concurrency.locks import open_lock

__all__ = ["ConflictCheck", "Heartbeat", "Liveness", "liveness", "open_lock"]
