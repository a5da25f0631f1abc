"""Maintain a table in one call: roll back dead writers, run pending plans and due services, delete orphaned files.

Services run in the order of the registry: compactions and clusterings make old slices, which cleans delete, and then
commits can be archived. Then the metadata table has its turn.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import partial

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import dead_writes, finished_writes, refuse_pending_restore, repair_dead_writes
from pudi.commit.lease import PlanDisplacedError, PlanTakenError, is_available
from pudi.config import Options
from pudi.errors import PudiError
from pudi.format import Action
from pudi.indexing.indexing import run_pending_indexes
from pudi.indexing.rebuild import finish_rebuild
from pudi.services import registry
from pudi.services.compaction import LEFT_TO_WRITES, holds_newest
from pudi.services.failures import (
    ServiceFailure,
    clear_failure,
    failure_text,
    failures,
    is_resting,
    not_aside,
    note_outcome,
    plans_aside,
)
from pudi.services.orphans import find_orphans, remove_orphans
from pudi.services.runner import run_due, run_instant
from pudi.services.service import PlannedService, TableService
from pudi.services.target import ServiceTarget
from pudi.task import Engine
from pudi.timeline import Instant
from pudi.upgrade.upgrade import finish_pending
from pudi.upgrade.upgrade_intent import read_intent

_log = logging.getLogger(__name__)

FAILED_WRITES, ORPHANS, INDEXES, UPGRADE = "failed writes", "orphaned files", "indexes", "upgrade"
"""Steps of a maintenance that aren't table services."""
TABLE, METADATA_TABLE = "table", "metadata table"
"""Tables that a step works on."""


