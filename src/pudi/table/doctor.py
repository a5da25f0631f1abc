"""The state of a table from its listings, timeline and column statistics: facts and advice; reads no records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import finished_writes
from pudi.concurrency import Liveness
from pudi.config import CleanOptions, MetadataOptions, Options, SyncOptions, WriteOptions
from pudi.config.checks import SAYS_ITS_KEYS
from pudi.context.runtime import lazy_module
from pudi.errors import CorruptError, NotFoundError, NotSupportedError
from pudi.filegroup import FileSlice, StorageListing
from pudi.format import Action, instant_to_millis, millis_to_instant
from pudi.format.metadata_partitions import FILES
from pudi.metadata_write.client import open_metadata
from pudi.scan.clustering_gain import LayoutStats, last_clustering
from pudi.services.failures import plans_aside
from pudi.services.orphans import find_orphans
from pudi.table.access import readers
from pudi.table.check import is_data_file
from pudi.table.description import pending_instants
from pudi.table.diagnosis import (
    Advice,
    ClusteringFacts,
    Diagnosis,
    FileFacts,
    FutureInstants,
    Level,
    MetadataFacts,
    Overlap,
    SizeClass,
    counts,
)
from pudi.table.service_health import failing_services, service_backlog, service_targets
from pudi.upgrade.upgrade_intent import read_intent

if TYPE_CHECKING:
    from pudi.sync import compare
else:
    compare = lazy_module("pudi.sync.compare")


_MIB = 1 << 20
_EDGES = (1, 8, 32, 100, 250, 1024)
"""Sizes in MiB at which the classes of the histogram end."""
_BY_WRITERS = "not said: the options of its writers"
_MANY_LOGS, _MANY_FILES = 10, 20
"""Log files of one file group from which on reads suffer; small files of a partition that are worth a word."""
_BLOCKED_AFTER_MS = 60 * 60 * 1000
_MANY_DELTAS = 30
_OVERLAPS = 0.2
"""Share of the files that a filter for one value keeps from which another clustering is worth a word."""


def examine(meta: MetaClient, options: Options) -> Diagnosis:
    """Examine a table.

    Args:
        meta: the table.
        options: the user's: which files are small, and when a writer counts as dead.

    Raises:
        CorruptError: its timeline can't be read.
    """
    folders = StorageListing(meta.storage).all_files()
    snapshot = TableSnapshot.load(meta, options)  # after the folders: commits of files that came meanwhile are in it
    facts = {partition: [i for i in infos if is_data_file(i.path)] for partition, infos in folders.items()}
    slices, problem = _slices(snapshot)
    small = options[WriteOptions.small_file_limit]
    files = _files(slices, small, sum(len(f) for f in facts.values()), sum(i.size for f in facts.values() for i in f))
    pending = tuple(pending_instants(snapshot))
    targets = service_targets(meta, options)
    backlog, unknown = service_backlog(targets)
    found = Diagnosis(
        path=snapshot.table,
        facts=_facts(snapshot),
        access=tuple(readers(meta.config, options, meta.storage.root)),
        files=files,
        pending=pending,
        metadata=_metadata(snapshot),
        future=_future(snapshot, options[WriteOptions.clock_tolerance_ms]),
        orphans=tuple(path for path, _ in find_orphans(meta, folders).describe()),
        finished=tuple(finished_writes(snapshot)),
        backlog=backlog,
        failing=tuple(chain.from_iterable(failing_services(each) for each in targets)),
        clustering=_clustering(snapshot, slices),
        problem=problem,
        upgrade=_upgrade(meta),
        catalogs=compare.registered_states(TableSnapshot(meta, snapshot.timeline, options))
        if SyncOptions(options.given).is_on
        else (),
    )
    return found.advised((*_advice(found), *unknown, *_advice_on_plans(snapshot)))


def _upgrade(meta: MetaClient) -> str:
    intent = read_intent(meta)
    return "" if intent is None else f"from version {intent.old} to {intent.new}"


def _facts(snapshot: TableSnapshot) -> dict[str, str]:
    config, timeline = snapshot.config, snapshot.timeline
    commits, said = timeline.commits, config.version >= SAYS_ITS_KEYS
    facts = {
        "name": config.name,
        "version": str(config.version),
        "timeline layout": str(config.layout_version),
        "type": config.table_type,
        "base files": config.base_file_format,
        "record key": ", ".join(config.record_key_fields) or ("generated" if said else _BY_WRITERS),
        "partitioned by": ", ".join(config.partition_fields) or ("nothing" if said else _BY_WRITERS),
        "ordering": ", ".join(config.ordering_fields) or "commit time",
        "key generator": config.key_generator_type,
        "merge mode": config.merge_mode.value,
        "timezone": config.timezone,
        "metadata table": ", ".join(config.metadata_partitions) or "none",
        "commits": f"{len(commits)} on the active timeline",
        "last commit": commits[-1].requested if commits else "none",
    }
    if config.metadata_partitions_inflight:
        facts["being built"] = ", ".join(config.metadata_partitions_inflight)
    if config.metadata_partitions_to_rebuild:
        facts["to be rebuilt"] = ", ".join(config.metadata_partitions_to_rebuild)
    saved = timeline.of(Action.SAVEPOINT)
    if saved:
        facts["savepoints"] = ", ".join(each.requested for each in saved)
    return facts


def _slices(snapshot: TableSnapshot) -> tuple[list[FileSlice], str]:
    try:
        return snapshot.view(sizes=False).all_slices(), ""
    except (CorruptError, NotFoundError, NotSupportedError) as error:
        return [], str(error)


def _files(slices: Sequence[FileSlice], small: int, count: int, total: int) -> FileFacts:
    sizes = [each.base.size for each in slices if each.base is not None]
    lows, highs = [0, *_EDGES], [*_EDGES, None]
    histogram = []
    for low, high in zip(lows, highs, strict=True):
        within = [size for size in sizes if low * _MIB <= size and (high is None or size < high * _MIB)]
        histogram.append(SizeClass(low * _MIB, None if high is None else high * _MIB, len(within), sum(within)))
    by_partition: dict[str, int] = {}
    for each in slices:
        if each.base is not None and each.base.size < small:
            by_partition[each.partition] = by_partition.get(each.partition, 0) + 1
    most = max(by_partition, key=lambda partition: by_partition[partition], default="")
    newest = counts(slices)
    return FileFacts(
        **newest,
        most_logs=max((len(each.logs) for each in slices), default=0),
        small_limit=small,
        small_files=sum(by_partition.values()),
        most_small=(most, by_partition.get(most, 0)),
        older_files=count - newest["base_files"] - newest["log_files"],
        older_bytes=total - newest["base_bytes"] - newest["log_bytes"],
        histogram=tuple(histogram),
    )


def _clustering(snapshot: TableSnapshot, slices: Sequence[FileSlice]) -> ClusteringFacts | None:
    done = last_clustering(snapshot)
    if done is None:
        return None
    schema = snapshot.schema.columns
    types = {name: schema.field(name).type for name in done.columns if name in schema.names}
    sides = (done.before, done.after, tuple(slices))
    files = [each for side in sides for each in side]
    stats = LayoutStats.of(snapshot, types, files) if types else None
    overlaps = [
        Overlap(name, *(None if stats is None else stats.overlap(side, name) for side in sides))
        for name in done.columns
    ]
    return ClusteringFacts(
        done.instant,
        done.columns,
        done.layout,
        done.groups,
        len(done.before),
        len(done.after),
        tuple(overlaps),
    )


def _future(snapshot: TableSnapshot, tolerance_ms: int) -> FutureInstants | None:
    """Instants that are further in the future than clocks may be apart."""
    now_ms, zone = snapshot.meta.context.clock.now_ms(), snapshot.config.timezone
    bound = millis_to_instant(now_ms + tolerance_ms, zone)
    found = [each for each in snapshot.timeline.instants if max(each.requested, each.completion or "") > bound]
    if not found:
        return None
    first = min(found, key=lambda each: each.requested)
    newest = max(max(each.requested, each.completion or "") for each in found)
    ahead = (instant_to_millis(newest, zone) - now_ms) // 1000
    return FutureInstants(first.requested, first.action.value, newest, len(found), ahead)


def _metadata(snapshot: TableSnapshot) -> MetadataFacts | None:
    if not snapshot.config.metadata_partitions:
        return None
    try:
        snapshot.metadata_table()
        own = TableSnapshot.load(open_metadata(snapshot.meta)).timeline
    except (CorruptError, NotFoundError, NotSupportedError) as error:
        return MetadataFacts(str(error), 0, 0)
    compacted = max((own.order(i) for i in own.of(Action.COMMIT)), default="")
    deltas = [i for i in own.of(Action.DELTACOMMIT) if own.order(i) > compacted]
    return MetadataFacts("", len(deltas), len(own.instants))


def _advice(found: Diagnosis) -> Iterator[Advice]:
    """Return the advice, the most pressing first."""
    if found.problem:
        yield Advice(Level.WARNING, f"its files can't be read: {found.problem}; see pudi check")
    if found.upgrade:
        yield Advice(
            Level.WARNING, f"an upgrade {found.upgrade} is under way, or died: run pudi upgrade or pudi maintain again"
        )
    if found.metadata is not None and found.metadata.problem:
        yield Advice(Level.WARNING, f"the metadata table can't be used: {found.metadata.problem}; run pudi repair")
    for each in found.pending:
        if each.problem:
            yield Advice(Level.WARNING, f"the plan of {each.action} {each.instant} can't be read: {each.problem}")
        if each.writer == Liveness.DEAD.value:
            yield Advice(
                Level.WARNING,
                f"the writer of {each.action} {each.instant} is dead, and it blocks {each.blocks}; run pudi repair, or "
                "let the next writer undo it",
            )
        elif each.age_seconds * 1000 > _BLOCKED_AFTER_MS:
            yield Advice(
                Level.WARNING,
                f"{each.action} {each.instant} has been pending for {each.age_seconds // 3600} hours and blocks "
                f"{each.blocks}; check whether its writer still runs",
            )
    if found.future is not None:
        future = found.future
        yield Advice(
            Level.WARNING,
            f"{future.count} instants lie up to {future.ahead_seconds / 86_400:,.1f} days in the future, the first is "
            f"{future.action} {future.first}: its writer's clock was ahead, and later instants continue from it. Until "
            f"{future.newest} is past, reads as of a time or since a time miss commits: give them "
            "instants instead of times, and correct that writer's clock",
        )
    yield from _advice_on_services(found)
    for state in found.catalogs:
        said = state.problem or "; ".join(state.differences)
        if said:
            name = f"{state.name} in {state.catalog}" if state.name else state.catalog
            advice = "" if state.problem else "; run pudi sync, or let the next write do it"
            yield Advice(Level.WARNING, f"catalog: {name}: {said}{advice}")
    if found.orphans:
        yield Advice(
            Level.WARNING, f"{len(found.orphans)} files or folders were left behind by dead writers; run pudi repair"
        )
    if found.finished:
        yield Advice(
            Level.HINT,
            f"the writers of {', '.join(found.finished)} died without a pending instant, and left a heartbeat; the "
            "next write or pudi maintain deletes it",
        )
    yield from _advice_on_files(found)
    if found.metadata is not None and found.metadata.deltas > _MANY_DELTAS:
        yield Advice(
            Level.WARNING,
            f"{found.metadata.deltas} deltacommits of the metadata table wait for its compaction; the next "
            "write runs it, unless an instant is pending",
        )
    if found.metadata is None and found.files.partitions > 1:
        yield Advice(
            Level.HINT, f"there's no metadata table: write with {MetadataOptions.enabled}=true to list files fast"
        )
    elif found.metadata is not None and FILES not in found.facts["metadata table"]:
        yield Advice(Level.WARNING, "the metadata table doesn't list files; run pudi repair")
    for access in found.access:
        if access.who.startswith("pudi ") and not access.writes:
            yield Advice(Level.WARNING, f"pudi can't write this table: {access.why}")


def _advice_on_plans(snapshot: TableSnapshot) -> Iterator[Advice]:
    """Return what to do about plans that were set aside after failures."""
    for plan in plans_aside(snapshot.meta.storage, snapshot.timeline):
        yield Advice(Level.WARNING, str(plan))


def _advice_on_services(found: Diagnosis) -> Iterator[Advice]:
    """Return what to do about services that fail, and about those that an instant blocks."""
    for each in found.failing:
        times = "once" if each.times == 1 else f"{each.times} times in a row"
        yield Advice(
            Level.WARNING,
            f"the {each.service} of the {each.on} failed {times} since {each.since}, and is passed over until "
            f"{each.next_attempt}; to try it before, run it by its own command. The error: {each.error}",
        )
    for waits in found.backlog:
        if waits.blocked_by:
            yield Advice(
                Level.HINT,
                f"{waits.commits} commits wait for the {waits.service} of the {waits.on}, blocked by "
                f"{waits.blocked_by}: {waits.reason}",
            )


def _advice_on_files(found: Diagnosis) -> Iterator[Advice]:
    files = found.files
    if files.most_logs > _MANY_LOGS:
        yield Advice(
            Level.WARNING, f"a file group has {files.most_logs} log files, which every read merges; run pudi compact"
        )
    yield from _advice_on_order(found)
    partition, number = files.most_small
    if number >= _MANY_FILES:
        where = f"partition {partition!r}" if partition else "the table"
        yield Advice(
            Level.WARNING,
            f"{number} base files of {where} are smaller than {files.small_limit // _MIB} MiB "
            f"({files.small_files} in all): write with upsert or insert, which fill small files, or run pudi cluster",
        )
    if files.older_bytes > files.base_bytes + files.log_bytes:
        yield Advice(
            Level.HINT,
            f"{files.older_files} files of older slices, for time travel, take more bytes than the newest ones: to "
            f"keep less, retain fewer commits ({CleanOptions.commits_retained}) and run pudi clean",
        )


def _advice_on_order(found: Diagnosis) -> Iterator[Advice]:
    """Advise a clustering where filters keep far more files than right after the last one, by the same statistics."""
    for each in () if found.clustering is None else found.clustering.overlaps:
        if each.after is not None and each.now is not None and each.now > max(_OVERLAPS, 2 * each.after):
            yield Advice(
                Level.HINT,
                f"a filter for one value of {each.column} keeps {each.now:.0%} of the files on average; after the last "
                f"clustering it was {each.after:.0%} of those that it made: run pudi cluster again",
            )
