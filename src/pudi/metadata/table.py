"""The metadata table opened for reading: a merge-on-read table in a folder of the data table.

`MetadataTable` reads it in the driver, `PartitionSnapshot` is one of its partitions as tasks read it.

A file group has all that its commits state, base file size and log blocks. An index with missing entries would answer
as if these records did not exist. So lost and replaced files are detected before a look-up, on local disks; not in
stores where reading each commit costs a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TableConfig
from pudi.context import FileInfo, RecentValues, Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup import (
    BaseFile,
    FileSlice,
    FileSystemView,
    LogFile,
    LogScope,
    StorageListing,
    ViewOptions,
    read_log_blocks,
)
from pudi.filegroup.hfilebase import open_hfile
from pudi.format import INIT_INSTANT, METADATA_DIR, TIMELINE_FOLDER, FileGroupId, WriteStat, instant_to_millis
from pudi.format.log_block import LogBlock
from pudi.format.metadata_partitions import FILES, partition_type
from pudi.metadata.decode import ALL, SMALL, ReadRequest, decode_entries, decoded_base, decoded_blocks, empty
from pudi.metadata.keys import Shards
from pudi.metadata.merge import folded, merged
from pudi.metadata.plain_records import merged_lists
from pudi.metadata.record_schema import RECORD_SCHEMA, columns_of
from pudi.metadata.small_files import MOST_BYTES, FileStamp, KeptFile, ReadOnce, SmallFiles, content_of
from pudi.metadata.validity import (
    ever_invalidated_partitions,
    invalidated_partitions,
    is_known_to,
    lost_commit,
    missing,
    scope_of,
)
from pudi.storage import StorageBelow, executor_of, has_own_clock, is_near
from pudi.timeline import Instant, Timeline, TimelineStore

_REMEDY = "restore it from a copy, or rebuild the metadata table (`pudi repair`)"


def _still_completed(timeline: Timeline, store: TimelineStore) -> Timeline:
    """Return a timeline without what was rolled back, or archived, since it was loaded."""
    done = {each.requested for each in store.load().instants if each.is_completed}
    return replace(timeline, instants=tuple(each for each in timeline.instants if each.requested in done))


def check_slice(
    store: TimelineStore,
    timeline: Timeline,
    sees: Callable[[str], bool],
    file_slice: FileSlice,
    instants: Collection[str],
) -> None:
    """Refuse a file group that lacks something that a completed commit wrote to it.

    It reads the commits that no log block names; most of these wrote to other file groups.

    Args:
        store: the storage of the metadata table's timeline.
        timeline: its active timeline.
        sees: whether the reader sees an instant.
        file_slice: the latest slice of the file group.
        instants: instants of the blocks in the slice's log files.

    Raises:
        CorruptError: a log file or a block is missing, or the base file has another size than its commit states.
    """
    if not is_near(store.storage):
        return
    since, commits = file_slice.instant, [instant for instant in timeline.commits if sees(instant.requested)]
    for instant in commits:
        if instant.requested == file_slice.instant:  # it built (or rebuilt) the file group, or compacted it
            since = timeline.order(instant)
            _check_base(store, instant, file_slice)
    for instant in commits:
        # later completed commits wrote to this slice, even if requested before the compaction that made it; the initial
        # deltacommits make file groups, and write to none that is there
        initial = instant.requested.startswith(INIT_INSTANT)
        if timeline.order(instant) > since and instant.requested not in instants and not initial:
            _check_logs(store, instant, file_slice)


def _check_base(store: TimelineStore, instant: Instant, file_slice: FileSlice) -> None:
    base = file_slice.base
    for stat in _stats(store, instant, file_slice.group):
        size = stat.file_size_in_bytes
        if base is not None and stat.path == base.path and size and size != base.size:
            raise CorruptError(
                f"a base file of the metadata table isn't the one that was written: it has {base.size} bytes, where "
                f"its commit states {size}; {_REMEDY}",
                table=store.storage.root,
                path=base.path,
                instant=instant.requested,
            )


def _check_logs(store: TimelineStore, instant: Instant, file_slice: FileSlice) -> None:
    there = {log.path for log in file_slice.logs}
    for stat in _stats(store, instant, file_slice.group):
        if stat.log_version is None or (
            stat.path in there and store.rules.logs_name_their_commit
        ):  # its blocks were compacted
            continue
        what = "has no block of an instant that wrote one" if stat.path in there else "is gone"
        raise CorruptError(
            f"a log file of the metadata table {what}; {_REMEDY}",
            table=store.storage.root,
            path=stat.path,
            instant=instant.requested,
        )


def _stats(store: TimelineStore, instant: Instant, group: FileGroupId) -> Iterator[WriteStat]:
    try:
        metadata = store.read_commit_metadata(instant)
    except NotFoundError:  # archived since the timeline was loaded
        return
    for stat in metadata.partition_to_write_stats.get(group.partition, ()):
        if stat.file_id == group.file_id:
            yield stat


@dataclass(frozen=True, slots=True)
class _TimedListing(StorageListing):
    """A listing that notes when files were modified last, by path."""

    modified_ms: dict[str, int] = field(default_factory=dict)

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Files directly in a partition."""
        found = StorageListing.files(self, partition)
        self.modified_ms.update((info.path, info.modified_ms) for info in found)
        return found


