"""The phases of an action: timed, logged, and reported as progress."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pudi.client.meta_client import MetaClient
from pudi.client.result import CommitResult
from pudi.context import Clock
from pudi.context.progress import phase
from pudi.format import CommitMetadata
from pudi.hooks.measure import note_start
from pudi.indexes.kind import RemovedFiles
from pudi.timeline import Instant

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Phases:
    """The seconds that each phase of an action takes; a phase may come more than once.

    Attributes:
        table: the table's root.
        action: the action's name in the log and in progress reports.
        clock: the table's clock.
        began: when the action began, on that clock.
        seconds: by phase.
    """

    table: str
    action: str
    clock: Clock
    began: float
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, meta: MetaClient, action: str) -> Phases:
        """Return the phases of an action that begins now."""
        clock = meta.context.clock
        note_start(meta)
        return cls(meta.storage.root, action, clock, clock.monotonic())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block as a phase, and report it."""
        began = self.clock.monotonic()
        with phase(self.table, self.action, name):
            yield
        seconds = self.clock.monotonic() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        _log.info("table %s: %s: %s took %.2f s", self.table, self.action, name, seconds)

    def result(self, done: Instant, written: CommitMetadata, removed: RemovedFiles | None = None) -> CommitResult:
        """Return the result of the completed action, and log it."""
        deleted = 0 if removed is None else sum(map(len, removed.files.values()))
        result = CommitResult.of(done, written, self.clock.monotonic() - self.began, self.seconds, deleted)
        _log.info("table %s: %s", self.table, result)
        return result
