"""One table as actions and scans need it: storage, configuration, timeline, schema (HoodieTableMetaClient)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pudi.client.properties import read_config, update_properties
from pudi.client.table_keys import key_generator, path_columns_of
from pudi.config import (
    CallbackOptions,
    LockSettings,
    MergeMemory,
    MetadataOptions,
    MetricsOptions,
    Option,
    Options,
    ReadOptions,
    TableConfig,
    TimeOptions,
    ValidatorOptions,
    WriteOptions,
    check_backup,
    check_readable,
    metadata_switched_off,
    resolve_only,
)
from pudi.config.option import text_of
from pudi.config.table_options import MERGE_ON_READ
from pudi.context import Context, Lock, Storage
from pudi.context.runtime import lazy_module
from pudi.errors import CorruptError
from pudi.filegroup import partitioned, path_columns
from pudi.format import METADATA_DIR, Action, Layout
from pudi.format.layout import rules_of
from pudi.format.metadata_partitions import FILES
from pudi.locks import open_lock
from pudi.metadata import KeptListing, MetadataTable
from pudi.record import KeyGenerator
from pudi.storage import StorageBelow, delete_for_good, open_storage, synced
from pudi.timeline import InstantTimes, Timeline, TimelineStore
from pudi.timeline.guards import refuse_layout

if TYPE_CHECKING:
    from pudi.metrics import metered as metrics
else:
    metrics = lazy_module("pudi.metrics.metered")


def timeline_of(config: TableConfig, storage: Storage, context: Context, lock: Lock, options: Options) -> TimelineStore:
    """Return the timeline of a table, where its properties say; it reports what is done if options ask for metrics."""
    layout: Layout = 1 if config.layout_version == 1 else 2
    folder = rules_of(layout).folder(config.timeline_path)
    history = rules_of(layout).history(config.timeline_path, config.archive_path, config.history_path)
    times, clock_tolerance_ms = InstantTimes.of(options, storage.root), options[WriteOptions.clock_tolerance_ms]
    store = TimelineStore(storage, folder, history, config.timezone, context, lock, layout, clock_tolerance_ms, times)
    return metrics.metered(store, options, config.name) if options[MetricsOptions.on] else store


OPENING_OPTIONS: tuple[Option[Any], ...] = (
    WriteOptions.lock_provider,
    WriteOptions.concurrency_mode,
    WriteOptions.clock_tolerance_ms,
    WriteOptions.sync,
    WriteOptions.keeps_rolled_back,
    WriteOptions.rolled_back_folder,
    ReadOptions.by_position,
    MetadataOptions.enabled,
    *LockSettings.declared,
    *TimeOptions.declared,
    *MergeMemory.declared,
    *CallbackOptions.declared,
    *MetricsOptions.declared,
    *ValidatorOptions.declared,
)
"""Options that a table is opened with. A verb with one of these options opens the table again."""


@dataclass(slots=True)
class TableProperties:
    """A table's properties as they were last read. All clients that one `Table` makes for its verbs share them.

    Attributes:
        config: the properties.
    """

    config: TableConfig


@dataclass(slots=True)
class OpenedMetadata:
    """Parts of the metadata table that one client has opened, so that later steps needn't open them again.

    Attributes:
        table: the metadata table as the last write opened it, and the table's timeline that it belongs to.
        client: the metadata table as a table of its own, and what it depends on (`open_metadata`).
        listing: the files that it lists.
        metadata: the metadata table as it was last opened for reading.
    """

    table: tuple[Timeline, MetadataTable] | None = None
    client: tuple[object, MetaClient] | None = None
    listing: KeptListing = field(default_factory=KeptListing)
    metadata: MetadataTable | None = None


@dataclass(frozen=True, slots=True)
class MetaClient:
    """Access to one table.

    Args:
        storage: the table's files.
        properties: its properties.
        context: clock, ids and chance.
        lock: its lock.
        store: its timeline.
        memory: how much of it merging one slice may take.
        by_position: whether reads may match log records with base rows by position.
        reads_metadata: whether files are listed through its metadata table, where it has one.
        options: the options that it was opened with, of `OPENING_OPTIONS`.
        opened: what has been opened of its metadata table.
    """

    storage: Storage
    properties: TableProperties
    context: Context
    lock: Lock
    store: TimelineStore
    reads_metadata: bool = True
    memory: MergeMemory = field(default_factory=MergeMemory)
    by_position: bool = True
    options: Options = field(default_factory=Options, repr=False)
    opened: OpenedMetadata = field(default_factory=OpenedMetadata, repr=False, compare=False)

    @classmethod
    def open(
        cls,
        path: str,
        storage_options: Mapping[str, str] | None,
        options: Mapping[str, str],
        context: Context | None = None,
        storage: Storage | None = None,
    ) -> MetaClient:
        """Open the table at `path`.

        Raises:
            TableNotFoundError: there is no table.
            NotSupportedError: it's of a kind that this release can't read.
            CorruptError: its properties can't be read.
        """
        context = context or Context()
        storage = storage or open_storage(path, storage_options, context=context)
        config = read_config(storage, context)
        check_readable(config, storage.root)
        return cls.of(storage, TableProperties(config), options, context)

    @classmethod
    def of(
        cls, storage: Storage, properties: TableProperties, options: Mapping[str, str], context: Context
    ) -> MetaClient:
        """Return the client of a table whose properties are known."""
        config = properties.config
        given = resolve_only(options, OPENING_OPTIONS)
        check_backup(given, storage.root)
        left_out = path_columns_of(config)
        storage = partitioned(synced(partitioned(storage, None), given[WriteOptions.sync]), left_out)
        lock = open_lock(storage, given[WriteOptions.lock_provider], options, context, config.name)
        store = timeline_of(config, storage, context, lock, given)
        memory, by_position = MergeMemory.of(given), given[ReadOptions.by_position]
        reads_metadata = not metadata_switched_off(given)
        return cls(storage, properties, context, lock, store, reads_metadata, memory, by_position, given)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle what readers need: in another process the table has its usual lock, and a clock of that process."""
        locking = {option.key for option in (WriteOptions.lock_provider, *LockSettings.declared)}
        kept = {key: text_of(value) for key, value in self.options.given.items() if key not in locking}
        return _for_readers, (self.storage, self.config, kept)

    def for_verb(self, options: Mapping[str, str]) -> MetaClient:
        """A client of the same table with the options of one verb."""
        return MetaClient.of(self.storage, self.properties, options, self.context)

    def with_config(self, config: TableConfig) -> MetaClient:
        """The same table with other properties, under the same lock; its timeline is where these say."""
        store = timeline_of(config, self.storage, self.context, self.lock, self.options)
        return replace(self, properties=TableProperties(config), store=store, opened=OpenedMetadata())

    def now(self) -> MetaClient:
        """The same table as its properties are now, under the same lock, wherever its timeline is."""
        return self.with_config(read_config(self.storage, self.context))

    def reopen(self, options: Mapping[str, str]) -> MetaClient:
        """The same table with its properties read again."""
        return MetaClient.open(self.storage.root, None, options, self.context, self.storage)

    @property
    def config(self) -> TableConfig:
        """The table's properties as they were last read."""
        return self.properties.config

    @property
    def is_metadata(self) -> bool:
        """Whether it's the metadata table of another table."""
        return isinstance(self.storage, StorageBelow)

    @property
    def merges_on_read(self) -> bool:
        """Whether it's a merge-on-read table."""
        return self.config.table_type == MERGE_ON_READ

    @property
    def commit_action(self) -> Action:
        """The action of a write that replaces nothing (CommitUtils.getCommitActionType)."""
        return Action.DELTACOMMIT if self.merges_on_read else Action.COMMIT

    @property
    def keys(self) -> KeyGenerator:
        """The table's key generator."""
        return key_generator(self.config)

    @property
    def virtual_keys(self) -> KeyGenerator | None:
        """Return the key generator of a table without meta fields; None if files hold record keys."""
        return None if self.config.populate_meta_fields or self.is_metadata else self.keys

    @property
    def path_columns(self) -> tuple[str, ...]:
        """The partition columns that data files leave out, in their order; none in most tables."""
        columns = path_columns(self.storage)
        return () if columns is None else columns.names

    @property
    def lists_by_metadata(self) -> bool:
        """Whether files are listed through the metadata table: there is one, and reading it isn't switched off."""
        return self.reads_metadata and FILES in self.config.metadata_partitions

    def check_listed(self, table: MetadataTable) -> None:
        """Refuse to add to a metadata table whose list of files was unreadable at the last request.

        Raises:
            CorruptError: it's so, and the metadata table is still the same.
        """
        damage = self.opened.listing.damage
        if damage is None or damage[0] != table.stamp:
            return
        error = damage[1]
        raise CorruptError(
            "the metadata table's list of files is damaged, and nothing more is added to it; rebuild it (`pudi "
            f"repair`), or drop it ({MetadataOptions.enabled}=false): {error.message}",
            table=self.storage.root,
            path=f"{METADATA_DIR}/{error.path}",
            offset=error.offset,
        )

    def delete_locked(self, paths: Sequence[str]) -> None:
        """Delete files for good, under the table's lock.

        A process that stood still for longer than its lease may find that others did its work meanwhile, with files of
        the same names.

        Raises:
            ConflictError: the lock was lost; nothing was deleted.
        """
        if paths:
            self.lock.verify()
            delete_for_good(self.storage, paths)

    def reload(self) -> None:
        """Read the properties again: another writer may have changed them.

        Raises:
            CorruptError: they can't be read.
            ConflictError: the table was upgraded or downgraded, and its timeline is elsewhere.
        """
        config = read_config(self.storage, self.context)
        refuse_layout(config.layout_version, config.version, self.store.layout, self.storage)
        self.update_config(config)

    def change_properties(self, change: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
        """Change the table's properties, under the table's lock; see `update_properties`.

        Raises:
            ConflictError: the lock was lost; the properties are as they were.
        """
        changed = update_properties(self.storage, self.context, self.lock, change)
        self.update_config(TableConfig.parse(changed, table=self.storage.root))

    def update_config(self, config: TableConfig) -> None:
        """Take over the table's properties as they were read or changed."""
        self.properties.config = config


def _for_readers(storage: Storage, config: TableConfig, options: dict[str, str]) -> MetaClient:
    """Return a client that was pickled, with the properties as they were."""
    return MetaClient.of(storage, TableProperties(config), options, Context())
