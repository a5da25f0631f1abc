"""Who may commit: locks, signs of life of writers, and conflicts between commits."""

from pudi.concurrency.conflicts import check_conflicts
from pudi.concurrency.heartbeats import Heartbeat, Liveness, liveness
from pudi.concurrency.locks import open_lock

__all__ = ["Heartbeat", "Liveness", "check_conflicts", "liveness", "open_lock"]
