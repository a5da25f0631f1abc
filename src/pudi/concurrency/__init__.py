"""Writers beside each other: heartbeats, claims on file groups, and conflicts between commits.

It decides about values and takes no lock. Begin with `conflicts`.
"""

from pudi.concurrency.claims import Claim, Claimed, read_claims
from pudi.concurrency.conflicts import (
    ConflictCheck,
    NonBlocking,
    TimelineBehindError,
    contradicted_clusterings,
    refuse_contradicted,
)
from pudi.concurrency.heartbeats import Heartbeat, Liveness, is_of_pudi, liveness
from pudi.concurrency.touched import (
    KeyScope,
    Reads,
    Touched,
    Unchanged,
)

__all__ = [
    "Claim",
    "Claimed",
    "ConflictCheck",
    "Heartbeat",
    "KeyScope",
    "Liveness",
    "NonBlocking",
    "Reads",
    "TimelineBehindError",
    "Touched",
    "Unchanged",
    "contradicted_clusterings",
    "is_of_pudi",
    "liveness",
    "read_claims",
    "refuse_contradicted",
]
