"""Derive from the cleans on a timeline which files are gone, and which instants are still readable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pudi.errors import CorruptError
from pudi.format import Action, State
from pudi.format.clean import decode_clean_plan
from pudi.timeline import Instant, Timeline, TimelineStore


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
        path = store.path(clean, State.REQUESTED)
        plan = decode_clean_plan(store.read(clean, State.REQUESTED), path=path)
        names = {partition: [each.rpartition("/")[2] for each in paths] for partition, paths in plan.files.items()}
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
    saved = [each.requested for each in timeline.of(Action.SAVEPOINT)]
    if saved:
        said.append(f"savepoints keep {', '.join(saved)}")
    return "; ".join(said)
