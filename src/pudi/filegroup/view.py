"""The file slices that a reader sees at an instant (AbstractTableFileSystemView)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pudi.context import FileInfo, collector_paused
from pudi.context.runtime import cached_property
from pudi.errors import NotFoundError
from pudi.filegroup.clean_history import check_overtaken
from pudi.filegroup.committed_files import ListedSlices, NamedFiles, check_stated
from pudi.filegroup.committed_logs import stated_sizes
from pudi.filegroup.listing import FileListing
from pudi.filegroup.pending_plans import compacting_since
from pudi.filegroup.slice_history import FileGroup, file_groups
from pudi.filegroup.slices import BaseFile, FileSlice, LogFile
from pudi.format import Action, FileGroupId, group_file_prefixes
from pudi.record import KeyGenerator
from pudi.timeline import NO_COMMIT, Timeline, TimelineStore


@dataclass(frozen=True, slots=True)
class Replacements:
    """File groups that completed replacecommits took out of the table.

    Attributes:
        instants: requested time of the replacecommit, by partition path and file id.
    """

    instants: Mapping[FileGroupId, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: TimelineStore, timeline: Timeline) -> Replacements:
        """Read them from the timeline's completed replacecommits (clustering included)."""
        replaced: dict[FileGroupId, str] = {}
        for instant in timeline.of(Action.REPLACECOMMIT):
            for group in store.read_commit_metadata(instant).replaced_groups:
                replaced.setdefault(group, instant.requested)
        return cls(replaced)

    def hides(self, group: FileGroupId) -> bool:
        """Whether the file group is out of the table."""
        return group in self.instants


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The part of a table that a reader sees, and the care that it takes of files.

    Attributes:
        seen: the part of the timeline that the reader sees; None for all of it.
        archived_until: greatest requested time of archived commits that the reader sees; None for all of them.
        logs: whether slices may have log files: in merge-on-read tables.
        sizes: whether to read the stated sizes of log files from commits if the listing has none; readers of logs need
            them.
        whole: whether to make sure that the files are there which commits state, where the listing doesn't say.
        defers: whether the caller makes sure by `FileSystemView.check_overtaken` that nothing was deleted before the
            files were listed; it has a later timeline at hand, and the view needn't list one.
        keys: makes record keys, in a table without meta fields.
    """

    seen: Timeline | None = None
    archived_until: str | None = None
    logs: bool = False
    sizes: bool = True
    whole: bool = False
    defers: bool = False
    keys: KeyGenerator | None = None


class FileSystemView:
    """Latest file slices as a reader sees them.

    A base file counts when the instant in its name is a completed commit that the reader sees, or is older than the
    active timeline while a history of archived instants exists. A file of a pending, failed or unknown instant never
    counts.

    Args:
        timeline: the whole active timeline.
        listing: the files.
        store: for commit metadata and the history.
        options: what the reader sees.
    """

    def __init__(
        self, timeline: Timeline, listing: FileListing, store: TimelineStore, options: ViewOptions | None = None
    ) -> None:
        self._timeline = timeline
        self._listing = listing
        self._store = store
        self._options = options or ViewOptions()
        self._seen = self._options.seen or timeline
        self._verdicts: dict[str, bool] = {}
        self._named = NamedFiles(store, timeline)
        self._unchecked: list[ListedSlices] = []

    def slices(self, partition: str) -> list[FileSlice]:
        """Latest slice of each file group in a partition, by file id.

        Raises:
            NotFoundError: a file is gone that the reader should see, cleaned since the timeline was read.
            CorruptError: a base file isn't the one that its commit wrote.
        """
        return self._checked(self._latest(partition, self._listing.files(partition)), {partition})

    def all_slices(self) -> list[FileSlice]:
        """Latest slice of each file group in the table, by partition path and file id; raises as `slices`."""
        with collector_paused():
            listed = self._listing.all_files()
            return self._checked([s for partition, files in listed.items() for s in self._latest(partition, files)])

    def slices_of(self, partitions: Iterable[str]) -> list[FileSlice]:
        """Latest slice of each file group in some partitions, one listing each; raises as `slices`."""
        with collector_paused():
            listed = self._listing.files_of(partitions)
            found = [s for partition, files in listed.items() for s in self._latest(partition, files)]
            return self._checked(found, listed.keys())

    def slices_of_groups(self, groups: Iterable[FileGroupId]) -> list[FileSlice]:
        """Latest slices of some file groups, by partition path and file id; one listing for each partition.

        Omits file groups that the reader can't see; raises as `slices`.
        """
        wanted: dict[str, set[str]] = {}
        for partition, file_id in groups:
            wanted.setdefault(partition, set()).add(file_id)
        with collector_paused():
            listed = self._listing.files_of(sorted(wanted))
            found = [
                file_slice
                for partition, files in listed.items()
                for file_slice in self._latest(partition, _of_groups(partition, files, wanted[partition]))
                if file_slice.file_id in wanted[partition]
            ]
            return self._checked(
                found, wanted.keys(), {FileGroupId(p, file_id) for p, ids in wanted.items() for file_id in ids}
            )

    def groups_of(self, partitions: Iterable[str]) -> list[FileGroup]:
        """All file groups of some partitions with all their slices, replaced ones too; one listing each."""
        by_name = self._timeline.rules.logs_name_their_slice
        return [
            group
            for partition, files in self._listing.files_of(partitions).items()
            for group in file_groups(partition, files, self._is_seen, self._done, logs_name_their_slice=by_name)
        ]

    def check_overtaken(self, now: Timeline) -> None:
        """Refuse the slices that were given out if they lack a file that was deleted since the timeline was loaded.

        Args:
            now: the timeline as it was listed after them.

        Raises:
            NotFoundError: one is gone.
        """
        unchecked, self._unchecked = self._unchecked, []
        for listed in unchecked:
            check_overtaken(self._store, self._timeline, now, listed, self._is_seen)

    @property
    def replaced(self) -> Mapping[FileGroupId, str]:
        """Requested time of the replacecommit of each replaced file group, by partition path and file id."""
        return self._replacements.instants

    def is_replaced(self, group: FileGroupId) -> bool:
        """Whether a file group was taken out of the table by a replacecommit."""
        return self._replacements.hides(group)

    def _checked(
        self,
        slices: list[FileSlice],
        partitions: Collection[str] | None = None,
        groups: Collection[FileGroupId] | None = None,
    ) -> list[FileSlice]:
        """Return the complete slices of partitions and file groups; log files have their stated sizes."""
        slices = self._sized(slices)
        if self._options.whole:
            listed = ListedSlices(slices, self._replacements.instants, partitions, groups)
            if self._seen.commits and self._listing.shows_later(self._timeline):
                self._unchecked.append(listed)
                if not self._options.defers:
                    self.check_overtaken(self._store.load())  # after the listing
            if not self._listing.states_sizes:
                check_stated(self._store, self._seen, listed)
        return slices

    def _sized(self, slices: list[FileSlice]) -> list[FileSlice]:
        """Return slices whose log files have the sizes that commits state."""
        if not self._options.sizes or self._listing.states_sizes:
            return slices
        sizes = stated_sizes(self._store, self._timeline, [log for each in slices for log in each.logs])
        return [each.with_stated(sizes) for each in slices] if sizes else slices

    @cached_property
    def _replacements(self) -> Replacements:
        return Replacements.of(self._store, self._seen)

    @cached_property
    def _compacting(self) -> Mapping[FileGroupId, str]:
        """Below version 8, where it decides about names of log files, the pending compaction of each file group.

        Writers refuse plans that can't be read; readers need none.
        """
        if not self._timeline.rules.logs_name_their_slice:
            return {}
        return compacting_since(self._store, self._timeline, passes_over=True)

    @cached_property
    def _newest_seen(self) -> str:
        """The newest requested time that the reader sees, of a pending instant too; empty if it sees none."""
        return max((each.requested for each in self._seen.instants), default="")

    @cached_property
    def _start(self) -> str | None:
        return self._timeline.start

    @cached_property
    def _oldest(self) -> str:
        return self._timeline.oldest or ""

    @cached_property
    def _archived(self) -> bool:
        return self._store.has_history()

    @cached_property
    def _now(self) -> Timeline:
        """The timeline as it is when a doubt comes up, after the listing."""
        return self._store.load()

    @cached_property
    def _completions(self) -> Mapping[str, str | None]:
        """Completion times of archived instants, for log files older than the active timeline that are still there."""
        return {i.requested: i.completion for i in self._store.archived()}

    def _latest(self, partition: str, files: Sequence[FileInfo]) -> list[FileSlice]:
        newest: dict[str, BaseFile] = {}
        hidden: dict[str, dict[str, BaseFile]] = {}
        logs: dict[str, list[LogFile]] = {}
        states, has_logs, keys = self._listing.states_sizes, self._options.logs, self._options.keys
        for info in files:
            log = LogFile.of(partition, info, states=states) if has_logs else None
            if log is not None:
                logs.setdefault(log.file_id, []).append(log)
                continue
            base = BaseFile.of(partition, info, keys)
            if base is None:
                continue
            if not self._is_seen(base.instant):
                hidden.setdefault(base.file_id, {})[base.instant] = base
                continue
            known = newest.get(base.file_id)
            if known is None or known.instant < base.instant or self._is_twin_named(base, known):
                newest[base.file_id] = base
        over = {
            file_id: self._over(newest.get(file_id), found)
            for file_id, found in logs.items()
            if file_id in newest or not self._are_over_hidden(found, hidden.get(file_id, {}))
        }
        known_ids = newest.keys() | {file_id for file_id, found in over.items() if found}
        for file_id in hidden.keys() - known_ids:
            self._check_new(hidden[file_id][min(hidden[file_id])])
        replaced = self._replacements
        pending = self._compacting
        groups = [FileGroupId(partition, file_id) for file_id in sorted(known_ids)]
        return [
            FileSlice(*group, newest.get(group.file_id), over.get(group.file_id, ()), pending.get(group))
            for group in groups
            if not replaced.hides(group)
        ]

    def _is_twin_named(self, base: BaseFile, other: BaseFile) -> bool:
        """Whether two base files of a group have one instant, and the first one is the one that its commit names.

        So it is with two runs of one plan: a process that stood still may write its file after the other run completed.
        """
        if base.instant != other.instant:
            return False
        named = self._named.of(base.instant) or ()
        return (base.name.name in named, base.name.name) > (other.name.name in named, other.name.name)

    def _are_over_hidden(self, logs: Sequence[LogFile], hidden: Mapping[str, BaseFile]) -> bool:
        """Whether the names of log files tell that all belong to slices whose base files the reader doesn't see."""
        return self._timeline.rules.logs_name_their_slice and all(log.instant in hidden for log in logs)

    def _over(self, base: BaseFile | None, logs: Sequence[LogFile]) -> tuple[LogFile, ...]:
        """The log files that a reader merges over a file group's newest base file that it sees, in order.

        From version 8 on these are the files of delta commits that completed after the base was requested
        (HoodieFileGroup.getBaseInstantTime). Before, they are those named by the base's instant or a later one that the
        reader may see; their blocks tell whether they count. Log files written during a pending compaction are
        included: readers merge the slice that the compaction starts with the slice before (fetchMergedFileSlice).
        """
        if self._timeline.rules.logs_name_their_slice:  # later names are those of later slices
            found = [log for log in logs if not self._newest_seen or log.instant <= self._newest_seen]
        else:
            found = [log for log in logs if self._is_seen(log.instant)]
        if base is not None:
            found = [log for log in found if log.instant >= base.instant or self._completed_after(log, base)]
        return tuple(sorted(found, key=lambda log: log.name.sort_key))

    def _completed_after(self, log: LogFile, base: BaseFile) -> bool:
        if self._timeline.rules.logs_name_their_slice:
            return False
        known = self._timeline.commit(log.instant)
        completion = self._completions.get(log.instant) if known is None else known.completion
        return completion is not None and completion >= base.instant

    def _done(self, instant: str) -> str:
        """Return the completion time of an instant that completed; its requested time where no other is known."""
        known = self._timeline.commit(instant)
        completion = self._completions.get(instant) if known is None else known.completion
        return completion or instant

    def _is_seen(self, instant: str) -> bool:
        known = self._verdicts.get(instant)
        if known is None:
            known = self._verdicts[instant] = self._sees(instant)
        return known

    def _sees(self, instant: str) -> bool:
        if self._timeline.commit(instant) is not None:
            return self._seen.commit(instant) is not None
        start = self._start
        if start is None or instant >= start or self._timeline.is_pending(instant):
            return False
        archived = self._archived if instant < self._oldest else instant in self._completions
        return archived and (self._options.archived_until is None or instant <= self._options.archived_until)

    def _check_new(self, oldest: BaseFile) -> None:
        """Verify that a file group without visible slices started after the reader's snapshot."""
        commit = self._now.commit(oldest.instant) or self._timeline.commit(oldest.instant)
        if commit is None:
            return
        stats = self._store.read_commit_metadata(commit).partition_to_write_stats.get(oldest.partition, ())
        previous = next((s.prev_commit for s in stats if s.file_id == oldest.file_id), None)
        if previous in {None, NO_COMMIT} or self.is_replaced(oldest.group):
            return
        if self._is_seen(previous):
            raise NotFoundError(
                f"the file that commit {previous} wrote to file group {oldest.file_id} of partition "
                f"{oldest.partition!r} is gone, removed by a cleaner; read the table as it is now",
                table=self._store.storage.root,
                instant=previous,
            )


_MOST_PREFIXES = 64
"""File groups up to which names are compared with theirs; for more, taking each name apart costs less."""


def _of_groups(partition: str, files: Sequence[FileInfo], file_ids: Collection[str]) -> Sequence[FileInfo]:
    """Return the files of a partition that may belong to some file groups, by the beginning of their names."""
    if len(file_ids) > _MOST_PREFIXES:
        return files
    folder = f"{partition}/" if partition else ""
    begins = tuple(folder + prefix for file_id in file_ids for prefix in group_file_prefixes(file_id))
    return [info for info in files if info.path.startswith(begins)]
