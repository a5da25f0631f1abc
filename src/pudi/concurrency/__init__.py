"""Locks, heartbeats of writers, and conflicts between commits."""

from pudi.concurrency.conflicts import ConflictCheck
from pudi.concurrency.heartbeats import Heartbeat, Liveness, liveness
from pudi.concurrency.locks import open_lock
from pudi.concurrency.pending_plans import busy_groups, closed_groups, clustered_groups
from pudi.concurrency.touched import KeyScope, Reads, Touched
from pudi.concurrency.unchanged import Unchanged

__all__ = [
    "ConflictCheck",
    "Heartbeat",
    "KeyScope",
    "Liveness",
    "Reads",
    "Touched",
    "Unchanged",
    "busy_groups",
    "closed_groups",
    "clustered_groups",
    "liveness",
    "open_lock",
]
