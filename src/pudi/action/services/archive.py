"""Archiving: move the instants that no reader needs from the active timeline to the archive.

Source: HoodieBackedTableMetadataWriter.performTableServices, TimelineArchiverV1 and V2.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.action.services.service import Inline, LockedService
from pudi.action.services.target import ServiceTarget
from pudi.config import MetadataOptions
from pudi.filegroup import Markers
from pudi.format import Action, State
from pudi.timeline import Instant, Timeline, archive

_PENDING = (State.REQUESTED, State.INFLIGHT)
_COMMITS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)
_BESIDE = (Action.CLEAN, Action.ROLLBACK)
"""Actions that are archived along with commits."""


class Archive(LockedService):
    """Moves the oldest commits of a timeline to its archive; on metadata tables only in this release.

    These stay: commits that are on the data table's timeline, came after a pending one, or came after the last
    compaction. Readers of log files ask the active timeline whether a block counts.
    """

    name = "archive"

    def inline(self, target: ServiceTarget) -> Inline:
        """After every commit to a metadata table."""
        return Inline.RUN if target.is_metadata else Inline.NOTHING

    def is_due(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """With more commits than hoodie.keep.max.commits."""
        return len(timeline.commits) > target.options[MetadataOptions.keep_max_commits]

    def run(self, target: ServiceTarget) -> bool:
        """Archive; see `LockedService.run`.

        Raises:
            CorruptError: an instant or the archive can't be read.
        """
        meta, options = target.meta, target.options
        with meta.lock:
            data, timeline = target.data.store.load(), meta.store.load()
            least, most = options[MetadataOptions.keep_min_commits], options[MetadataOptions.keep_max_commits]
            chosen = _chosen(data, timeline, least, most)
            for instant in chosen:
                if instant.action is Action.COMMIT:  # a compaction that died after its completion left its markers
                    Markers(meta.storage, instant.requested).delete()
            archive(meta.store, chosen)
        return bool(chosen)


def _chosen(data: Timeline, timeline: Timeline, least: int, most: int) -> list[Instant]:
    """Return the instants to archive, oldest first."""
    commits = timeline.commits
    compactions = timeline.of(Action.COMMIT)
    if len(commits) <= most or not compactions:
        return []
    compacted = compactions[-1].requested
    limit = min([compacted, *_first(data.instants), *_before_pending(timeline)])
    chosen: list[Instant] = []
    for instant in commits[: len(commits) - least]:
        if instant.requested >= limit or timeline.order(instant) >= compacted:
            break
        chosen.append(instant)
    if not chosen:
        return []
    last = chosen[-1].requested
    beside = [i for action in _BESIDE for i in timeline.of(action) if i.requested < last]
    return sorted([*chosen, *beside], key=lambda i: i.requested)


def _first(instants: Iterable[Instant]) -> list[str]:
    """Return the table's first commit or pending instant (TimelineUtils.getEarliestInstantForMetadataArchival)."""
    counted = (i.requested for i in instants if i.action in _COMMITS or not i.is_completed)
    return list(counted)[:1]


def _before_pending(timeline: Timeline) -> list[str]:
    """Return the last commit before the table's first pending one, which stays, or that one."""
    writes = (Action.COMPACTION, Action.LOGCOMPACTION, *_COMMITS)
    first = min((i.requested for action in writes for i in timeline.of(action, *_PENDING)), default=None)
    if first is None:
        return []
    return [max((i.requested for i in timeline.commits if i.requested < first), default=first)]
