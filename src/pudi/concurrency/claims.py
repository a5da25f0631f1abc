"""Claims: writers of the same file groups that queue instead of working in vain (pessimistic concurrency).

A claim is a file that names what a write will change. Writers wait for those claims on the same file groups that were
made before theirs, then plan again. Claims keep the order of writers and save lost work; whether a commit is right is
still decided under the table's lock. Hudi has no such mode and passes over the files.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from posixpath import basename
from typing import Any

from pudi.concurrency.heartbeats import is_dead, process_facts, sign_off, sign_on
from pudi.context import Context, Storage, Timer
from pudi.errors import BlockedError, CorruptError, NotFoundError, PudiError
from pudi.format import CLAIMS_DIR, FileGroupId, MaxBytes
from pudi.storage import is_near

_log = logging.getLogger(__name__)

_MOST_GROUPS, _MOST_PARTITIONS = 4_000, 2_000
"""Limits of a claim: a write of more file groups claims partitions, of more partitions the table."""
_FIRST_PAUSE, _NEAR_PAUSE, _FAR_PAUSE = 0.02, 0.05, 1.0
"""Seconds between two looks at earlier claims: at first, and at most on this machine's disks and elsewhere."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """File groups, partitions or table that a write claims.

    Attributes:
        groups: file groups that it updates or replaces.
        partitions: partitions that it reads, or in which it may change every file group.
        inserts: partitions that get new file groups.
        all: whether it claims the whole table.
    """

    groups: frozenset[FileGroupId] = frozenset()
    partitions: frozenset[str] = frozenset()
    inserts: frozenset[str] = frozenset()
    all: bool = False

    def meets(self, other: Claimed) -> bool:
        """Return whether two writes exclude each other."""
        mine, others = self._touched, other._touched
        return bool(
            self.groups & other.groups
            or self.partitions & others
            or other.partitions & mine
            or (self.all and others)
            or (other.all and mine)
            or (self.all and other.all)
        )

    def including(self, other: Claimed) -> Claimed:
        """Return both."""
        sets = (self.groups | other.groups, self.partitions | other.partitions, self.inserts | other.inserts)
        return Claimed(*sets, all=self.all or other.all)

    @property
    def _touched(self) -> frozenset[str]:
        return self.partitions | self.inserts | {partition for partition, _ in self.groups}

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the claim's file."""
        groups, partitions, inserts = self.groups, self.partitions, self.inserts
        if len(groups) > _MOST_GROUPS:
            groups, partitions = frozenset(), partitions | {partition for partition, _ in groups}
        if self.all or len(partitions) + len(inserts) > _MOST_PARTITIONS:
            return {"all": True}
        return {"groups": sorted(groups), "partitions": sorted(partitions), "inserts": sorted(inserts)}

    @classmethod
    def from_json(cls, content: bytes) -> Claimed:
        """Return what a claim's file says; a damaged one claims nothing, since claims only order writers."""
        try:
            stored = json.loads(content)
            if stored.get("all") is True:
                return cls(all=True)
            groups = frozenset(FileGroupId(str(partition), str(file_id)) for partition, file_id in stored["groups"])
            partitions, inserts = (frozenset(map(str, stored[name])) for name in ("partitions", "inserts"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls()
        return cls(groups, partitions, inserts)


@dataclass(slots=True)
class Claim:
    """The claim of one write, kept alive until it's released.

    Args:
        storage: the table's files.
        context: clock, chance and timers.
        interval_ms: time between two signs of life.
        expiry_ms: age from which the claim of another machine's writer counts no more.
        wait_ms: the longest wait for earlier claims.
    """

    storage: Storage
    context: Context
    interval_ms: int
    expiry_ms: int
    wait_ms: int
    _claimed: Claimed = field(default_factory=Claimed, init=False)
    _name: str = field(default="", init=False)
    _id: str = field(default="", init=False)
    _timer: Timer | None = field(default=None, init=False, repr=False)

    def take(self, wanted: Claimed) -> bool:
        """Claim what a write will change, and wait for earlier claims on it.

        A write that claims more than before keeps its place in the queue.

        Returns:
            Whether it waited: the write must then be planned again.

        Raises:
            BlockedError: an earlier claim stood for longer than `wait_ms`.
        """
        both = self._claimed.including(wanted)
        if both == self._claimed:
            return False
        self._claimed = both
        self._announce()
        began, waited, pause = self.context.clock.monotonic(), False, _FIRST_PAUSE
        longest = _NEAR_PAUSE if is_near(self.storage) else _FAR_PAUSE
        while ahead := next(self._ahead(), None):
            if (self.context.clock.monotonic() - began) * 1000 > self.wait_ms:
                raise BlockedError(
                    f"another writer has claimed file groups of this write for more than {self.wait_ms / 1000:g} s; "
                    "try again when it's done",
                    table=self.storage.root,
                    path=ahead,
                )
            if not waited:
                _log.info("%s: waiting for the write that made %s", self.storage.root, ahead)
            waited = True
            self.context.clock.sleep(self.context.uniform(pause / 2, pause))
            pause = min(2 * pause, longest)
        return waited

    def release(self) -> None:
        """Let the next writer go on."""
        if self._timer is not None:
            self._timer.stop()
        if self._name:
            sign_off(self._id)
            with suppress(PudiError):  # others find that its writer is gone
                self.storage.delete([f"{CLAIMS_DIR}/{self._name}"])
        self._timer, self._name, self._claimed = None, "", Claimed()

    def _announce(self) -> None:
        if not self._name:
            self._id = self.context.writer_id()
            self._name = f"{self.context.clock.now_ms():015d}-{self._id}"
            sign_on(self._id)
        self._write()
        if self._timer is None:
            every = self.context.executor.every
            self._timer = every(self.interval_ms / 1000, self._beat, "claim")

    def _beat(self) -> None:
        with suppress(PudiError):  # the next beat may get through
            self._write()

    def _write(self) -> None:
        content = {**process_facts(self._id), **self._claimed.to_json()}
        self.storage.put(f"{CLAIMS_DIR}/{self._name}", json.dumps(content).encode())

    def _ahead(self) -> Iterator[str]:
        """Yield the claims that this one waits for; delete those of dead writers."""
        for each in read_claims(self.storage, self.context, self.expiry_ms, before=self._name):
            if each.is_dead:
                self.storage.delete([each.path])
            elif each.claimed.meets(self._claimed):
                yield each.path


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """A claim's file.

    Attributes:
        path: relative to the table's root.
        claimed: what it says.
        is_dead: whether its writer is dead.
    """

    path: str
    claimed: Claimed
    is_dead: bool


def read_claims(
    storage: Storage, context: Context, expiry_ms: int, *, before: str | None = None
) -> Iterator[StoredClaim]:
    """Yield the claims on a table, oldest first.

    Args:
        storage: the table's files.
        context: the clock.
        expiry_ms: age from which the claim of another machine's writer counts no more.
        before: only claims with a lesser name; None for all.
    """
    now_ms = context.clock.now_ms()  # before a look that may take long
    for info in sorted(storage.list_dir(CLAIMS_DIR)[0], key=lambda info: info.path):
        if before is not None and basename(info.path) >= before:
            return
        try:
            content = storage.read(info.path, MaxBytes.NOTE)
        except NotFoundError:  # released
            continue
        except CorruptError:  # too large: it's none of pudi's
            content = b""
        dead = is_dead(content, info.modified_ms, now_ms, expires_after_ms=expiry_ms)
        yield StoredClaim(info.path, Claimed.from_json(content), dead)
