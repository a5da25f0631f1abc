"""The table at one listing of its timeline: what a reader, a writer or a service plans by."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from pudi.client.meta_client import MetaClient
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY, commits_by_completion, find_schema
from pudi.config import Options, TableConfig, WriteOptions
from pudi.context.runtime import cached_property
from pudi.errors import CorruptError, NotSupportedError, naming
from pudi.filegroup import FileListing, FileSystemView, StorageListing, ViewOptions
from pudi.metadata import MetadataListing, MetadataTable
from pudi.schema import TableSchema, avro_to_arrow, with_text_columns_text
from pudi.timeline import Instant, Timeline

_Snapshot = TypeVar("_Snapshot", bound="TableSnapshot")


@lru_cache(maxsize=16)  # a verb asks several times, and it's mostly the same
def _check_schema(avro_json: str) -> None:
    """Refuse a text that is no Avro schema of a table. Whether its types are supported is checked later."""
    with suppress(NotSupportedError):
        avro_to_arrow(avro_json)


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
        """Return the table at another timeline, of which a reader sees all, with the same options."""
        same = timeline is self.timeline and self.part is None
        return self if same else replace(self, timeline=timeline, part=None)

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
    def write_options(self) -> WriteOptions:
        """The typed view of the options of a write."""
        return WriteOptions.of(self.options)

    @property
    def table(self) -> str:
        """The table's root, for messages."""
        return self.meta.storage.root

    @cached_property
    def schema(self) -> TableSchema:
        """The table's schema without meta fields (TableSchemaResolver).

        Raises:
            CorruptError: neither a commit nor the properties hold a schema, or a commit holds something else.
        """
        store, found = self.meta.store, find_schema(self.meta.store, self.seen)
        if found is not None:
            instant, text = found[0], found[1].extra_metadata[SCHEMA_KEY]
            with naming(store.history if instant is None else store.path(instant), self.table):
                _check_schema(text)
            return self._with_path_columns(text)
        if self.config.create_schema:
            return self._with_path_columns(self.config.create_schema)
        raise CorruptError(
            f"no commit and no property ({TableConfig.create_schema}) says what the table's columns are",
            table=self.table,
        )

    def _with_path_columns(self, text: str) -> TableSchema:
        """Return a stated schema with the partition columns that files leave out; commits may state them or not."""
        return TableSchema(with_text_columns_text(text, self.meta.path_columns) if self.meta.path_columns else text)

    @cached_property
    def schema_by_id(self) -> str | None:
        """The table's schema by ids as JSON text; None in a table without schema on read."""
        found = find_schema(self.meta.store, self.seen)
        return None if found is None else found[1].extra_metadata.get(INTERNAL_SCHEMA_KEY) or None

    @cached_property
    def commits(self) -> Sequence[Instant]:
        """Completed commits that a reader sees, by completion; in layout 1 by requested time, see `Timeline.order`."""
        return commits_by_completion(self.seen)

    def view(
        self,
        *,
        archived_until: str | None = None,
        opened: MetadataTable | None = None,
        sizes: bool = True,
        whole: bool | None = None,
        defers: bool = False,
    ) -> FileSystemView:
        """Return the file slices that a reader sees; see `FileSystemView` and `listing`.

        By default log files are checked to be whole, except in a metadata table.
        """
        meta, whole = self.meta, (sizes if whole is None else whole) and not self.meta.is_metadata
        options = ViewOptions(self.part, archived_until, meta.merges_on_read, sizes, whole, defers, meta.virtual_keys)
        return FileSystemView(self.timeline, self.listing(opened), meta.store, options)

    def listing(self, opened: MetadataTable | None = None) -> FileListing:
        """Return the listing of the table's files: of the metadata table if one is ready, otherwise of folders.

        Args:
            opened: the metadata table, where it's been opened by this timeline already.
        """
        meta, folders = self.meta, StorageListing(self.meta.storage)
        if not meta.lists_by_metadata:
            return folders
        if opened is None and meta.opened.table is not None and meta.opened.table[0] is self.timeline:
            opened = meta.opened.table[1]
        return MetadataListing(self.metadata_table, folders, meta.opened.listing, opened)

    def metadata_table(self) -> MetadataTable:
        """Return the metadata table, opened for reading; errors as of `MetadataTable.open`."""
        meta = self.meta
        found = MetadataTable.open(meta.storage, meta.config, meta.store, self.timeline, meta.opened.metadata)
        meta.opened.metadata = found
        return found
