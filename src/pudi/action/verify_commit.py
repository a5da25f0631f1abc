"""The last look before a write completes, under the table's lock: nothing that happened meanwhile contradicts it."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.action.meta_client import MetaClient
from pudi.concurrency import ConflictCheck
from pudi.config import Options, check_writable
from pudi.errors import ConflictError
from pudi.timeline import Timeline


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """The table's schema as a write found it.

    Attributes:
        text: as Avro.
        by_id: by ids; None in a table without schema on read.
    """

    text: str
    by_id: str | None

    @classmethod
    def of(cls, meta: MetaClient, timeline: Timeline) -> SchemaSeen:
        """The schema at a timeline."""
        return cls(meta.schema_json(timeline), meta.schema_by_id(timeline))

    def check(self, meta: MetaClient, timeline: Timeline) -> None:
        """Raise where the schema is another one.

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
    """Compare a write with what happened since it began.

    Args:
        meta: the table; its properties are read again if another writer may have changed them.
        resolved: the writer's options.
        schema: the table's as the write found it.
        check: what the write did.
        now: the timeline as it is under the table's lock.

    Raises:
        ConflictError: another writer's commit contradicts it.
        NotSupportedError: this release can't write the table any more.
    """
    check.run(now)
    if check.new_commits(now):
        schema.check(meta, now)
        meta.reload()
        check_writable(meta.config, meta.storage.root, resolved)
