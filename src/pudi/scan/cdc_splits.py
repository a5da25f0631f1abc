"""Find the change data of a range of commits: from commit metadata and a listing to splits (HoodieCDCExtractor)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from pudi.client import TableSnapshot
from pudi.client.schema_commit import ALTER_SCHEMA, SERVICE_OPERATIONS
from pudi.errors import CorruptError
from pudi.filegroup import FileSlice, LogFile, stated_sizes
from pudi.filegroup.slice_history import PastSlices
from pudi.format import CommitMetadata, FileGroupId, LogFileName, WriteStat, parse_data_file
from pudi.format.cdc import LoggingMode
from pudi.plan.cdc import ChangeCase, ChangeSplit
from pudi.scan.moments import CommitSpan
from pudi.timeline import NO_COMMIT, Instant

NO_CHANGES = SERVICE_OPERATIONS | {ALTER_SCHEMA, "BUCKET_RESCALE"}
"""Operations of commits that change no records. Hudi lists those that do (WriteOperationType.yieldChanges), and forgets
the prepped inserts."""
_DELETES = frozenset({"DELETE", "DELETE_PREPPED"})


@dataclass(frozen=True, slots=True)
class SplitFinder:
    """Finds the splits of a range of commits.

    Attributes:
        snapshot: the table at the end of the range.
        span: the commits of the range, in order of completion.
        mode: what CDC files hold.
    """

    snapshot: TableSnapshot
    span: CommitSpan
    mode: LoggingMode

    def splits(self) -> tuple[ChangeSplit, ...]:
        """Return the splits, by commit in order of completion, replaced file groups first.

        Raises:
            NotFoundError: the cleaner has removed files that say what a commit changed.
            CorruptError: a commit can't be read, or was lost.
        """
        self.span.refuse_losses(self.snapshot)
        changes = [
            (i, written) for i, written in self._read(self.span.commits) if written.operation_type not in NO_CHANGES
        ]
        partitions = sorted({p for _, written in changes for p in written.partitions})
        if not partitions:
            return ()
        past = self._past(partitions)
        found: list[ChangeSplit] = []
        seen: set[str] = set()
        before = iter(self.snapshot.commits)
        for instant, written in changes:
            seen.update(i.requested for i in _until(before, instant))
            completed = frozenset(seen - {instant.requested})
            for split in sorted(_of_commit(instant, written, past, self.mode), key=_place):
                found.append(replace(split, completed=completed))
        return tuple(self._sized(found, past))

    def _read(self, instants: Sequence[Instant]) -> Iterator[tuple[Instant, CommitMetadata]]:
        for instant in instants:
            yield instant, self.snapshot.meta.store.read_commit_metadata(instant)

    def _past(self, partitions: Sequence[str]) -> PastSlices:
        listing = self.snapshot.listing()
        listed = listing.files_of(partitions)
        wanted = set(partitions)
        stats = [
            stat
            for _, written in self._read(self.snapshot.commits)
            for partition, stats in written.partition_to_write_stats.items()
            if partition in wanted
            for stat in stats
        ]
        return PastSlices.of(self.snapshot.timeline, listed, stats, self._archived, states=listing.states_sizes)

    def _archived(self, requested: str) -> str | None:
        timeline, store = self.snapshot.timeline, self.snapshot.meta.store
        if timeline.start is None or requested >= timeline.start or timeline.is_pending(requested):
            return None
        return next((i.completion or requested for i in store.archived() if i.requested == requested), None)

    def _sized(self, splits: Sequence[ChangeSplit], past: PastSlices) -> Iterator[ChangeSplit]:
        """Yield splits whose log files have the sizes that commits state."""
        if past.states:
            yield from splits
            return
        slices = [each.before for each in splits if each.before is not None]
        logs = [*(log for each in slices for log in each.logs), *(log for each in splits for log in each.logs)]
        sizes = stated_sizes(self.snapshot.meta.store, self.snapshot.timeline, logs)
        for each in splits:
            before = None if each.before is None else each.before.with_stated(sizes)
            yield replace(
                each, before=before, logs=tuple(replace(log, stated=sizes.get(log.path)) for log in each.logs)
            )


def _until(ordered: Iterator[Instant], instant: Instant) -> Iterator[Instant]:
    for each in ordered:
        yield each
        if each.requested == instant.requested:
            return


def _place(split: ChangeSplit) -> tuple[bool, str, str, str]:
    """Return the split's place in its commit: what an overwrite deleted comes before what it inserted."""
    return split.case is not ChangeCase.REPLACE_COMMIT, split.partition, split.file_id, split.case.value


