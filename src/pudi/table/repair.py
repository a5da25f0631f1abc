"""Repair what a check found, and delete what dead writers left: a dry run lists it first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import dead_writes, repair_dead_writes
from pudi.config import Options
from pudi.errors import NotSupportedError
from pudi.indexes.checking import Difference
from pudi.indexing.rebuild import PartitionRebuild, rebuild, with_dependents
from pudi.services.orphans import Orphans, find_orphans, remove_orphans
from pudi.table.check import METADATA_TABLE, TIMELINE, CheckResult, check_table
from pudi.task import Engine
from pudi.task.check_files import DATA_FILES


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Plan of a repair.

    Attributes:
        found: what the check found.
        rebuilt: partitions of the metadata table to rebuild.
        orphans: what would be deleted.
        dead: instants of writers that died, which would be rolled back.
        left: what can't be mended.
    """

    found: CheckResult
    rebuilt: tuple[str, ...] = ()
    orphans: Orphans = field(default_factory=Orphans)
    dead: tuple[str, ...] = ()
    left: tuple[Difference, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.rebuilt or self.orphans or self.dead)

    def to_json(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "differences": [each.to_json() for each in self.found.differences],
            "rebuild": list(self.rebuilt),
            "orphans": [{"path": path, "what": what} for path, what in self.orphans.describe()],
            "roll_back": list(self.dead),
            "left": [each.to_json() for each in self.left],
        }

    def __str__(self) -> str:
        lines = [str(each) for each in self.found.differences]
        lines += [f"to be rolled back: {instant}, whose writer died" for instant in self.dead]
        lines += [f"to be deleted: {path}: {what}" for path, what in self.orphans.describe()]
        if self.rebuilt:
            lines.append(f"to be rebuilt in the metadata table: {', '.join(self.rebuilt)}")
        lines += [f"can't be repaired: {each}" for each in self.left]
        return "\n".join(lines or [str(self.found)])


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Result of a repair.

    Attributes:
        plan: what was found, and what was to be done.
        done: whether it was done; false where it wasn't wanted, or there was nothing to do.
        built: rebuilt partitions of the metadata table.
        dropped: partitions that were dropped and not rebuilt, with the reason: readers do without them.
        after: what a check finds now; None where nothing was done.
    """

    plan: RepairPlan
    done: bool = False
    built: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    after: CheckResult | None = None

    @property
    def ok(self) -> bool:
        """Whether the table is right now."""
        return self.after.ok if self.after is not None else self.plan.found.ok and self.plan.is_empty

    def to_json(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "ok": self.ok,
            "done": self.done,
            "plan": self.plan.to_json(),
            "built": list(self.built),
            "dropped": [{"partition": partition, "why": why} for partition, why in self.dropped],
            "after": None if self.after is None else self.after.to_json(),
        }

    def __str__(self) -> str:
        if not self.done:
            left = len(self.plan.left)
            why = f"; {left} difference{'' if left == 1 else 's'} can't be repaired: see plan.left" if left else ""
            return "nothing to repair" if self.ok else f"nothing was done{why}"
        lines = [f"rebuilt: {', '.join(self.built)}"] if self.built else []
        lines += [f"dropped: {partition}: {why}" for partition, why in self.dropped]
        return "\n".join([*lines, f"now: {self.after}"])


Confirm = Callable[[RepairPlan], bool]
"""Asked before anything is done."""


def repair_table(
    meta: MetaClient, engine: Engine, options: Options, confirm: Confirm | None, *, on_cluster: bool = False
) -> RepairResult:
    """Check a table, and mend what can be mended.

    Args:
        meta: the table.
        engine: the engine that does the work.
        options: the user's.
        confirm: asked with the plan where there is something to do; None: do it.
        on_cluster: see `check_table`.

    Raises:
        ConflictError: a write is pending that may be alive and gives no sign of life; another process is at work on the
            metadata table; below version 8, anything is pending.
    """
    plan = plan_repair(meta, engine, options, on_cluster=on_cluster)
    if plan.is_empty or (confirm is not None and not confirm(plan)):
        return RepairResult(plan)
    done = _carry_out(meta, engine, options, plan)
    after = check_table(meta.reopen({}), engine, on_cluster=on_cluster)
    return RepairResult(plan, True, done.built, done.dropped, after)


def plan_repair(meta: MetaClient, engine: Engine, options: Options, *, on_cluster: bool = False) -> RepairPlan:
    """Errors of a table and possible repairs."""
    found = check_table(meta, engine, on_cluster=on_cluster)
    wrong, left = _sorted(meta, found.differences)
    dead = tuple(instant.requested for instant in dead_writes(TableSnapshot.load(meta, options)))
    orphans = find_orphans(meta)
    return RepairPlan(found, tuple(sorted(with_dependents(meta, wrong))), orphans, dead, tuple(left))


def _sorted(meta: MetaClient, differences: Sequence[Difference]) -> tuple[set[str], list[Difference]]:
    """Return the partitions of the metadata table to rebuild, and the errors that can't be repaired.

    If files of the table are missing or damaged, the metadata table stays unchanged: it may be the only evidence of the
    loss, and a rebuild from the remaining files would hide it.
    """
    if any(each.index in {DATA_FILES, TIMELINE} for each in differences):
        return set(), list(differences)
    wrong: set[str] = set()
    left: list[Difference] = []
    for each in differences:
        if each.index == METADATA_TABLE:
            wrong |= set(meta.config.metadata_partitions)
        elif each.index in meta.config.metadata_partitions:
            wrong.add(each.index)
        else:
            left.append(each)
    return wrong, left


def _carry_out(meta: MetaClient, engine: Engine, options: Options, plan: RepairPlan) -> PartitionRebuild:
    def clear_dead() -> None:
        # repair ignores pending services; the metadata table gets their files when they complete
        with contextlib.suppress(NotSupportedError):
            repair_dead_writes(meta, options)
        remove_orphans(meta)

    return rebuild(meta, engine, options, plan.rebuilt, clear_dead)
