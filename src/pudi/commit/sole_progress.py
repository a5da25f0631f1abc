"""One process at a time goes on with a job whose commits say how far it has got: an ingestion, or a streaming query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pudi.client.meta_client import MetaClient
from pudi.errors import ChangedSinceError
from pudi.timeline import Timeline


@dataclass(slots=True)
class SoleProgress:
    """Refuses a commit of a job if another process has committed for the same job since this one looked.

    Both began at one place, and would write the same records: an insert would count them twice.

    Attributes:
        states: whether a commit's extra metadata says how far the job has got.
        seen: requested times of the commits that this process knows; those that were archived since are forgotten.
    """

    states: Callable[[Mapping[str, str]], bool]
    seen: set[str]

    def check(self, meta: MetaClient, now: Timeline) -> None:
        """Check the commits that have completed meanwhile; called under the table's lock.

        Raises:
            ChangedSinceError: one of them is of the same job.
        """
        for instant in now.commits:
            if instant.requested in self.seen:
                continue
            if self.states(meta.store.read_commit_metadata(instant).extra_metadata or {}):
                raise ChangedSinceError(
                    f"commit {instant.requested} has gone on with this job meanwhile: another process runs it too; "
                    "nothing of this batch is visible. Run one at a time",
                    table=meta.storage.root,
                    instant=instant.requested,
                )
            self.seen.add(instant.requested)
        self.seen.intersection_update([instant.requested for instant in now.commits])


def is_gone(meta: MetaClient, timeline: Timeline, requested: str) -> bool:
    """Return whether a commit was rolled back, or its table created again; an archived commit is not gone.

    Args:
        meta: the table.
        timeline: its active timeline.
        requested: the requested time of a commit that completed.
    """
    if timeline.commit(requested) is not None:
        return False
    return timeline.start is None or requested > timeline.start or not meta.store.has_history()
