"""Find what keeps each file slice from being cleaned, by the rules of the clean itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pudi.client.meta_client import MetaClient
from pudi.config import CleanOptions
from pudi.filegroup import FileGroup, SliceFiles
from pudi.services.clean_plan import Kept, pending_slices, saved_slices, savepointed_names
from pudi.timeline import Timeline

NEWEST, POLICY, PLAN, SAVEPOINT = "newest", "policy", "pending plan", "savepoint"
"""Kinds of reasons to keep a slice."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A reason to keep a file slice.

    Attributes:
        kind: `newest`, `policy` (of cleaning), `pending plan` or `savepoint`.
        reason: the same as a text.
        instant: requested time of the commit retained first, of the plan, or of the savepoint; None without one.
    """

    kind: str
    reason: str
    instant: str | None = None


@dataclass(frozen=True, slots=True)
class SliceHolders:
    """Reasons to keep the file slices of a table.

    Attributes:
        kept: what a clean keeps now; None if that is everything.
        savepoints: names of the files that savepoints keep, by requested time of their commits.
        pending: what pending plans read, see `pending_slices`.
    """

    kept: Kept | None
    savepoints: Mapping[str, frozenset[str]]
    pending: Mapping[tuple[str, str], tuple[str, str, str]]

    @classmethod
    def of(cls, meta: MetaClient, timeline: Timeline, options: CleanOptions) -> SliceHolders:
        """Return what holds the slices of a table.

        Raises:
            CorruptError: a savepoint or a pending plan can't be read.
        """
        kept = Kept.of(meta, timeline, options)
        if kept is not None:
            return cls(kept, kept.savepoints, kept.pending)
        return cls(None, savepointed_names(meta, timeline), pending_slices(meta, timeline))

    def of_slices(self, group: FileGroup, replaced_at: str | None) -> Iterator[tuple[SliceFiles, tuple[Holder, ...]]]:
        """Return the slices of a file group, the newest first, each with what holds it.

        Nothing holds a slice that the next clean deletes.

        Args:
            group: the file group.
            replaced_at: requested time of the replacecommit that took it out of the table; None if it's in the table.
        """
        kept = self.kept
        old = () if kept is None else kept.old(group, replaced_at)
        old_without_plans = () if kept is None else replace(kept, pending={}).old(group, replaced_at)
        plan = self.pending.get((group.partition, group.file_id)) if replaced_at is None else None
        for number, file_slice in enumerate(group.slices):
            found = []
            planned = plan is not None and file_slice.instant >= plan[2]
            if file_slice not in old:
                if not number and replaced_at is None:
                    found.append(Holder(NEWEST, "the newest slice of its file group"))
                elif file_slice not in old_without_plans or not planned:
                    found.append(self._policy())
                if plan is not None and planned:
                    found.append(Holder(PLAN, f"the pending {plan[0]} {plan[1]}", plan[1]))
            yield file_slice, (*found, *self._savepoints(file_slice, group, replaced_at))

    def _policy(self) -> Holder:
        if self.kept is None:
            return Holder(POLICY, "the policy retains all commits that there are")
        if self.kept.retained is None:
            return Holder(POLICY, f"the policy retains {self.kept.options.versions_retained} slices of a file group")
        first = self.kept.retained.requested
        return Holder(POLICY, f"the policy retains the commits from {first} on", first)

    def _savepoints(self, file_slice: SliceFiles, group: FileGroup, replaced_at: str | None) -> Iterator[Holder]:
        names = {path.rpartition("/")[2] for path in file_slice.files}
        for requested, names_kept in self.savepoints.items():
            if not names.isdisjoint(names_kept) or file_slice in saved_slices(group, replaced_at, [requested]):
                yield Holder(SAVEPOINT, f"the savepoint {requested}", requested)
