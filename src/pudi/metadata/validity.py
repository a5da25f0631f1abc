"""Which instants of the metadata table count, and whether it has kept up with the table: two timelines in, facts out.

Source: FORMAT 7.3; HoodieTableMetadataUtil.getValidInstantTimestamps.
"""

from __future__ import annotations

from pudi.filegroup import LogScope
from pudi.format import INIT_INSTANT
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
    initial = [i for i in metadata.commits if i.requested.startswith(INIT_INSTANT)]
    since = min((i.completion or "" for i in initial), default=None)
    first = next((i.requested for i in metadata.commits if not i.requested.startswith(INIT_INSTANT)), None)
    for instant in reversed(data.commits):
        if instant.archived or instant.requested in known or instant.layout != metadata.layout:
            continue
        if since is not None:
            # what had completed before was listed when the metadata table was made
            if instant.completion is not None and instant.completion > since:
                return instant
        elif first is not None and instant.requested > first:
            return instant
    return None
