"""The last check before a write completes, under the table's lock: no commit since its start conflicts with it."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.action.meta_client import MetaClient
from pudi.concurrency import ConflictCheck
from pudi.config import Options, check_writable
from pudi.errors import ConflictError
from pudi.timeline import Timeline


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """The table's schema at the start of a write.

    Attributes:
        text: the Avro schema.
        by_id: the internal schema; None in a table without schema on read.
    """

    text: str
    by_id: str | None

    @classmethod
    def of(cls, meta: MetaClient, timeline: Timeline) -> SchemaSeen:
        """Return the schema at a timeline."""
        return cls(meta.schema_json(timeline), meta.schema_by_id(timeline))

    def check(self, meta: MetaClient, timeline: Timeline) -> None:
        """Raise an error if the schema has changed.

        Raises:
            ConflictError: another writer changed it.
        """
        if SchemaSeen.of(meta, timeline) != self:
            newest = max((i.requested for i in timeline.commits), default="none")
            raise ConflictError(
                f"another writer changed the table's schema meanwhile (the newest commit is {newest}); nothing of this "
                "write is visible; read the table again and retry",
                table=meta.storage.root,
            )


def verify(meta: MetaClient, resolved: Options, schema: SchemaSeen, check: ConflictCheck, now: Timeline) -> None:
    """Compare a write with the changes since it began.

    Args:
        meta: the table; its properties are read again if another writer may have changed them.
        resolved: the writer's options.
        schema: the table's schema at the start of the write.
        check: the conflict check of the write.
        now: the timeline under the table's lock.

    Raises:
        ConflictError: another writer's commit conflicts with it.
        NotSupportedError: the table changed, and this release can't write it any more.
    """
    check.run(now)
    if check.new_commits(now):
        schema.check(meta, now)
        meta.reload()
        check_writable(meta.config, meta.storage.root, resolved)
