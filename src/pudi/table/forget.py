"""Hard deletion: delete records, then compact and clean until no file holds them, and report what still does.

Nothing is taken for granted: before and after, every file on storage is read, those of the metadata table too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import dead_writes, repair_dead_writes
from pudi.config import CleanOptions, CompactionOptions, Options, check_writable
from pudi.config.option import Value
from pudi.errors import InvalidArgumentError, PudiError
from pudi.format import CDC_SUFFIX, METADATA_DIR
from pudi.indexes.checking import CheckRun
from pudi.services.clean import Clean, CleanHistory
from pudi.services.compaction import CompactGroups, Compaction
from pudi.services.orphans import find_orphans, remove_orphans
from pudi.services.registry import planned_services
from pudi.services.runner import run, run_pending
from pudi.services.target import ServiceTarget
from pudi.table.held_files import RecordSearch, StillHeld, reasons
from pudi.task import Engine
from pudi.task.find_records import FileMatches
from pudi.upgrade.maintenance import FAILED_WRITES, METADATA_TABLE, ORPHANS, TABLE, MaintenanceStep, Outcome
from pudi.writes.write_recipe import WriteRequest
from pudi.writes.write_records import change_where

_log = logging.getLogger(__name__)

DELETE = "delete"
RETENTION = (
    CleanOptions.policy,
    CleanOptions.commits_retained,
    CleanOptions.hours_retained,
    CleanOptions.versions_retained,
)
"""Options that say what a clean leaves, where a call gives them."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Result of a hard deletion, or of its dry run.

    Attributes:
        path: the table's root.
        records: number of records: those that matched, and those that were deleted before and once matched.
        steps: what was done, in order.
        left: the files that still hold some; with `dry_run` those that hold some now.
        files_read: number of files that were read.
        dry_run: whether nothing was changed.
    """

    path: str
    records: int
    steps: tuple[MaintenanceStep, ...]
    left: tuple[StillHeld, ...]
    files_read: int
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether no file holds any of the records."""
        return not self.left

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(asdict(self) | {"ok": self.ok}, indent=2)

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps if step.outcome is not Outcome.NOTHING]
        lines += [f"held by   {each}" for each in self.left]
        if self.dry_run:
            lines.append(f"{self.records} records are in {len(self.left)} of {self.files_read} files")
        elif self.left:
            lines.append(f"{self.records} records: {len(self.left)} files still hold some of them")
        else:
            lines.append(f"{self.records} records: no file holds any of them")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """Request of a hard deletion: the records, and the way to delete them.

    Attributes:
        where: SQL predicate over the records.
        dry_run: change nothing.
        retains: whether a clean leaves what the options say; else only the newest slices.
        on_cluster: whether jobs share only the table's storage with this process.
    """

    where: str
    dry_run: bool
    retains: bool
    on_cluster: bool


def forget(meta: MetaClient, engine: Engine, options: Options, request: ForgetRequest) -> Forgotten:
    """Delete records from all files of a table, or say which files hold them.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the caller's.
        request: the records, and how to delete them.

    Raises:
        InvalidArgumentError: an unknown column, or a wrong predicate.
        NotSupportedError: SQL beyond the subset, or a table that this release can't write.
        ConflictError: other writers won; nothing was deleted.
    """
    if not isinstance(request.where, str) or not request.where.strip():
        raise InvalidArgumentError("forget needs a predicate, where", table=meta.storage.root)
    meta.reload()
    check_writable(meta.config, meta.storage.root, options)
    with CheckRun(meta, engine, request.on_cluster) as jobs:
        return _Forgetting(meta, engine, options, request, RecordSearch(meta, engine, options, jobs)).run()


