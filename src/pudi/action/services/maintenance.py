"""One call that does all that a table needs: what writers left, pending plans, services that are due, orphaned files.

Services run in the order of the registry: compactions and clusterings make old slices, which cleans delete, and then
commits can be archived. Then the metadata table has its turn.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum

from pudi.action.meta_client import MetaClient
from pudi.action.orphans import find_orphans, remove_orphans
from pudi.action.rollback import dead_writes, refuse_pending_restore, repair
from pudi.action.services.lease import is_available
from pudi.action.services.registry import SERVICES, planned_services
from pudi.action.services.runner import PENDING, run, run_instant
from pudi.action.services.service import LockedService, PlannedService, TableService
from pudi.action.services.target import ServiceTarget
from pudi.config import Options, WriteOptions
from pudi.errors import PudiError
from pudi.task import Engine

_log = logging.getLogger(__name__)

FAILED_WRITES, ORPHANS = "failed writes", "orphaned files"
"""Steps that are no services."""
TABLE, METADATA_TABLE = "table", "metadata table"
"""What a step works on."""


class Outcome(str, Enum):
    """What became of a step."""

    DONE = "done"
    """It was done."""
    DUE = "due"
    """It would have been done: with `dry_run`."""
    NOTHING = "nothing to do"
    """It was due, and there was nothing to do."""
    LEFT = "left"
    """It isn't due, or somebody else is at it."""
    FAILED = "failed"
    """It was due, and failed; the other steps were done."""


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """One step of a maintenance.

    Attributes:
        name: the service's name, `failed writes` or `orphaned files`.
        on: `table` or `metadata table`.
        outcome: what became of it.
        reason: why it was done or left; of a failure the error.
        instant: requested time of the instant that did it, or that is in its way; None without one.
    """

    name: str
    on: str
    outcome: Outcome
    reason: str
    instant: str | None = None

    def __str__(self) -> str:
        at = f" ({self.instant})" if self.instant else ""
        return f"{self.outcome.value:13} {self.name} of the {self.on}{at}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What a maintenance did.

    Attributes:
        path: the table's root.
        steps: in the order in which they were done.
        dry_run: whether nothing was changed.
    """

    path: str
    steps: tuple[MaintenanceStep, ...] = field(default_factory=tuple)
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether no step failed."""
        return all(step.outcome is not Outcome.FAILED for step in self.steps)

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(asdict(self) | {"ok": self.ok}, indent=2)

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)


def maintain(meta: MetaClient, engine: Engine, options: Options, *, dry_run: bool = False) -> Maintenance:
    """Do all that a table needs, or say what that is.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: what is due, and what stays.
        dry_run: change nothing.

    Raises:
        BlockedError: a restore is pending.
        CorruptError: the table's properties or its timeline can't be read.
    """
    meta.reload()
    refuse_pending_restore(meta, meta.store.load())
    steps: list[MaintenanceStep] = []
    work = _Work(steps, dry_run=dry_run)
    write_options = WriteOptions.of(options)
    dead = dead_writes(meta, write_options)
    if dead:
        what = f"rolled back: {', '.join(each.requested for each in dead)}, whose writers died"
        work.step(FAILED_WRITES, TABLE, what, lambda: repair(meta, write_options))
    work.on(ServiceTarget.of_table(meta, engine, options))
    meta.reload()
    if meta.config.metadata_partitions:
        work.on(ServiceTarget.of_metadata_table(meta, engine, options))
    orphans = find_orphans(meta)
    if orphans:
        found = [path for path, _ in orphans.describe()]
        work.step(ORPHANS, TABLE, f"{len(found)} are left of writes that are over", lambda: remove_orphans(meta))
    return Maintenance(meta.storage.root, tuple(steps), dry_run)


@dataclass(frozen=True, slots=True)
class _Work:
    """The steps of one maintenance."""

    steps: list[MaintenanceStep]
    dry_run: bool

    def on(self, target: ServiceTarget) -> None:
        """Run the pending plans of a table, then the services that are due."""
        name = METADATA_TABLE if target.is_metadata else TABLE
        for planned in planned_services():
            self._run_pending(planned, target, name)
        for service in SERVICES:
            self._run_due(service, target, name)

    def step(self, name: str, on: str, reason: str, work: Callable[[], object], instant: str | None = None) -> None:
        """Do one step; an error doesn't keep the others from being done."""
        if self.dry_run:
            self.steps.append(MaintenanceStep(name, on, Outcome.DUE, reason, instant))
            return
        try:
            done = work()
        except PudiError as error:
            _log.warning("the %s of the %s failed: %s", name, on, error, exc_info=True)
            self.steps.append(MaintenanceStep(name, on, Outcome.FAILED, f"{type(error).__name__}: {error}", instant))
            return
        outcome = Outcome.DONE if done else Outcome.NOTHING
        self.steps.append(MaintenanceStep(name, on, outcome, reason, getattr(done, "instant", None) or instant))

    def _run_pending(self, service: PlannedService, target: ServiceTarget, on: str) -> None:
        for pending in (each for each in target.load_timeline().of(service.action, *PENDING)):
            if is_available(target.meta, pending, target.write_options):
                self.step(
                    service.name,
                    on,
                    "its plan was pending",
                    lambda instant=pending: run_instant(service, target, instant),  # type: ignore[misc]
                    pending.requested,
                )
            else:
                left = MaintenanceStep(service.name, on, Outcome.LEFT, "another process runs it", pending.requested)
                self.steps.append(left)

    def _run_due(self, service: TableService, target: ServiceTarget, on: str) -> None:
        try:
            need = service.need(target, target.load_timeline())
        except PudiError as error:
            self.steps.append(MaintenanceStep(service.name, on, Outcome.FAILED, f"{type(error).__name__}: {error}"))
            return
        if need is None:
            return
        if not need.due:
            self.steps.append(MaintenanceStep(service.name, on, Outcome.LEFT, need.reason))
        elif isinstance(service, LockedService):
            self.step(service.name, on, need.reason, lambda: service.run(target))
        else:
            assert isinstance(service, PlannedService)
            self.step(service.name, on, need.reason, lambda: run(service, target, when_due=True))
