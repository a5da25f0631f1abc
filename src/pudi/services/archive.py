"""Archiving: move the instants that no reader needs from the active timeline to the archive.

Source: HoodieBackedTableMetadataWriter.performTableServices, TimelineArchiverV1 and V2.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.client.measure import measured
from pudi.client.meta_client import MetaClient
from pudi.commit.dead_writers import refuse_pending_restore
from pudi.config import ArchiveOptions
from pudi.filegroup import Markers
from pudi.format import TEMP_DIR
from pudi.services.archive_plan import ArchivePlan, commits_to_keep, plan_archive
from pudi.services.clean import clean_backlog
from pudi.services.service import Backlog, DirectService, Inline, Need
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.timeline import Instant, archive


class Archive(DirectService):
    """Moves the oldest commits of a timeline to its archive, with the cleans and rollbacks that are older."""

    name = "archive"

    def inline(self, target: ServiceTarget) -> Inline:
        """After every commit to a metadata table; to a data table by hoodie.archive.automatic."""
        if target.is_metadata:
            return Inline.RUN
        if not target.options[ArchiveOptions.automatic]:
            return Inline.NOTHING
        return Inline.RUN_ASYNC if target.options[ArchiveOptions.run_async] else Inline.RUN

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """With more commits than hoodie.keep.max.commits, unless something keeps all of them."""
        most = snapshot.options[ArchiveOptions.keep_max_commits]
        return len(snapshot.timeline.commits) > most and bool(plan_archive(snapshot).instants)

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by the number of commits, and by what keeps them."""
        _, most = commits_to_keep(snapshot)
        plan = plan_archive(snapshot)
        reason = f"{len(snapshot.timeline.commits)} commits on the active timeline; above {most}, old ones are archived"
        kept = f"; kept from {plan.bound.instant or 'the first'} on, since {plan.bound.reason}" if plan.bound else ""
        return Need(bool(plan.instants), reason + kept, *_backlog(snapshot, plan))

    def run(self, target: ServiceTarget) -> int:
        """Archive, and return the number of archived instants; see `DirectService.run`.

        Raises:
            InvalidArgumentError: wrong options.
            CorruptError: an instant or the archive can't be read.
            BlockedError: a restore is pending.
        """
        meta = target.meta
        with measured(meta, self.name) as figures, meta.lock:
            snapshot = target.load()
            if not target.is_metadata:
                refuse_pending_restore(snapshot)
            chosen = plan_archive(snapshot).instants
            figures["numInstantsArchived"] = len(chosen)
            _delete_markers(meta, chosen)
            archive(meta.store, chosen, ArchiveOptions.of(target.options))
        return len(chosen)


def _backlog(snapshot: TargetSnapshot, plan: ArchivePlan) -> Backlog:
    """Return the commits that archiving should move; it is blocked by what keeps the first one that stays.

    Raises:
        InvalidArgumentError: wrong options.
        CorruptError: the last clean can't be read.
    """
    if plan.wanted:
        return plan.wanted, None if plan.bound is None else plan.bound.instant or None
    options, number = ArchiveOptions.of(snapshot.options), len(snapshot.timeline.commits)
    if number <= options.keep_max_commits:
        return 0, None
    _, blocked_by = clean_backlog(snapshot)  # what cleaning can't pass, archiving can't either
    return (0, None) if blocked_by is None else (number - options.keep_min_commits, blocked_by)


def _delete_markers(meta: MetaClient, instants: Iterable[Instant]) -> None:
    """Delete what writers left that died after they had completed."""
    left = set(meta.storage.list_dir(TEMP_DIR)[1])
    for instant in instants:
        if instant.requested in left:
            Markers(meta.storage, instant.requested).delete()