@dataclass(slots=True)
class _Forgetting:
    """One hard deletion."""

    meta: MetaClient
    engine: Engine
    options: Options
    request: ForgetRequest
    search: RecordSearch
    steps: list[MaintenanceStep] = field(default_factory=list)

    def run(self) -> Forgotten:
        wanted, current = self.search.records(self.request.where)
        if not self.request.dry_run:
            self._prepare()
        held = self.search.files(wanted, metadata=True)
        if current or self.request.dry_run:
            self._step(DELETE, TABLE, f"{current} records match", self._delete if current else None, must=True)
        if not self.request.dry_run:
            self._compact(self.search.files(wanted))
            self._clean(self.search.files(wanted))
            self._mend_metadata(self.search.files(wanted, metadata=True))
            held = self.search.files(wanted, metadata=True)
        left = reasons(self._snapshot, held, retains=self.request.retains)
        return Forgotten(
            self.meta.storage.root,
            len(wanted.keys),
            tuple(self.steps),
            left,
            len(self.search.read),
            self.request.dry_run,
        )

    @property
    def _snapshot(self) -> TableSnapshot:
        """The table as it is now: each step begins with it, since the step before changed the table."""
        return TableSnapshot.load(self.meta, self.options)

    @property
    def _target(self) -> ServiceTarget:
        return ServiceTarget.of_table(self.meta, self.engine, self.options)

    def _step(self, name: str, on: str, reason: str, work: Callable[[], object] | None, *, must: bool = False) -> None:
        """Do one step; an error of a step that need not succeed is reported, and the other steps go on."""
        if work is None:
            self.steps.append(MaintenanceStep(name, on, Outcome.NOTHING, reason))
            return
        if self.request.dry_run:
            self.steps.append(MaintenanceStep(name, on, Outcome.DUE, reason))
            return
        try:
            done = work()
        except PudiError as error:
            if must:
                raise
            _log.warning("the %s of the %s failed: %s", name, on, error, exc_info=True)
            self.steps.append(MaintenanceStep(name, on, Outcome.FAILED, f"{type(error).__name__}: {error}"))
            return
        outcome = Outcome.DONE if done else Outcome.NOTHING
        self.steps.append(MaintenanceStep(name, on, outcome, reason, getattr(done, "instant", None)))

    def _prepare(self) -> None:
        """Roll back dead writes, run pending plans, delete orphaned files."""
        snapshot = self._snapshot
        if dead_writes(snapshot):
            self._step(FAILED_WRITES, TABLE, "their writers died", lambda: repair_dead_writes(self.meta, self.options))
            snapshot = snapshot.refreshed()
        timeline = snapshot.timeline
        if any(timeline.pending_of(each.action) for each in planned_services()):
            self._step("pending plans", TABLE, "they keep files", lambda: run_pending(self._target))
        if find_orphans(self.meta):
            self._step(ORPHANS, TABLE, "writes that are over left them", lambda: remove_orphans(self.meta))

    def _delete(self) -> object:
        given = {**self.options.given, CompactionOptions.services.key: False}
        request = WriteRequest(self.meta, self.engine, replace(self.options, given=given))
        return change_where(request, None, self.request.where)

    def _compact(self, held: Sequence[FileMatches]) -> None:
        """Compact the file groups whose newest slice holds some."""
        if not self.meta.merges_on_read:
            return
        holding = {each.path for each in held}
        slices = self._snapshot.view().all_slices()
        groups = {each.group for each in slices if each.logs and any(file.path in holding for file in each.files)}
        if groups:
            reason = f"the newest slices of {len(groups)} file groups hold some"
            self._step("compaction", TABLE, reason, lambda: run(CompactGroups(groups), self._target))

    def _clean(self, held: Sequence[FileMatches]) -> None:
        """Clean if data files hold some."""
        files = sum(not each.path.startswith(METADATA_DIR) for each in held)
        if files:
            changes = frozenset(each.path for each in held if each.rows and each.path.endswith(CDC_SUFFIX))
            service = Clean() if self.request.retains else CleanHistory(changes)
            self._step("clean", TABLE, f"{files} files hold some", lambda: run(service, self._target))

    def _mend_metadata(self, held: Sequence[FileMatches]) -> None:
        """Compact and clean the metadata table if its files hold some."""
        files = sum(each.path.startswith(METADATA_DIR) for each in held)
        if not files:
            return
        target = ServiceTarget.of_metadata_table(self.meta, self.engine, self.options)
        given: dict[str, Value] = {CompactionOptions.max_delta_commits.key: 1}
        target = replace(target, options=target.options.having(given))
        reason = f"{files} files hold entries of them, or statistics of deleted files"
        self._step("compaction", METADATA_TABLE, reason, lambda: run(Compaction(), target))
        self._step("clean", METADATA_TABLE, reason, lambda: run(CleanHistory(), target))