_log = logging.getLogger(__name__)

_OWN_OPERATIONS = frozenset({"LOG_COMPACT", "BULK_INSERT_PREPPED"})
"""Operations of deltacommits that are not instants of the data table (WriteOperationType)."""

_FEW_FILES = 512 << 10
"""Bytes of a file group up to which lists of files are merged as plain values; half of a log file is its schema."""


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """The metadata table at the time of opening.

    Attributes:
        storage: the metadata table's folder.
        timeline: its active timeline.
        partitions: the partitions that readers may use: ready, and not invalidated.
        scope: the instants that count.
        invalidated: partitions whose entries another writer rolled back, see `invalidated_partitions`.
    """

    storage: Storage
    timeline: Timeline
    partitions: tuple[str, ...]
    scope: LogScope
    invalidated: frozenset[str]
    _view: FileSystemView = field(repr=False)
    _is_own: Callable[[Instant], bool] = field(default=lambda _: False, repr=False)
    _store: TimelineStore | None = field(default=None, repr=False)
    _shards: dict[str, Shards] = field(default_factory=dict, repr=False)
    _files: SmallFiles = field(default_factory=lambda: RecentValues(MOST_BYTES), repr=False)
    _modified_ms: Mapping[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        storage: Storage,
        config: TableConfig,
        store: TimelineStore,
        timeline: Timeline,
        before: MetadataTable | None = None,
    ) -> MetadataTable:
        """Open it, which lists its timeline once.

        Args:
            storage: the data table's files.
            config: its properties.
            store: its timeline in storage.
            timeline: the data table's active timeline, loaded before.
            before: the metadata table as it was opened before; what was read of its timeline isn't read again. While
                that is the same, its file groups aren't listed again.

        Raises:
            CorruptError: the metadata table has no completed commit or lacks one of the table's, the completed file of
                one of its own is gone, or its list of files was rolled back.
        """
        own = StorageBelow(storage, METADATA_DIR)
        instants = None if before is None or store.rules.names_repeat else before._store
        if instants is None:
            folder = store.rules.folder(TIMELINE_FOLDER)
            history = f"{folder}/{store.rules.default_history}"
            instants = TimelineStore(own, folder, history, config.timezone, store.context, store.lock, store.layout)
        known = instants.load()
        if not known.commits:
            raise CorruptError(
                "the properties name a metadata table that has no completed commit; rebuild it", table=own.root
            )
        behind = missing(timeline, known, instants.archived)
        if behind is not None:  # unless it was rolled back since the timeline was loaded
            behind = missing(_still_completed(timeline, store), known, instants.archived)
        if behind is not None:
            raise CorruptError(
                f"the metadata table doesn't know of the completed {behind.action.value} {behind.requested}: a writer "
                "didn't maintain it; rebuild it",
                table=own.root,
                instant=behind.requested,
            )
        lost_instant = lost_commit(timeline, known, instants)
        if lost_instant is not None:  # unless its rollback had begun when the metadata table's timeline was loaded
            lost_instant = lost_commit(_still_completed(timeline, store), known, instants)
        if lost_instant is not None:
            raise CorruptError(
                f"the completed file of the metadata table's deltacommit {lost_instant.requested} is gone; rebuild it",
                table=own.root,
                instant=lost_instant.requested,
            )
        # Sizes in commits are not read here, which would cost a request per log file. A log file that was cut off at a
        # block's end may only lack deletes, which follow the records: the index then has entries too many, which
        # look-ups check against the files. Compaction compares sizes.
        # a reader sees file slices of completed instants only, and these were there when they were listed
        is_same = before is not None and before._store is instants and before.timeline.instants == known.instants
        shards, times = (before._shards, before._modified_ms) if before is not None and is_same else ({}, {})
        listing = _TimedListing(own, dict(times))
        view = FileSystemView(known, listing, instants, ViewOptions(logs=True, sizes=False))

        def is_own(instant: Instant) -> bool:
            return instants.read_commit_metadata(instant).operation_type in _OWN_OPERATIONS

        lost = invalidated_partitions(known, instants) & {*config.metadata_partitions}
        if FILES in lost:
            raise CorruptError("a writer rolled back the metadata table's list of files; rebuild it", table=own.root)
        if lost:
            _log.warning(
                "%s: a writer rolled back what %s held, so that it isn't used; `pudi repair`, or pudi's next write, "
                "rebuilds it",
                own.root,
                ", ".join(sorted(lost)),
            )
        ready = tuple(each for each in config.metadata_partitions if each not in lost)
        files = RecentValues(MOST_BYTES) if before is None or before._store is not instants else before._files
        scope = scope_of(timeline, known, instants)
        return cls(own, known, ready, scope, lost, view, is_own, instants, shards, files, listing.modified_ms)

    @classmethod
    def of_files(cls, storage: Storage, scope: LogScope) -> MetadataTable:
        """Return a metadata table that only reads given file groups (`read_slice`), for tasks.

        Args:
            storage: the metadata table's files.
            scope: the instants that count.
        """
        nothing = Timeline()
        return cls(
            storage, nothing, (), scope, frozenset(), FileSystemView(nothing, StorageListing(storage), cast(Any, None))
        )

    @property
    def ever_invalidated(self) -> frozenset[str]:
        """Return `invalidated`, including archived instants, at the cost of requests (`ever_invalidated_partitions`).

        Raises:
            CorruptError: the archive can't be read.
        """
        if self._store is None:
            return self.invalidated
        return ever_invalidated_partitions(self.timeline, self._store) & {*self.partitions, *self.invalidated}

    @property
    def stamp(self) -> tuple[object, ...]:
        """A value that stays equal as long as the content is the same: completed instants, and which of them count."""
        done = tuple((i.requested, i.completion) for i in self.timeline.instants if i.is_completed)
        return done, self.scope.completed

    def is_known_to(self, timeline: Timeline) -> bool:
        """Return whether the table's timeline has all commits of the metadata table; see `validity.is_known_to`."""
        return is_known_to(self.scope, self.timeline, timeline, self._is_own)

    def shards(self, partition: str) -> Shards:
        """Return the file groups of a partition, by one listing.

        Raises:
            CorruptError: file groups are missing.
        """
        if partition not in self._shards:
            self._shards[partition] = Shards.of(partition, self._view.slices(partition))
        return self._shards[partition]

    def read(
        self,
        partition: str,
        keys: pa.Array | Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
        *,
        owner: str | None = None,
        whole_key: bool = False,
    ) -> pa.Table:
        """Return merged records of a partition.

        Args:
            partition: the metadata table's partition.
            keys: wanted record keys; only file groups that may hold them are read, and of their base files only the
                blocks that may. None for all.
            prefixes: prefixes of wanted keys; reads all file groups, except in a secondary index, where only those of
                the values are read (`secondary_prefixes`).
            owner: for a record index per partition, the data table's partition; None for all.
            whole_key: see `secondary_shard_of`.

        Returns:
            Columns of `RECORD_SCHEMA` for this partition (`columns_of`), one row per existing key, unordered; without
            deleted records.

        Raises:
            CorruptError: a file is damaged.
            NotFoundError: a file is gone, since the metadata table was cleaned meanwhile.
        """
        columns = columns_of(partition)
        groups = self._groups(partition, keys, prefixes, owner, whole_key)
        parts = executor_of(self.storage).map(lambda each: self._read_group(partition, *each), groups)
        schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def read_slice(self, partition: str, file_slice: FileSlice, wanted: ReadRequest | None = None) -> pa.Table:
        """Return the merged records of one file group; see `read`."""
        return self._read_group(partition, file_slice, wanted or ReadRequest())

    def read_logs(self, partition: str, file_slice: FileSlice) -> tuple[pa.Table, pa.Array, tuple[str, ...]]:
        """Merge the log files of one file group (`merge.folded`); also return the instants of their blocks.

        Raises:
            CorruptError: a file is damaged.
            NotFoundError: a file is gone.
        """
        with self._forgetting(file_slice):
            blocks = self._blocks(file_slice)
            rows, gone = folded(partition, decoded_blocks(blocks, columns_of(partition)))
        return rows, gone, tuple(dict.fromkeys(block.instant for block in blocks))

    def _groups(
        self,
        partition: str,
        keys: pa.Array | Sequence[str] | None,
        prefixes: Sequence[str] | None,
        owner: str | None,
        whole_key: bool,
    ) -> list[tuple[FileSlice, ReadRequest]]:
        shards = self.shards(partition)
        if keys is not None:
            texts = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(list(keys), pa.string())
            found = shards.holding(pc.unique(texts), whole_key=whole_key, owner=owner)
            return [(file_slice, ReadRequest(keys=own)) for file_slice, own in found]
        if prefixes is not None and partition_type(partition).keys_begin_with_value and not whole_key:
            found = shards.holding(pa.array(list(prefixes), pa.string()), whole_key=False)
            return [(file_slice, ReadRequest(prefixes=tuple(own.to_pylist()))) for file_slice, own in found]
        wanted = ReadRequest(prefixes=None if prefixes is None else tuple(prefixes))
        slices = shards.all if owner is None else shards.by_owner.get(owner, ())
        return [(file_slice, wanted) for file_slice in slices]

    def few_files(self, keys: Sequence[str]) -> dict[str, dict[str, int]] | None:
        """Return the sizes of files by name, for some records of the partition `files`; None if it has many.

        Errors as of `read`.
        """
        groups = self.shards(FILES).all
        size = sum(log.size for group in groups for log in group.logs)
        size += sum(group.base.size for group in groups if group.base is not None)
        if len(groups) != 1 or size > _FEW_FILES:
            return None
        with self._forgetting(groups[0]):
            base, blocks = groups[0].base, self._checked_blocks(groups[0])
            return merged_lists(None if base is None else (base.path, self._content(base)), blocks, keys)

    @contextmanager
    def _forgetting(self, file_slice: FileSlice) -> Iterator[None]:
        """Forget the kept content of a slice's files where reading it fails: the files may be restored."""
        try:
            yield
        except Exception:
            self._files.forget(each.path for each in file_slice.files)
            raise

    def _checked_blocks(self, file_slice: FileSlice) -> list[LogBlock]:
        blocks = self._blocks(file_slice)
        if self._store is not None:
            found = {block.instant for block in blocks}
            check_slice(self._store, self.timeline, self.scope.sees, file_slice, found)
        return blocks

    def _content(self, base: BaseFile) -> bytes:
        def read() -> bytes:
            return bytes(self.storage.read_ranges(base.path, [(0, base.size)])[0])

        stamp = self._stamp(base)
        return read() if stamp is None else content_of(self._files, base.path, stamp, read)

    def keep_written(self, files: Mapping[str, bytes], done: Instant) -> None:
        """Keep small log files that this process wrote for a deltacommit, so that the next reader needn't read them."""
        if self._store is not None and self._store.rules.logs_name_their_commit:
            completion = done.completion or ""
            zone = self._store.timezone_name  # the files had been written when the time of completion was made
            until = None if has_own_clock(self.storage) else instant_to_millis(completion, zone)
            for path, data in files.items():
                if len(data) <= SMALL:
                    self._files.keep(path, KeptFile(data, FileStamp(len(data), completion, None), until), len(data))

    def _stamp(self, file: BaseFile | LogFile) -> FileStamp | None:
        """Return what the content of a small file depends on beside its path; None if it may change still."""
        if self._store is None or not self._store.rules.logs_name_their_commit or file.size > SMALL:
            return None
        written = self.timeline.commit(file.instant)
        sees = written is not None and self.scope.sees(file.instant)
        if written is None or not sees:
            return None
        return FileStamp(file.size, written.completion or "", self._modified_ms.get(file.path))

    def _read_group(self, partition: str, file_slice: FileSlice, wanted: ReadRequest) -> pa.Table:
        with self._forgetting(file_slice):
            return self._merged_group(partition, file_slice, wanted)

    def _merged_group(self, partition: str, file_slice: FileSlice, wanted: ReadRequest) -> pa.Table:
        columns = columns_of(partition)
        blocks = self._checked_blocks(file_slice)
        base_size = 0 if file_slice.base is None else file_slice.base.size
        if base_size + sum(len(block.content) for block in blocks) <= SMALL:
            # merging all records once takes less time than picking the wanted ones of each block
            base, newer = self._base(file_slice, columns, ALL), decoded_blocks(blocks, columns)
            return wanted.rows(merged(partition, base, newer))
        newer = decoded_blocks(blocks, columns, wanted)
        return merged(partition, self._base(file_slice, columns, wanted), newer)

    def _base(self, file_slice: FileSlice, columns: Sequence[str], wanted: ReadRequest) -> pa.Table:
        base = file_slice.base
        if base is None:
            return empty(columns)
        path = base.path
        if base.size <= SMALL:
            return wanted.rows(decoded_base(self._content(base), columns, path=path))
        file = open_hfile(self.storage, base)
        entries = wanted.entries(file)
        if not entries.num_rows:
            return empty(columns)
        return decode_entries(entries, file.avro_schema, columns, path=path)

    def _blocks(self, file_slice: FileSlice) -> list[LogBlock]:
        stamps = {log.path: stamp for log in file_slice.logs if (stamp := self._stamp(log)) is not None}
        storage = ReadOnce(self.storage, self._files, stamps) if stamps else self.storage
        return read_log_blocks(storage, file_slice.logs, self.scope)


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """A partition of the metadata table at one moment; picklable.

    Attributes:
        name: the partition.
        shards: its file groups.
        scope: the instants whose log blocks count.
        whole_key: see `secondary_shard_of`.
    """

    name: str
    shards: Shards
    scope: LogScope
    whole_key: bool = False

    @classmethod
    def of(cls, table: MetadataTable, name: str, *, whole_key: bool = False) -> PartitionSnapshot:
        """Return a partition of an opened metadata table.

        Raises:
            CorruptError: file groups are missing.
        """
        return cls(name, table.shards(name), table.scope, whole_key)

    def read(self, storage: Storage, keys: pa.Array) -> pa.Table:
        """Return the records of some keys; see `MetadataTable.read`.

        Args:
            storage: the data table's files.
            keys: record keys, strings.
        """
        table = self._table(storage)
        found = self.shards.holding(keys.unique(), whole_key=self.whole_key)
        parts = [table.read_slice(self.name, each, ReadRequest(keys=own)) for each, own in found]
        schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns_of(self.name)])
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def read_slice(self, storage: Storage, file_slice: FileSlice) -> pa.Table:
        """Return all records of one file group."""
        return self._table(storage).read_slice(self.name, file_slice)

    def _table(self, storage: Storage) -> MetadataTable:
        return MetadataTable.of_files(StorageBelow(storage, METADATA_DIR), self.scope)
