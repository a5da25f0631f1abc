"""The table at one listing of its timeline: what a reader, a writer or a service plans by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pudi.client.meta_client import MetaClient
from pudi.config import Options, TableConfig
from pudi.context.cached import cached_property
from pudi.filegroup import FileListing, FileSystemView
from pudi.metadata import MetadataTable
from pudi.schema.table_schema import TableSchema
from pudi.timeline import Instant, Timeline


@dataclass(frozen=True)
class TableSnapshot:
    """The table at one listing of its timeline. It never changes; `refreshed` makes a newer one.

    Attributes:
        meta: access to the table, the same for all its snapshots.
        timeline: the active timeline, or the part of it that a reader sees.
        options: the options of the call; empty where none count.
    """

    meta: MetaClient
    timeline: Timeline
    options: Options = field(default_factory=Options, repr=False)

    @classmethod
    def load(cls, meta: MetaClient, options: Options | None = None) -> TableSnapshot:
        """Return the table as it is now."""
        return cls(meta, meta.store.load(), options or Options())

    def refreshed(self) -> TableSnapshot:
        """Return the table as it is now, with the same options."""
        return self.at(self.meta.store.load())

    def at(self, timeline: Timeline) -> TableSnapshot:
        """Return the table at another timeline, with the same options."""
        return self if timeline is self.timeline else replace(self, timeline=timeline)

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
        return TableSchema(self.meta.schema_json(self.timeline))

    @cached_property
    def schema_by_id(self) -> str | None:
        """The table's schema by ids as JSON text; None in a table without schema on read."""
        return self.meta.schema_by_id(self.timeline)

    @cached_property
    def commits(self) -> Sequence[Instant]:
        """Completed commits in order of completion; in layout 1 of their requested times, see `Timeline.order`."""
        return self.meta.commits_by_completion(self.timeline)

    def view(
        self,
        *,
        seen: Timeline | None = None,
        archived_until: str | None = None,
        sizes: bool = True,
        whole: bool | None = None,
    ) -> FileSystemView:
        """Return the file slices as a reader sees them; arguments as of `MetaClient.view`."""
        return self.meta.view(self.timeline, seen=seen, archived_until=archived_until, sizes=sizes, whole=whole)

    def listing(self) -> FileListing:
        """Return the listing of the table's files; see `MetaClient.listing`."""
        return self.meta.listing(self.timeline)

    def metadata_table(self) -> MetadataTable:
        """Return the metadata table, opened for reading; errors as of `MetadataTable.open`."""
        return self.meta.metadata_table(self.timeline)
