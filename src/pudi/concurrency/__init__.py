"""Who may commit: locks, signs of life of writers, and conflicts between commits."""

from pudi.concurrency.conflicts import ConflictCheck, KeyScope
from pudi.concurrency.heartbeats import Heartbeat, Liveness, liveness
from pudi.concurrency.locks import open_lock
from pudi.concurrency.pending_plans import busy_groups, clustered_groups

__all__ = [
    "ConflictCheck",
    "Heartbeat",
    "KeyScope",
    "Liveness",
    "busy_groups",
    "clustered_groups",
    "liveness",
    "open_lock",
]
