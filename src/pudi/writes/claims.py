"""Pessimistic writes: claim file groups between planning and writing, and plan again after a wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pudi.concurrency import Claim, Claimed, TimelineBehindError
from pudi.config import LockSettings
from pudi.plan import WritePlan
from pudi.writes.write_recipe import Placement, WriteSnapshot


@contextmanager
def claiming(write: WriteSnapshot) -> Iterator[Claim | None]:
    """Yield the claim of one attempt, which claims no partition yet; None for a writer without claims."""
    settings, options, meta = LockSettings.of(write.request.resolved), write.options, write.meta
    if not settings.claims:
        yield None
        return
    claim = Claim(
        meta.storage, meta.context, options.heartbeat_interval_ms, options.heartbeat_expiry_ms, settings.claim_wait_ms
    )
    try:
        yield claim
    finally:
        claim.release()


def take_claim(write: WriteSnapshot, placed: Placement, claim: Claim | None) -> None:
    """Claim what a write is about to change.

    Raises:
        TimelineBehindError: earlier claims were waited for, so the write must be planned again.
        BlockedError: they stood for too long.
    """
    if claim is None:
        return
    with write.phases.phase("claim"):
        waited = claim.take(_claimed(write, placed))
    if waited:
        raise TimelineBehindError("other writes have changed the same file groups", table=write.table)


def _claimed(write: WriteSnapshot, placed: Placement) -> Claimed:
    """Return what a write will change or reads: file groups where they are known, else partitions."""
    whole, inserts = set[str](), set[str]()
    if isinstance(placed.plan, WritePlan):
        inserts = {task.partition for task in placed.plan.tasks if task.location is None}
    elif placed.plan is not None:  # its tasks find out the file groups
        whole = {task.partition for task in placed.plan}
    if placed.reads is not None:
        whole |= set(placed.reads(write.meta.listing(write.timeline).partitions()))
    return Claimed(frozenset(placed.known_groups), frozenset(whole), frozenset(inserts))
