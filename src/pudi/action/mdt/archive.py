"""Keep the metadata table's timeline short: what no reader needs of it any more moves to its archive.

Source: FORMAT 3 and 7.3; HoodieBackedTableMetadataWriter.performTableServices, TimelineArchiverV1 and V2.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.action.meta_client import MetaClient
from pudi.config import MetadataOptions, Options
from pudi.filegroup import Markers
from pudi.format import Action, State
from pudi.timeline import Instant, Timeline, archive

_PENDING = (State.REQUESTED, State.INFLIGHT)
_COMMITS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)
_BESIDE = (Action.CLEAN, Action.ROLLBACK)
"""What is archived along with commits."""


def archive_metadata(meta: MetaClient, mdt: MetaClient, seen: Timeline, options: Options) -> int:
    """Archive the oldest commits of the metadata table, once there are many; how many instants were.

    Those stay that are on the table's own timeline, that came since a pending one, and that came after the last
    compaction: readers of log files ask the active timeline whether a block counts.

    Args:
        meta: the table.
        mdt: its metadata table.
        seen: the metadata table's timeline as it was a moment ago: while it's short, nothing more is asked.
        options: the writer's; the metadata table keeps one commit more than the table shall (HoodieMetadataWriteUtils).

    Raises:
        CorruptError: an instant or the archive can't be read.
    """
    least = options[MetadataOptions.keep_min_commits] + 1
    most = max(options[MetadataOptions.keep_max_commits] + 1, least)
    if len(seen.commits) <= most:
        return 0
    with mdt.lock:
        data, timeline = meta.store.load(), mdt.store.load()
        chosen = _chosen(data, timeline, least, most)
        for instant in chosen:
            if instant.action is Action.COMMIT:  # a compaction that died after its last step left its markers
                Markers(mdt.storage, instant.requested).delete()
        archive(mdt.store, chosen)
    return len(chosen)


def _chosen(data: Timeline, timeline: Timeline, least: int, most: int) -> list[Instant]:
    """The instants to be archived, oldest first."""
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
    """The table's first commit, and its first pending instant (TimelineUtils.getEarliestInstantForMetadataArchival)."""
    counted = (i.requested for i in instants if i.action in _COMMITS or not i.is_completed)
    return list(counted)[:1]


def _before_pending(timeline: Timeline) -> list[str]:
    """The last commit before the first pending one of the metadata table's own, which stays; or that one."""
    writes = (Action.COMPACTION, Action.LOGCOMPACTION, *_COMMITS)
    first = min((i.requested for action in writes for i in timeline.of(action, *_PENDING)), default=None)
    if first is None:
        return []
    return [max((i.requested for i in timeline.commits if i.requested < first), default=first)]
