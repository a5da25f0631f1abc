"""Find the files that cleans and rollbacks took from a reader between loading its timeline and listing its files.

The listing then lacks files of what the reader should see. Older slices that a later base file supersedes give
themselves away; a file group that a clustering replaced and a clean deleted is just not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from pudi.errors import NotFoundError
from pudi.filegroup.cleaned import Cleaned, read_cleans
from pudi.filegroup.slices import FileSlice
from pudi.filegroup.stated_files import Group, replaced_since
from pudi.format import Action, BaseFileName, State, parse_data_file
from pudi.timeline import Timeline, TimelineStore

_BEGUN = (State.COMPLETED, State.INFLIGHT)


def has_overtaken(timeline: Timeline, now: Timeline) -> bool:
    """Whether files that a reader of a timeline needs may have been deleted since it was loaded."""
    return bool(_begun(now) - _begun(timeline)) or any(timeline.rolled_back_in(now)) or _is_archived(timeline, now)


def check_overtaken(
    store: TimelineStore,
    timeline: Timeline,
    now: Timeline,
    slices: Sequence[FileSlice],
    sees: Callable[[str], bool],
    replaced: Collection[Group],
    partitions: Collection[str] | None = None,
    groups: Collection[Group] | None = None,
) -> None:
    """Refuse slices that lack a file which a clean or a rollback has deleted since their timeline was loaded.

    Args:
        store: the timeline in storage.
        timeline: the timeline that the slices were chosen by.
        now: the timeline as it was after the files had been listed.
        slices: the latest slices that the reader sees.
        sees: whether it sees files of an instant.
        replaced: file groups that were out of the table already.
        partitions: those that `slices` are of; None for all.
        groups: file groups that they are of; None for all of the partitions.

    Raises:
        NotFoundError: one is gone.
    """
    if not has_overtaken(timeline, now):
        return
    for each in timeline.rolled_back_in(now):
        if sees(each.requested) and each.file_name() not in store.assumed:
            raise NotFoundError(
                f"commit {each.requested} was rolled back while this was under way; read the table as it is now",
                table=store.storage.root,
                instant=each.requested,
            )
    found = {(each.partition, each.file_id): each for each in slices}
    for clean, partition, name in _deleted(store, timeline, now):
        parsed = parse_data_file(name)
        if parsed is None or (partitions is not None and partition not in partitions):
            continue
        group = (partition, parsed.file_id)
        if group in replaced or not sees(parsed.instant) or (groups is not None and group not in groups):
            continue
        left = found.get(group)
        base = None if left is None else left.base
        if left is not None and (not isinstance(parsed, BaseFileName) or (base and base.instant >= parsed.instant)):
            continue
        if store.has_history() and group in replaced_since(store, parsed.instant):
            continue
        raise NotFoundError(
            f"the file is gone: clean {clean.requested} deleted it while this was under way; read the table as it is "
            "now",
            table=store.storage.root,
            path=f"{partition}/{name}" if partition else name,
            instant=parsed.instant,
        )


def _begun(timeline: Timeline) -> set[str]:
    """Requested times of the cleans that may have deleted something."""
    return {each.requested for each in timeline.of(Action.CLEAN, *_BEGUN)}


def _is_archived(timeline: Timeline, now: Timeline) -> bool:
    """Whether so much was archived since that cleans may be in the archive."""
    newest = max((each.requested for each in timeline.instants), default=None)
    return newest is not None and now.start is not None and newest < now.start


def _deleted(store: TimelineStore, timeline: Timeline, now: Timeline) -> Iterator[tuple[Cleaned, str, str]]:
    """Yield the clean, the partition and the name of each file that cleans deleted since."""
    if _is_archived(timeline, now):
        now = now.with_archived(store.archived(max(each.requested for each in timeline.instants)))
    new = _begun(now) - _begun(timeline)
    for clean in read_cleans(store, [each for each in now.of(Action.CLEAN, *_BEGUN) if each.requested in new]):
        for partition, names in clean.deleted.items():
            for name in names:
                yield clean, partition, name.rpartition("/")[2]