def _of_commit(instant: Instant, written: CommitMetadata, past: PastSlices, mode: LoggingMode) -> Iterator[ChangeSplit]:
    """Yield the splits of one commit."""
    for partition, stats in written.partition_to_write_stats.items():
        logs: dict[str, list[LogFile]] = {}
        for stat in stats:
            if not stat.path or stat.file_id is None:
                continue
            if isinstance(parse_data_file(basename(stat.path)), LogFileName):
                logs.setdefault(stat.file_id, []).append(past.log_at(stat.path, stat.file_size_in_bytes, instant))
            else:
                yield _of_base(instant, written, stat, past, mode)
        for file_id, found in logs.items():
            before = past.before(FileGroupId(partition, file_id), instant)
            new = {log.path for log in found} if past.timeline.rules.logs_name_their_commit else set()
            yield ChangeSplit(
                instant.requested, ChangeCase.LOG_FILE, partition, file_id, _without(before, new), logs=tuple(found)
            )
    for partition, file_ids in (written.partition_to_replace_file_ids or {}).items():
        for file_id in file_ids:
            before = past.before(FileGroupId(partition, file_id), instant)
            if before is None:
                raise past.gone(f"file group {file_id} of {partition!r}, which it replaced,", instant)
            yield ChangeSplit(instant.requested, ChangeCase.REPLACE_COMMIT, partition, file_id, before)


def _without(file_slice: FileSlice | None, paths: set[str]) -> FileSlice | None:
    """Return a slice without some log files; None if nothing is left."""
    if file_slice is None:
        return None
    logs = tuple(log for log in file_slice.logs if log.path not in paths)
    return replace(file_slice, logs=logs) if logs or file_slice.base is not None else None


def _of_base(
    instant: Instant, written: CommitMetadata, stat: WriteStat, past: PastSlices, mode: LoggingMode
) -> ChangeSplit:
    """Return the split of a base file (HoodieCDCExtractor.parseWriteStat)."""
    assert stat.path is not None
    assert stat.file_id is not None
    partition = stat.path.rpartition("/")[0]
    group = FileGroupId(partition, stat.file_id)
    split = ChangeSplit(instant.requested, ChangeCase.AS_IS, *group)
    is_first = stat.prev_commit in {None, "", NO_COMMIT}
    if stat.cdc_stats:
        cdc = tuple(past.log_at(_below(path, group, instant), size, instant) for path, size in stat.cdc_stats.items())
        split = replace(split, cdc=cdc)
        if mode is LoggingMode.DATA_BEFORE_AFTER:
            return split
        split = replace(split, after=past.base_of(stat, instant))
        if mode is LoggingMode.DATA_BEFORE or is_first:
            return split
        return replace(split, before=FileSlice(*group, past.base_at(group, stat.prev_commit, instant)))
    if is_first:
        return replace(split, case=ChangeCase.BASE_FILE_INSERT, after=past.base_of(stat, instant))
    before = past.before(group, instant) or FileSlice(*group, past.base_at(group, stat.prev_commit, instant))
    if written.operation_type in _DELETES and stat.num_writes == 0 and stat.num_deletes:
        return replace(split, case=ChangeCase.BASE_FILE_DELETE, before=before)
    return replace(split, case=ChangeCase.COMPARED, before=before, after=past.base_of(stat, instant))


def _below(path: str, group: FileGroupId, instant: Instant) -> str:
    """Return the path of a CDC file; a commit may name only files of the partition and file group."""
    partition, _, name = path.rpartition("/")
    parsed = parse_data_file(name)
    if isinstance(parsed, LogFileName) and parsed.cdc and (partition, parsed.file_id) == group:
        return path
    raise CorruptError(
        f"the commit names {path!r} as a CDC file of file group {group.file_id!r} in partition "
        f"{group.partition!r}, where it can't be",
        instant=instant.requested,
    )
