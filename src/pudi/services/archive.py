"""Archiving: move the instants that no reader needs from the active timeline to the archive.

Source: HoodieBackedTableMetadataWriter.performTableServices, TimelineArchiverV1 and V2.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.client.meta_client import MetaClient
from pudi.commit.dead_writers import refuse_pending_restore
from pudi.config import ArchiveOptions
from pudi.filegroup import Markers
from pudi.format import TEMP_DIR
from pudi.hooks.measure import measured
from pudi.services.archive_plan import commits_to_keep, plan_archive
from pudi.services.backlog import archive_backlog
from pudi.services.service import Inline, LockedService, Need
from pudi.services.target import ServiceTarget
from pudi.timeline import Instant, Timeline, archive


class Archive(LockedService):
    """Moves the oldest commits of a timeline to its archive, with the cleans and rollbacks that are older."""

    name = "archive"

    def inline(self, target: ServiceTarget) -> Inline:
        """After every commit to a metadata table; to a data table by hoodie.archive.automatic."""
        if target.is_metadata:
            return Inline.RUN
        if not target.options[ArchiveOptions.automatic]:
            return Inline.NOTHING
        return Inline.RUN_ASYNC if target.options[ArchiveOptions.run_async] else Inline.RUN

    def is_due(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """With more commits than hoodie.keep.max.commits, unless something keeps all of them."""
        most = target.options[ArchiveOptions.keep_max_commits]
        return len(timeline.commits) > most and bool(plan_archive(target, timeline).instants)

    def need(self, target: ServiceTarget, timeline: Timeline) -> Need | None:
        """Return the need by the number of commits, and by what keeps them."""
        _, most = commits_to_keep(target, timeline)
        plan = plan_archive(target, timeline)
        reason = f"{len(timeline.commits)} commits on the active timeline; above {most}, old ones are archived"
        kept = f"; kept from {plan.bound.instant or 'the first'} on, since {plan.bound.reason}" if plan.bound else ""
        return Need(bool(plan.instants), reason + kept, *archive_backlog(target, timeline, plan))

    def run(self, target: ServiceTarget) -> int:
        """Archive, and return the number of archived instants; see `LockedService.run`.

        Raises:
            InvalidArgumentError: wrong options.
            CorruptError: an instant or the archive can't be read.
            BlockedError: a restore is pending.
        """
        meta = target.meta
        with measured(meta, self.name) as figures, meta.lock:
            timeline = meta.store.load()
            if not target.is_metadata:
                refuse_pending_restore(meta, timeline)
            chosen = plan_archive(target, timeline).instants
            figures["numInstantsArchived"] = len(chosen)
            _delete_markers(meta, chosen)
            archive(meta.store, chosen, ArchiveOptions.of(target.options))
        return len(chosen)


def _delete_markers(meta: MetaClient, instants: Iterable[Instant]) -> None:
    """Delete what writers left that died after they had completed."""
    left = set(meta.storage.list_dir(TEMP_DIR)[1])
    for instant in instants:
        if instant.requested in left:
            Markers(meta.storage, instant.requested).delete()
