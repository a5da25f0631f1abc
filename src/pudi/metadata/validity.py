"""Which instants of the metadata table count, and whether it has kept up with the table: two timelines in, facts out.

Source: FORMAT 7.3; HoodieTableMetadataUtil.getValidInstantTimestamps.
"""

from __future__ import annotations

from pudi.filegroup import LogScope
from pudi.format import INIT_INSTANT, Action
from pudi.timeline import Instant, Timeline


def scope_of(data: Timeline, metadata: Timeline) -> LogScope:
    """The instants whose log blocks count.

    The metadata table's commit completes before the table's own, and counts only once that has completed too: one that
    is pending on the table's timeline died between the two, or is under way. What's no instant of the table's are
    initial commits and the metadata table's own services.

    Args:
        data: the table's active timeline, loaded before the metadata table's.
        metadata: the metadata table's active timeline.
    """
    pending = frozenset(i.requested for i in data.pending)
    completed = frozenset(i.requested for i in metadata.instants if i.is_completed)
    own = frozenset(i.requested for i in metadata.pending)
    return LogScope(completed - pending, pending | own, metadata.start)


def missing(data: Timeline, metadata: Timeline) -> Instant | None:
    """A completed write of the table that the metadata table knows nothing of; None where it has kept up.

    Hudi trusts the table's properties alone; a writer that knew nothing of metadata tables may not have.

    Args:
        data: the table's active timeline, loaded before the metadata table's.
        metadata: the metadata table's active timeline.
    """
    known = {i.requested for i in metadata.instants if i.is_completed}
    begun = [i for i in metadata.commits if i.requested.startswith(INIT_INSTANT)]
    kept_up = [i.requested for i in metadata.commits if not i.requested.startswith(INIT_INSTANT)]
    first = kept_up[0] if kept_up else None
    for instant in reversed(data.commits):
        if instant.requested in known or instant.action is Action.SAVEPOINT:
            continue
        if begun and metadata.layout == 2:
            # a time that is that of a file says nothing about a table that was copied
            if instant.layout == 2 and (instant.completion or "") > min(i.completion or "" for i in begun):
                return instant
        elif first is not None and instant.requested > first:
            return instant
    return None
