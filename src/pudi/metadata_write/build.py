"""Build the metadata table and its partitions, drop them, and delete what a dead writer left unfinished.

A builder determines the file groups of an index's partition and writes their first base files. Between the two, writers
may start to maintain the partition. Their changes count as newer than the base files, whenever these are written.

Source: HoodieBackedTableMetadataWriter.initializeFromFilesystem, HoodieTableMetadataUtil
.deleteMetadataTable and deleteMetadataTablePartition.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from posixpath import basename
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.client.inflight_builds import partitions_of
from pudi.config import Options, TableConfig, metadata_dropped, metadata_switched_off, metadata_wanted, names_in
from pudi.context import FileInfo, Storage
from pudi.errors import ConflictError, PudiError, TableNotFoundError
from pudi.filegroup import FileSlice, LogFile, StorageListing, compaction_plan, stated_sizes
from pudi.format import (
    INIT_INSTANT,
    METADATA_DIR,
    Action,
    PartitionMetadata,
    State,
    WriteStat,
    encode_partition_metadata,
    parse_data_file,
    partition_metadata_path,
    write_token,
)
from pudi.format.layout import rules_of
from pudi.format.metadata_partitions import FILES, RECORD_INDEX, group_id
from pudi.metadata.changes import Changes, files_changes
from pudi.metadata.keys import shard_of
from pudi.metadata_write.client import Stats, begin_deltacommit, complete_partitions, create_metadata, open_metadata
from pudi.metadata_write.index_defs import IndexSpec
from pudi.storage import delete_folder
from pudi.task import FileJob, FileResult, JobRunner
from pudi.task.metadata_files import base_name, make_group, write_base
from pudi.timeline import Instant, Timeline, new_instant

_log = logging.getLogger(__name__)

_READY, _BUILDING = TableConfig.ready_partitions.key, TableConfig.inflight_partitions.key
_REBUILD = TableConfig.rebuild_partitions.key
_REPEATED = TableConfig.repeated_keys.key
_WITHOUT_LOGS = frozenset({Action.CLEAN, Action.CLUSTERING, Action.INDEXING, Action.SAVEPOINT})
_FIRST_SUFFIX = 10
"""Below version 8, three digits behind the instant at which a partition is made, counted from here on."""

_SMALL_BYTES = 16 << 20
"""Latest file slices that this process reads in less time than Spark takes to plan and start jobs."""


@dataclass(frozen=True, slots=True)
class Building:
    """The build of one index.

    Attributes:
        snapshot: the table, with the user's options. The base files must contain exactly what its timeline shows as
            completed.
        engine: runs the jobs.
        spec: the index.
        requested: the metadata table's instant that writes the files; it has a heartbeat on the table.
        small_here: whether jobs run in this process if the table is small, instead of on the engine.
    """

    snapshot: TableSnapshot
    engine: JobRunner
    spec: IndexSpec
    requested: str
    small_here: bool = False

    @property
    def meta(self) -> MetaClient:
        """The table."""
        return self.snapshot.meta

    @property
    def options(self) -> Options:
        """The user's options."""
        return self.snapshot.options

    def run(self, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run jobs on the engine, with the table's storage."""
        if jobs and self.small_here and sum(each.size for each in self.slices()) <= _SMALL_BYTES:
            return self.run_here(jobs)
        return self.engine.run_jobs(self.meta.storage, self.requested, jobs) if jobs else ()

    def run_here(self, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run small jobs in this process."""
        return self.meta.context.executor.map(lambda job: job.run(self.meta.storage, 0), jobs)

    def slices(self) -> list[FileSlice]:
        """Return the table's latest file slices, by the timeline."""
        return self.snapshot.view().all_slices()


class NoEngine:
    """Refuses to run jobs: the indexes of a table without files need none."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Refuse them."""
        raise AssertionError(f"{len(jobs)} jobs for {instant} in {storage.root}, which has no files yet")


@dataclass(slots=True)
class IndexBuilder(ABC):
    """Builds the partition of one index; created for each build.

    Attributes:
        work: the build; replaced if the table changed before `fill`.
    """

    work: Building

    @abstractmethod
    def spec(self) -> IndexSpec:
        """Return the full definition of the index, after a check of the table; `work.spec` is the user's request.

        Raises:
            InvalidArgumentError: the table does not support such an index; nothing was written.
            NotSupportedError: this release can't make it.
        """

    @abstractmethod
    def groups(self) -> Sequence[str]:
        """Return the ids of the partition's file groups; their number never changes."""

    def late_groups(self) -> Sequence[str]:
        """Return the ids of further file groups for what was committed since `groups`, under the table's lock."""
        return ()

    @abstractmethod
    def fill(self) -> Stats:
        """Write the base files of the file groups with records, while writers go on.

        The file groups exist, as last returned by `groups` and `late_groups`.

        Raises:
            NotFoundError: a file of the table is missing.
            CorruptError: a file can't be read.
        """

    def catch_up(self, now: TableSnapshot) -> None:
        """Read what `finish` needs from files committed since the build began, while writers go on.

        Args:
            now: the table as it is now.
        """
        return

    def finish(self, now: TableSnapshot) -> Stats:
        """Make the partitions that come with the index, under the table's lock.

        Args:
            now: the table as it is now; writes may have completed since `catch_up`.
        """
        return {}


def make_groups(mdt: MetaClient, requested: str, partition: str, file_ids: Sequence[str]) -> None:
    """Create the folder and the empty file groups of a partition, after the deletion of its old files.

    Every file group starts with an empty log file, so that it exists without records.

    Args:
        mdt: the metadata table.
        requested: the instant.
        partition: the partition.
        file_ids: its file groups.
    """
    delete_folder(mdt.storage, partition)
    described = encode_partition_metadata(PartitionMetadata(requested, 1), mdt.context.clock.now_ms())
    mdt.storage.create(partition_metadata_path(partition), described)
    add_groups(mdt, requested, partition, file_ids)


def add_groups(mdt: MetaClient, requested: str, partition: str, file_ids: Sequence[str]) -> None:
    """Create further file groups of a partition; arguments as of `make_groups`."""
    mdt.context.executor.map(lambda file_id: make_group(mdt.storage, requested, partition, file_id), file_ids)


def make_partition(
    mdt: MetaClient, requested: str, partition: str, file_ids: Sequence[str], fill: Callable[[], Stats]
) -> Stats:
    """Create a partition by one deltacommit of the metadata table, under the table's lock.

    Args:
        mdt: the metadata table.
        requested: the instant.
        partition: the partition.
        file_ids: all its file groups.
        fill: writes their base files.

    Returns:
        The write statistics by partition, with partitions that got no records.
    """
    instant = begin_deltacommit(mdt, requested)
    make_groups(mdt, requested, partition, file_ids)
    stats = {partition: (), **fill()}
    complete_partitions(mdt, instant, {p: s for p, s in stats.items() if s}, stats)
    return stats


def make_empty(builder: IndexBuilder) -> Stats:
    """Create the index of a table without files, under the table's lock; see `make_partition`."""
    work = builder.work
    return make_partition(
        open_metadata(work.meta),
        work.requested,
        work.spec.partition,
        builder.groups(),
        lambda: {**builder.fill(), **builder.finish(work.snapshot)},
    )


def reconcile_metadata(meta: MetaClient, options: Options) -> None:
    """Before a write, delete what the options exclude from the metadata table, and unfinished partitions.

    Args:
        meta: the table; its configuration is that of before or after.
        options: the writer's; hoodie.metadata.enable=false drops everything, a partition's option that partition.
    """
    if not _unwanted(meta.config, options):
        return
    with meta.lock:
        meta.reload()
        doomed = _unwanted(meta.config, options)
        indexing = meta.store.load().pending_of(Action.INDEXING)
        if indexing and not metadata_switched_off(options):  # another process is building an inflight partition
            planned = {partition for instant in indexing for partition in partitions_of(meta, instant)}
            doomed -= planned - set(metadata_dropped(options, doomed))
        if doomed:
            drop_partitions(meta, doomed, rebuild=set(meta.config.metadata_partitions_to_rebuild) - doomed)


def build_metadata(snapshot: TableSnapshot) -> None:
    """Before a write, create the metadata table that the options ask for, if there is none.

    Below version 8 it is not created while writes or compactions are pending, see `hides_logs`. A later writer creates
    it.

    Args:
        snapshot: the table at the start of the write, with the writer's options; hoodie.metadata.enable=true, given
            explicitly, asks for a metadata table.

    Raises:
        CorruptError: the existing one lacks commits of the table.
    """
    meta = snapshot.meta
    if FILES in meta.config.metadata_partitions:  # writes must not extend a damaged metadata table
        meta.opened.table = snapshot.timeline, snapshot.metadata_table()
        return
    if not metadata_wanted(snapshot.options):
        return
    with meta.lock:
        meta.reload()
        if FILES in meta.config.metadata_partitions:
            return
        now = snapshot.refreshed()
        hiding = [instant for instant in now.timeline.pending if hides_logs(meta, instant)]
        if hiding:
            _log.warning("no metadata table was made: %s is pending on the table", hiding[0].requested)
            return
        make_files(now)


def hides_logs(meta: MetaClient, pending: Instant) -> bool:
    """Return whether a metadata table can't be built from the files while an instant is pending.

    Below version 8 log files have the instant of their slice in their names: those of pending writes look like others,
    and those of completed writes like files of a pending compaction. Hudi waits for any pending instant.
    """
    return meta.store.rules.logs_name_their_slice and pending.action not in _WITHOUT_LOGS


def make_files(snapshot: TableSnapshot) -> None:
    """Create a metadata table that lists the existing files; under the table's lock.

    Args:
        snapshot: the table; the contents of the metadata table's folder are deleted.
    """
    meta = snapshot.meta
    delete_folder(meta.storage, METADATA_DIR)
    set_partitions(meta, ready=(), building=(FILES,))
    mdt = create_metadata(meta)
    make_list(mdt, next_instant(snapshot), _present(snapshot))
    set_partitions(meta, ready=(FILES,), building=())
    drop_after_interference(snapshot, (FILES,))


def make_list(mdt: MetaClient, requested: str, files: Changes) -> None:
    """Create the partition `files`, under the table's lock.

    Args:
        mdt: the metadata table.
        requested: the instant.
        files: its records.
    """
    ids = group_ids(FILES, 1)
    make_partition(mdt, requested, FILES, ids, lambda: {FILES: write_bases(mdt, requested, FILES, ids, files)})


def drop_after_interference(seen: TableSnapshot, made: Collection[str]) -> None:
    """Drop new partitions if another process wrote without the lock while they were built.

    Args:
        seen: the table that they were built from.
        made: the partitions.

    Raises:
        ConflictError: another process wrote, so the partitions may lack its changes.
    """
    meta = seen.meta
    try:
        meta.store.refuse_strangers(None, seen.timeline)
    except ConflictError:
        drop_partitions(meta, set(made) & set(meta.config.metadata_partitions))
        raise


def drop_partitions(meta: MetaClient, partitions: Collection[str], *, rebuild: Collection[str] | None = None) -> None:
    """Remove partitions from the properties, then delete their files; for `files`, the whole metadata table.

    Under the table's lock.

    Args:
        meta: the table.
        partitions: the partitions.
        rebuild: what the properties list until it's rebuilt, by this process or another; None keeps the list.
    """
    everything = FILES in partitions
    config = meta.config
    ready = () if everything else set(config.metadata_partitions) - set(partitions)
    building = () if everything else set(config.metadata_partitions_inflight) - set(partitions)
    set_partitions(meta, ready=ready, building=building, rebuild=rebuild)
    if everything:
        delete_folder(meta.storage, METADATA_DIR)
        return
    _discard_plans(meta, partitions)
    for partition in sorted(partitions):
        delete_folder(meta.storage, f"{METADATA_DIR}/{partition}")


def _discard_plans(meta: MetaClient, partitions: Collection[str]) -> None:
    """Discard requested compactions of the metadata table whose files are about to be deleted.

    Below version 8 they stay: later log files have their instant in the name, and would belong to no slice without it.
    """
    try:
        mdt = open_metadata(meta)
        timeline = mdt.store.load()
        planned = [
            *timeline.of(Action.COMPACTION, State.REQUESTED),
            *timeline.of(Action.LOGCOMPACTION, State.REQUESTED),
        ]
        doomed = [each for each in planned if _names(mdt, each, partitions)]
    except PudiError as error:  # it may be damaged, which may be why they are dropped
        _log.warning("compactions that the metadata table has planned can't be looked at: %s", error)
        return
    if mdt.store.rules.logs_name_their_slice:
        return
    for instant in doomed:
        mdt.store.discard(instant)


def _names(mdt: MetaClient, instant: Instant, partitions: Collection[str]) -> bool:
    """Return whether a compaction includes files of some partitions."""
    return any(each.partition_path in partitions for each in compaction_plan(mdt.store, instant).operations)


def group_ids(partition: str, groups: int) -> list[str]:
    """Return the ids of a partition's file groups, if keys alone decide between them."""
    return [group_id(partition, number) for number in range(groups)]


def write_bases(
    mdt: MetaClient, requested: str, partition: str, ids: Sequence[str], changes: Changes
) -> tuple[WriteStat, ...]:
    """Write the base files of a partition's file groups that get records.

    Args:
        mdt: the metadata table.
        requested: the instant.
        partition: the partition.
        ids: its file groups.
        changes: its records.
    """
    shards = shard_of(changes.keys, len(ids))
    return tuple(
        write_base(
            mdt.storage,
            partition,
            base_name(ids[n], requested, write_token(n, 0, 0)),
            _of_shard(changes, shards == n),
        )
        for n in map(int, np.unique(shards))
    )


def _of_shard(changes: Changes, mask: np.ndarray) -> Changes:
    return changes.part(pa.array(mask), pa.array([], pa.bool_()))


def _present(snapshot: TableSnapshot) -> Changes:
    """Return the table's data files, without those of pending instants, whose completion adds them."""
    pending = {instant.requested for instant in snapshot.timeline.pending if instant.action is not Action.INDEXING}
    files: dict[str, Mapping[str, int]] = {}
    listed = StorageListing(snapshot.meta.storage).all_files()
    sizes = _sizes_of_logs(snapshot, listed)
    for partition, infos in listed.items():
        named = {basename(info.path): sizes.get(info.path, info.size) for info in infos}
        files[partition] = {name: size for name, size in named.items() if _counts(name, pending)}
    return files_changes(files, partitions=files)


def _sizes_of_logs(snapshot: TableSnapshot, listed: Mapping[str, Sequence[FileInfo]]) -> Mapping[str, int]:
    """Return the sizes of log files that commits state, by path, for the metadata table.

    So readers detect a log file that was truncated before the metadata table existed. In layout 1 a file may be longer
    than any commit states.
    """
    meta = snapshot.meta
    if not meta.merges_on_read:
        return {}
    found = {info.path: LogFile.of(partition, info) for partition, infos in listed.items() for info in infos}
    logs = {path: log for path, log in found.items() if log is not None}
    stated = stated_sizes(meta.store, snapshot.timeline, logs.values())
    return {
        path: max(size, logs[path].size) if meta.store.rules.logs_name_their_slice else size
        for path, size in stated.items()
        if path in logs and size > 0
    }


def _counts(name: str, pending: Collection[str]) -> bool:
    parsed = parse_data_file(name)
    return parsed is not None and parsed.instant not in pending


def next_instant(snapshot: TableSnapshot) -> str:
    """Return the metadata table's instant for creating another partition (generateUniqueInstantTime).

    An instant before the active timeline must not be used once instants were archived: readers consider anything older
    than the first active instant archived. The current time is used in that case.

    Args:
        snapshot: the table.
    """
    meta, timeline = snapshot.meta, snapshot.timeline
    layout, first = meta.store.layout, 0
    known = _known(meta)
    taken = {instant.requested for instant in known.instants}
    start = f"{INIT_INSTANT}"
    if rules_of(layout).services_have_suffixes:
        done = [instant.requested for instant in timeline.instants if instant.is_completed]
        start, first = max(done, default=INIT_INSTANT), _FIRST_SUFFIX
    elif known.commits and f"{INIT_INSTANT}000" not in taken:
        newest = max(filter(None, (known.newest_time, timeline.newest_time)))
        return new_instant(meta.context.clock.now_ms(), newest, meta.config.timezone)
    return next(name for name in (f"{start}{number:03}" for number in count(first)) if name not in taken)


def _known(meta: MetaClient) -> Timeline:
    """Return the timeline of the metadata table; an empty one if there is none."""
    try:
        return open_metadata(meta).store.load()
    except TableNotFoundError:
        return Timeline()


def _unwanted(config: TableConfig, options: Options) -> set[str]:
    """Return the partitions that the options exclude, and those that are being built but by no known process."""
    noted = config.metadata_partitions_to_rebuild
    known = {*config.metadata_partitions, *config.metadata_partitions_inflight, *noted}
    if metadata_switched_off(options):
        return known
    return {*metadata_dropped(options, known), *config.metadata_partitions_inflight}


def set_partitions(
    meta: MetaClient,
    *,
    ready: Iterable[str],
    building: Iterable[str],
    rebuild: Collection[str] | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Set which partitions there are in the properties, under the table's lock.

    What is known of repeated keys ends with the record index, and isn't known of a new one.

    Args:
        meta: the table.
        ready: partitions that readers may use.
        building: partitions that are being built.
        rebuild: partitions that were deleted and are to be rebuilt; None keeps the list, without those that are ready.
        more: other properties to set.
    """
    present, unfinished = set(ready), set(building)

    def change(old: dict[str, str]) -> dict[str, str]:
        noted = names_in(old.get(_REBUILD, "")) if rebuild is None else rebuild
        new = {**old, **more, _READY: ",".join(sorted(present)), _BUILDING: ",".join(sorted(unfinished))}
        new.pop(_REBUILD, None)
        before = {*names_in(old.get(_READY, "")), *names_in(old.get(_BUILDING, ""))}
        if RECORD_INDEX not in before & (present | unfinished):
            new.pop(_REPEATED, None)
        return new | ({_REBUILD: ",".join(sorted(set(noted) - present))} if set(noted) - present else {})

    meta.change_properties(change)
