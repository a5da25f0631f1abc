"""Files that cleans and rollbacks removed: which instants are still readable, and errors of readers that lack a file.

A reader may be overtaken between loading its timeline and listing its files. The listing then lacks files of what the
reader should see. Older slices that a later base file supersedes give themselves away; a file group that a clustering
replaced and a clean deleted is just not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from posixpath import basename
from typing import TypeVar

from pudi.context import Storage
from pudi.errors import NO_FILE, CorruptError, NotFoundError, PudiError
from pudi.filegroup.committed_files import ListedSlices, replaced_since
from pudi.format import Action, BaseFileName, FileGroupId, State, file_path, parse_data_file
from pudi.format.plans import decode_clean_plan
from pudi.timeline import Instant, Timeline, TimelinePlace, TimelineStore


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Files that one clean removed, or is about to remove.

    Attributes:
        requested: its requested time.
        retained: requested time of the earliest commit whose state stays readable; empty if the policy counts slices.
        deleted: names of the files, by partition path.
    """

    requested: str
    retained: str
    deleted: Mapping[str, Sequence[str]]


def cleans_after(
    store: TimelineStore,
    timeline: Timeline,
    time: str = "",
    states: tuple[State, ...] = (State.COMPLETED, State.INFLIGHT),
    *,
    archived: bool = False,
) -> list[Cleaned]:
    """Return the cleans that may have removed the state of a table at some time, oldest first.

    No clean retains a commit that is newer than itself. One whose process died has deleted a part of its files.

    Args:
        store: the timeline in storage.
        timeline: its instants.
        time: the time; earlier cleans aren't read.
        states: the states of cleans that count.
        archived: whether archived cleans count too, if the timeline has them.

    Raises:
        CorruptError: a clean can't be read.
    """
    wanted = [
        each
        for each in timeline.instants
        if each.action is Action.CLEAN and each.state in states and each.requested > time and archived >= each.archived
    ]
    return read_cleans(store, wanted)


def read_cleans(store: TimelineStore, cleans: Sequence[Instant]) -> list[Cleaned]:
    """Return what completed cleans removed, and inflight ones are about to; raises as `cleans_after`."""
    return store.context.executor.map(lambda each: _cleaned(store, each), cleans)


def _cleaned(store: TimelineStore, clean: Instant) -> Cleaned:
    if not clean.is_completed:
        plan = store.read_plan(clean, decode_clean_plan)
        names = {partition: [basename(each) for each in paths] for partition, paths in plan.files.items()}
        return Cleaned(clean.requested, "" if plan.retained is None else plan.retained[0], names)
    record = store.decoded(clean)
    try:
        files = {
            partition: tuple(deleted.get("deletePathPatterns") or ())
            for partition, deleted in (record.get("partitionMetadata") or {}).items()
        }
        return Cleaned(clean.requested, str(record.get("earliestCommitToRetain") or ""), files)
    except (AttributeError, TypeError) as error:
        raise CorruptError(
            f"the clean can't be read ({error!r})", table=store.storage.root, instant=clean.requested
        ) from error


def retained_text(timeline: Timeline, cleans: Iterable[Cleaned]) -> str:
    """Say which states of a table are still readable; empty if nothing was cleaned.

    Args:
        timeline: the table's timeline.
        cleans: its cleans, oldest first.
    """
    said = []
    known = list(cleans)
    retained = max((each.retained for each in known), default="")
    if retained:
        said.append(f"the earliest commit that cleans kept is {retained}")
    if known and not known[-1].retained:
        said.append(
            f"the last clean, {known[-1].requested}, kept some slices of each file group, and none of replaced groups"
        )
    saved = timeline.savepoints
    if saved:
        said.append(f"savepoints keep {', '.join(saved)}")
    return "; ".join(said)


_T = TypeVar("_T")


@contextmanager
def naming_retained(store: TimelineStore) -> Iterator[None]:
    """Add to the error of a file that is gone which table it is and which of its states are still readable.

    Args:
        store: the table's timeline.
    """
    try:
        yield
    except NotFoundError as error:
        text = _retained_text(store) if type(error) is NotFoundError else ""
        if not text and error.message == NO_FILE:
            text = "no clean deleted it: restore it from a copy; pudi check (Table.check) says what else is lost"
        if text and text not in error.message:
            error.message = f"{error.message}; {text}"
        error.table = error.table or store.storage.root
        raise


def naming_retained_in(storage: Storage, timeline: TimelinePlace | None, rows: Iterable[_T]) -> Iterator[_T]:
    """Yield what a task reads; its errors are those of `naming_retained`.

    Args:
        storage: the table's files.
        timeline: where its timeline is; None adds nothing.
        rows: what is read.
    """
    if timeline is None:
        yield from rows
        return
    with naming_retained(timeline.open(storage)):
        yield from rows


def _retained_text(store: TimelineStore) -> str:
    try:
        timeline = store.load()
        return retained_text(timeline, cleans_after(store, timeline))
    except PudiError:  # the first error says more
        return ""


_BEGUN = (State.COMPLETED, State.INFLIGHT)


def has_overtaken(timeline: Timeline, now: Timeline) -> bool:
    """Whether files that a reader of a timeline needs may have been deleted since it was loaded."""
    return bool(_begun(now) - _begun(timeline)) or any(timeline.rolled_back_in(now)) or _is_archived(timeline, now)


def check_overtaken(
    store: TimelineStore,
    timeline: Timeline,
    now: Timeline,
    listed: ListedSlices,
    sees: Callable[[str], bool],
) -> None:
    """Refuse slices that lack a file which a clean or a rollback has deleted since their timeline was loaded.

    Args:
        store: the timeline in storage.
        timeline: the timeline that the slices were chosen by.
        now: the timeline as it was after the files had been listed.
        listed: the latest slices that the reader sees.
        sees: whether it sees files of an instant.

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
    found = listed.by_group
    for clean, partition, name in _deleted(store, timeline, now):
        parsed = parse_data_file(name)
        group = None if parsed is None else FileGroupId(partition, parsed.file_id)
        if parsed is None or group is None or not listed.covers(group) or not sees(parsed.instant):
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
            path=file_path(partition, name),
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
                yield clean, partition, basename(name)