class Outcome(str, Enum):
    """The outcome of a step."""

    DONE = "done"
    """It was done."""
    DUE = "due"
    """It would have been done: with `dry_run`."""
    NOTHING = "nothing to do"
    """It was due, and there was nothing to do."""
    LEFT = "left"
    """It isn't due, another process runs it, or it gave way to a write."""
    FAILED = "failed"
    """It was due, and failed, or it rests after failures; the other steps were done."""


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """One step of a maintenance.

    Attributes:
        name: the service's name, `failed writes`, `upgrade`, `indexes` or `orphaned files`.
        on: `table` or `metadata table`.
        outcome: its outcome.
        reason: why it was done or left; of a failure the error.
        instant: requested time of the instant that did it, or that is in its way; None without one.
        seconds: how long it took.
    """

    name: str
    on: str
    outcome: Outcome
    reason: str
    instant: str | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        at = f" ({self.instant})" if self.instant else ""
        return f"{self.outcome.value:13} {self.name} of the {self.on}{at}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Result of a maintenance.

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


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """Request of a maintenance: its extent, and who hears of its steps.

    Attributes:
        dry_run: change nothing.
        orphans: search the table's folders for files of dead writers, too.
        report: gets each step when it's over.
        stopping: asked before each step; where it's true, what isn't begun is left.
    """

    dry_run: bool = False
    orphans: bool = True
    report: Callable[[MaintenanceStep], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False


def maintain(meta: MetaClient, engine: Engine, options: Options, request: MaintenanceRequest) -> Maintenance:
    """Run all the maintenance that a table needs, or report it.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: what is due, and what stays.
        request: what to search for, and whether to change anything.

    Raises:
        BlockedError: a restore is pending.
        CorruptError: the table's properties or its timeline can't be read.
    """
    meta.reload()
    snapshot = TableSnapshot.load(meta, options)
    refuse_pending_restore(snapshot)
    work = _Work(meta, request)
    pending = read_intent(meta)
    if pending is not None:
        what = f"from version {pending.old} to {pending.new}, whose process died: completed"
        work.step(UPGRADE, TABLE, what, lambda: finish_pending(meta, engine, options))
        if work.steps[-1].outcome is not Outcome.DONE:
            return Maintenance(meta.storage.root, tuple(work.steps), request.dry_run)
        meta = meta.now()
        snapshot = TableSnapshot.load(meta, options)
    dead = dead_writes(snapshot)
    if dead:
        what = f"rolled back: {', '.join(each.requested for each in dead)}, whose writers died"
        work.step(FAILED_WRITES, TABLE, what, lambda: repair_dead_writes(meta, options))
    over = [] if dead else finished_writes(snapshot)
    if over:
        what = f"markers and heartbeats deleted: {', '.join(over)}, whose writers died after their commit"
        work.step(FAILED_WRITES, TABLE, what, lambda: repair_dead_writes(meta, options))
    work.on(ServiceTarget.of_table(meta, engine, options))
    building = meta.store.load().pending_of(Action.INDEXING)
    if building:
        plans = f"plans are pending: {', '.join(each.requested for each in building)}"
        work.step(INDEXES, TABLE, plans, lambda: run_pending_indexes(meta, engine, options))
    meta.reload()
    noted = meta.config.metadata_partitions_to_rebuild
    if noted:
        what = f"a process died that had deleted them to rebuild them: {', '.join(noted)}"
        work.step(INDEXES, TABLE, what, lambda: finish_rebuild(meta, engine, options).built)
    if meta.config.metadata_partitions:
        work.on_metadata_table(meta, engine, options)
    left = len(list(find_orphans(meta).describe())) if request.orphans else 0
    if left:
        work.step(ORPHANS, TABLE, f"{left} are left of writes that are over", lambda: remove_orphans(meta))
    return Maintenance(meta.storage.root, tuple(work.steps), request.dry_run)


@dataclass(frozen=True, slots=True)
class _Work:
    """The steps of one maintenance; arguments as of `maintain`."""

    meta: MetaClient
    request: MaintenanceRequest
    steps: list[MaintenanceStep] = field(default_factory=list)

    def on_metadata_table(self, meta: MetaClient, engine: Engine, options: Options) -> None:
        """Run the pending plans and due services of a table's metadata table."""
        try:
            target = ServiceTarget.of_metadata_table(meta, engine, options)
        except PudiError as error:
            self._say(MaintenanceStep(METADATA_TABLE, METADATA_TABLE, Outcome.FAILED, failure_text(error)))
            return
        self.on(target)

    def on(self, target: ServiceTarget) -> None:
        """Run the pending plans of a table, then the services that are due."""
        noted = failures(target.meta.storage)
        name = METADATA_TABLE if target.is_metadata else TABLE
        if self.request.dry_run:  # nothing changes between the steps
            target = target.pinned()
        broken = {each.name for each in registry.planned_services() if not self._run_pending(each, target, name, noted)}
        for service in registry.SERVICES:
            if service.name not in broken:
                self._run_due(service, target, name, noted.get(service.name))
        if not target.is_metadata:
            for plan in plans_aside(target.meta.storage, target.load().timeline):
                self._say(MaintenanceStep(plan.service, name, Outcome.FAILED, str(plan), plan.instant))

    def step(self, name: str, on: str, reason: str, work: Callable[[], object], instant: str | None = None) -> bool:
        """Run one step; after an error the others run too. Return whether it succeeded."""
        if self.request.dry_run:
            return self._say(MaintenanceStep(name, on, Outcome.DUE, reason, instant))
        if self.request.stopping():
            return self._say(MaintenanceStep(name, on, Outcome.LEFT, "the process is being stopped", instant))
        began = self.meta.context.clock.monotonic()
        try:
            done = work()
        except PlanTakenError as error:
            return self._say(MaintenanceStep(name, on, Outcome.LEFT, "another process runs it", error.instant))
        except PlanDisplacedError as error:
            seconds = self.meta.context.clock.monotonic() - began
            return self._say(MaintenanceStep(name, on, Outcome.LEFT, error.message, error.instant, seconds))
        except Exception as error:  # noqa: BLE001 - the other steps go on
            _log.warning(
                "table %s: the %s of the %s failed: %s", self.meta.storage.root, name, on, error, exc_info=True
            )
            seconds = self.meta.context.clock.monotonic() - began
            self._say(MaintenanceStep(name, on, Outcome.FAILED, failure_text(error), instant, seconds))
            return False
        outcome, at = Outcome.DONE if done else Outcome.NOTHING, getattr(done, "instant", None) or instant
        return self._say(MaintenanceStep(name, on, outcome, reason, at, self.meta.context.clock.monotonic() - began))

    def _run_pending(
        self, service: PlannedService, target: ServiceTarget, on: str, noted: Mapping[str, ServiceFailure]
    ) -> bool:
        """Run the pending plans of a service; return whether none failed and the service doesn't rest."""
        whole, before = True, noted.get(service.name)
        plans = target.load().timeline.pending_of(service.action)
        for pending in plans if target.is_metadata else not_aside(target.meta.storage, plans):
            if not is_available(target.meta, pending, target.write_options):
                self._say(MaintenanceStep(service.name, on, Outcome.LEFT, "another process runs it", pending.requested))
            elif target.is_metadata and holds_newest(target.load(), pending):
                self._say(MaintenanceStep(service.name, on, Outcome.LEFT, LEFT_TO_WRITES, pending.requested))
            elif is_resting(target, before):
                self._say(MaintenanceStep(service.name, on, Outcome.FAILED, str(before), pending.requested))
                whole = False
            else:
                run = partial(self._remembering, service, target, before if whole else None, pending)
                whole = self.step(service.name, on, "its plan was pending", run, pending.requested) and whole
        return whole

    def _run_due(self, service: TableService, target: ServiceTarget, on: str, before: ServiceFailure | None) -> None:
        if is_resting(target, before):
            self._say(MaintenanceStep(service.name, on, Outcome.FAILED, str(before)))
            return
        try:
            need = service.need(target.load())
        except Exception as error:
            if not self.request.dry_run:
                with suppress(Exception), note_outcome(target, service.name, before):
                    raise
            self._say(MaintenanceStep(service.name, on, Outcome.FAILED, failure_text(error)))
            return
        if need is not None and need.due:
            self.step(service.name, on, need.text, partial(self._remembering, service, target, before))
            return
        if need is not None:
            self._say(MaintenanceStep(service.name, on, Outcome.LEFT, need.text, need.blocked_by))
        if before is not None and not self.request.dry_run:
            clear_failure(target, service.name)

    def _say(self, step: MaintenanceStep) -> bool:
        self.steps.append(step)
        self.request.report(step)
        return True

    @staticmethod
    def _remembering(
        service: TableService, target: ServiceTarget, before: ServiceFailure | None, pending: Instant | None = None
    ) -> object:
        """Run a pending plan of a service, or the service, and remember whether that failed."""
        with note_outcome(target, service.name, before):
            if pending is None:
                return run_due(service, target)
            assert isinstance(service, PlannedService)
            return run_instant(service, target, pending)
