"""The table at one listing of its timeline: what a reader, a writer or a service plans by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pudi.client.meta_client import MetaClient
from pudi.config import Options, TableConfig
from pudi.context.runtime import cached_property
from pudi.filegroup import FileListing, FileSystemView
from pudi.metadata import MetadataTable
from pudi.schema.table_schema import TableSchema
from pudi.timeline import Instant, Timeline

_Snapshot = TypeVar("_Snapshot", bound="TableSnapshot")


@dataclass(frozen=True)
class TableSnapshot:
    """The table at one listing of its timeline. It never changes; `refreshed` makes a newer one.

    Attributes:
        meta: access to the table, the same for all its snapshots.
        timeline: the active timeline, with archived instants where a reader goes back to them.
        options: the options of the call; empty where none count.
        part: the part of the timeline that a reader of an earlier state sees; None for all of it.
    """

    meta: MetaClient
    timeline: Timeline
    options: Options = field(default_factory=Options, repr=False)
    part: Timeline | None = None

    @classmethod
    def load(cls, meta: MetaClient, options: Options | None = None) -> TableSnapshot:
        """Return the table as it is now."""
        return cls(meta, meta.store.load(), options or Options())

    def refreshed(self: _Snapshot) -> _Snapshot:
        """Return the table as it is now, with the same options."""
        return self.at(self.meta.store.load())

    def at(self: _Snapshot, timeline: Timeline) -> _Snapshot:
        """Return the table at another timeline, with the same options."""
        return self if timeline is self.timeline else replace(self, timeline=timeline, part=None)

    def seeing(self: _Snapshot, part: Timeline) -> _Snapshot:
        """Return the same listing for a reader that sees a part of it: its schema and commits are those of the part."""
        return replace(self, part=None if part is self.timeline else part)

    @property
    def seen(self) -> Timeline:
        """The instants that a reader sees: all of the timeline, but for readers of an earlier state."""
        return self.timeline if self.part is None else self.part

    @property
    def config(self) -> TableConfig:
        """The table's properties as they were last read."""
        return self.meta.config

    @property
    def table(self) -> str:
        """The table's root, for messages."""
        return self.meta.storage.root

    @cached_property
    def schema(self) -> TableSchema:
        """The table's schema; see `MetaClient.schema_json`.

        Raises:
            CorruptError: neither a commit nor the properties hold a schema, or a commit holds something else.
        """
        return TableSchema(self.meta.schema_json(self.seen))

    @cached_property
    def schema_by_id(self) -> str | None:
        """The table's schema by ids as JSON text; None in a table without schema on read."""
        return self.meta.schema_by_id(self.seen)

    @cached_property
    def commits(self) -> Sequence[Instant]:
        """Completed commits that a reader sees, by completion; in layout 1 by requested time, see `Timeline.order`."""
        return self.meta.commits_by_completion(self.seen)

    def view(
        self,
        *,
        archived_until: str | None = None,
        opened: MetadataTable | None = None,
        sizes: bool = True,
        whole: bool | None = None,
    ) -> FileSystemView:
        """Return the file slices that a reader sees; arguments as of `MetaClient.view`."""
        return self.meta.view(
            self.timeline, seen=self.part, archived_until=archived_until, opened=opened, sizes=sizes, whole=whole
        )

    def listing(self, opened: MetadataTable | None = None) -> FileListing:
        """Return the listing of the table's files; see `MetaClient.listing`."""
        return self.meta.listing(self.timeline, opened)

    def metadata_table(self) -> MetadataTable:
        """Return the metadata table, opened for reading; errors as of `MetadataTable.open`."""
        return self.meta.metadata_table(self.timeline)
