"""The timeline as a value: the instants of one listing, in order, and archived ones where they are asked for.

`ListedTimeline` lists a folder, and parses only the names that were added since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from posixpath import basename

from pudi.context import FileInfo, Storage
from pudi.format import INIT_INSTANT, Action, InstantFile, Layout, State, millis_to_instant, parse_instant_file
from pudi.format.layout import MOVED, TimelineRules, rules_of
from pudi.storage import list_names
from pudi.timeline.instant import Instant

NOTHING = "0" * 17
"""The instant of a table before its first commit."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The instants of the active timeline at one moment.

    Guarantees: one `Instant` for each requested time and comparable action, in its highest state; ordered by
    requested time; completed instants have a completion time.

    Attributes:
        instants: all of them, oldest first.
        layout: layout of the timeline.
        is_moving: whether an upgrade or downgrade of the table is under way that moves the timeline.
        unrequested: requested times of inflight instants whose requested file is gone: their writers went on after they
            had been rolled back.
        folders: names of the folders in the timeline's folder; None where its listing doesn't tell for sure.
        pending: instants that are requested or inflight, but for savepoints. A savepoint has the requested time of the
            completed commit that it keeps: a pending one keeps nothing yet, and doesn't make the commit pending.
    """

    instants: tuple[Instant, ...] = ()
    layout: Layout = 2
    is_moving: bool = False
    unrequested: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    folders: frozenset[str] | None = field(default=None, repr=False, compare=False)
    pending: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    _completed: dict[str, Instant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        completed = {i.requested: i for i in self.instants if i.state is State.COMPLETED and i.is_write}
        pending = [i for i in self.instants if i.state is not State.COMPLETED and i.action is not Action.SAVEPOINT]
        object.__setattr__(self, "_completed", completed)
        object.__setattr__(self, "pending", tuple(pending))

    @property
    def rules(self) -> TimelineRules:
        """Rules of the timeline's layout."""
        return rules_of(self.layout)

    @classmethod
    def from_names(cls, names: Iterable[str], layout: Layout = 2) -> Timeline:
        """The timeline that a folder listing shows; names that are no instants are passed over."""
        return cls.from_files((FileInfo(name, 0, 0) for name in names), layout)

    @classmethod
    def from_files(cls, files: Iterable[FileInfo], layout: Layout = 2) -> Timeline:
        """The timeline that a folder listing shows; files that are no instants are passed over."""
        best: dict[tuple[str, Action], tuple[InstantFile, FileInfo]] = {}
        requested = set()
        for info in files:
            file = parse_instant_file(basename(info.path), layout)
            if file is None:
                continue
            key = (file.requested, file.action.comparable)
            if key not in best or best[key][0].state < file.state:
                best[key] = file, info
            if file.state is State.REQUESTED:
                requested.add(key)
        instants = (_instant(file, info, layout) for file, info in best.values())
        inflight = (key for key, (file, _) in best.items() if file.state is State.INFLIGHT)
        unrequested = frozenset(key[0] for key in inflight if key not in requested and key[1] is not Action.SAVEPOINT)
        return cls(tuple(sorted(instants, key=_place)), layout, unrequested=unrequested)

    def with_files(self, names: Iterable[str]) -> Timeline:
        """The timeline with files that were added since its listing; names that are no instants are passed over."""
        added = Timeline.from_names(names, self.layout)
        if not added.instants:
            return self
        best = {(i.requested, i.action.comparable): i for i in self.instants}
        known = {i.requested for i in self.instants}
        unrequested = self.unrequested | (added.unrequested - known)
        for instant in added.instants:
            key = instant.requested, instant.action.comparable
            if key not in best or best[key].state < instant.state:
                best[key] = instant
        return replace(self, instants=tuple(sorted(best.values(), key=_place)), unrequested=unrequested)

    @property
    def commits(self) -> tuple[Instant, ...]:
        """Completed instants that brought or replaced data files, oldest requested time first."""
        return tuple(self._completed.values())

    @property
    def newest_time(self) -> str | None:
        """The greatest time that instants were given, requested or completion, which a new one must exceed."""
        times = [t for i in self.instants for t in (i.requested, i.completion if i.layout == 2 else None) if t]
        return max(times, default=None)

    def order(self, instant: Instant) -> str:
        """The time that says whether and when readers see a completed instant.

        It's the completion time, and in layout 1 the requested time, as in Hudi: file times are none to rely on.
        """
        return instant.requested if self.layout == 1 or instant.completion is None else instant.completion

    def done(self, instant: Instant) -> str:
        """Return the time that orders completed instants.

        This is `order`, except for instants that a table upgraded from layout 1 still has: all of them precede every
        other instant, and the modification time of the file is the only known completion time.
        """
        return instant.requested if instant.layout == 1 else self.order(instant)

    def unseen(self, since: str) -> list[Instant]:
        """Return completed instants that a reader at `since` may have missed, oldest requested time first.

        Those that completed after the commit of that instant, or, where there's none, after that time, and those that
        were requested after it: reads of the past go by requested times. In layout 1 nothing else is known.
        """
        commit = self.commit(since)
        end = since if commit is None else self.done(commit)
        completed = (i for i in self.instants if i.is_completed and i.requested != since)
        return [i for i in completed if i.requested > since or self.done(i) > end]

    def shown(self, pending: Iterable[Instant], until: str | None = None) -> str:
        """An instant that stands for what a reader of this timeline sees; zeros where that is nothing.

        Every commit of the timeline was requested at or before `since`, and completed before the commit of that
        instant, if there is one, or before that very time. Later completions were not seen. In layout 1, where
        completion times are unknown, the boundary is the oldest pending write, since it may complete unseen.

        Args:
            pending: instants under way when the timeline was read.
            until: the greatest requested time that the reader sees; None where it sees all.
        """
        changes = (*self.commits, *self.of(Action.RESTORE))
        if self.layout == 1:
            open_from = min((i.requested for i in pending if i.is_write or i.action is Action.RESTORE), default=None)
            sure = [i.requested for i in changes if open_from is None or i.requested < open_from]
            return max(sure, default=NOTHING)
        last = max(changes, key=lambda i: (self.done(i), i.requested), default=None)
        if last is None:
            return NOTHING
        newest = max(i.requested for i in changes)
        found = last.requested if last.is_write and newest == last.requested else self.done(last)
        return found if until is None or found <= until else newest

    @property
    def oldest(self) -> str | None:
        """Requested time of the oldest completed commit of the active timeline.

        Whatever is older and has files was archived: Hudi's readers begin here. The instants at which partitions of a
        metadata table are made stand for no moment: one may be made long after others were archived.
        """
        return self._oldest(self._completed)

    @property
    def start(self) -> str | None:
        """Requested time of the first instant of the active timeline; older instants may be archived.

        It's that of the oldest completed commit without a savepoint: archiving goes on beyond those that have one
        (BaseHoodieTimeline.findFirstNonSavepointCommit). If all have one, as after a restore to a savepoint, it's the
        newest: what lies between them may be archived. From `oldest` on, the archive tells whether an instant was.
        """
        saved = {i.requested for i in self.instants if i.action is Action.SAVEPOINT}
        oldest = self._oldest(requested for requested in self._completed if requested not in saved)
        return max(self._completed, default=None) if oldest is None else oldest

    @staticmethod
    def _oldest(requested: Iterable[str]) -> str | None:
        found = list(requested)
        return next((each for each in found if not each.startswith(INIT_INSTANT)), next(iter(found), None))

    def commit(self, requested: str) -> Instant | None:
        """The completed commit of that requested time, if there is one on the active timeline."""
        return self._completed.get(requested)

    def rolled_back_in(self, now: Timeline) -> Iterator[Instant]:
        """Yield completed commits that were rolled back since: a later listing neither has them nor archived them."""
        there, start = {each.requested for each in now.commits}, now.start or ""
        for each in self.commits:
            if not each.archived and each.requested >= start and each.requested not in there:
                yield each

    def find(self, requested: str, action: Action | None = None) -> Instant | None:
        """The instant of that requested time (and action)."""
        matches = (i for i in self.instants if i.requested == requested and action in {None, i.action})
        return next(matches, None)

    def of(self, action: Action, state: State = State.COMPLETED, *more: State) -> tuple[Instant, ...]:
        """Instants of one action in one of some states, oldest first."""
        states = (state, *more)
        return tuple(i for i in self.instants if i.action is action and i.state in states)

    def pending_of(self, action: Action) -> tuple[Instant, ...]:
        """Requested and inflight instants of one action, oldest first."""
        return self.of(action, State.REQUESTED, State.INFLIGHT)

    @property
    def savepoints(self) -> tuple[str, ...]:
        """Requested times of the commits that have a savepoint, oldest first."""
        return tuple(each.requested for each in self.of(Action.SAVEPOINT))

    def is_pending(self, requested: str) -> bool:
        """Whether a write of that requested time is under way, or died."""
        return any(i.requested == requested for i in self.pending)

    def until(self, requested: str) -> Timeline:
        """The timeline as far as instants requested at or before `requested`."""
        return replace(self, instants=tuple(i for i in self.instants if i.requested <= requested))

    def completed_until(self, time: str) -> Timeline:
        """The completed instants that readers see at `time`, see `order`."""
        return replace(self, instants=tuple(i for i in self.instants if i.is_completed and self.order(i) <= time))

    def with_instant(self, instant: Instant) -> Timeline:
        """The timeline with one instant more."""
        return replace(self, instants=tuple(sorted((*self.instants, instant), key=_place)))

    def with_completed(self, instant: Instant) -> Timeline:
        """The timeline with a completed instant in place of its pending form."""
        others = replace(self, instants=tuple(i for i in self.instants if i.requested != instant.requested))
        return others.with_instant(instant)

    def with_archived(self, archived: Iterable[Instant]) -> Timeline:
        """The timeline with archived instants put before; of one that is on both, the active form stays."""
        active = {(i.requested, i.action.comparable) for i in self.instants}
        older = (i for i in archived if (i.requested, i.action.comparable) not in active)
        return replace(self, instants=tuple(sorted((*older, *self.instants), key=_place)))


def _place(instant: Instant) -> tuple[str, str]:
    return instant.requested, instant.action  # a text; `value` would cost a call


def _instant(file: InstantFile, info: FileInfo, layout: Layout) -> Instant:
    """Parse the instant of a file; a completed file whose name holds no time gets the file's modification time."""
    if file.state is not State.COMPLETED or file.completion is not None:
        return Instant(file.requested, file.action, file.state, file.completion, layout)
    return Instant(file.requested, file.action, file.state, millis_to_instant(info.modified_ms, "LOCAL"), 1)


_AT_ONCE = 100
"""Number of files up to which a folder is taken to be listed in one piece. The first piece of a longer listing may be
older than the folder of the history, and the next one younger than the moment when instants went there."""


class ListedTimeline:
    """The timeline in a folder as it was last listed: a writer lists it some ten times and mostly finds the same.

    A pickled copy has listed nothing.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[frozenset[str], Timeline] | None = None  # one value, since threads share it

    def __reduce__(self) -> tuple[object, ...]:
        return (ListedTimeline, ())

    def list(self, storage: Storage, folder: str, layout: Layout) -> Timeline:
        """Return the timeline now, by one listing, as a value of its own.

        In layout 1, and for instants that an upgrade brought from there, the times of files are read too.

        Args:
            storage: the table's files.
            folder: the timeline's folder.
            layout: the layout of the timeline.
        """
        if layout == 1:
            return _listed_with_times(storage, folder, layout)
        files, folders = list_names(storage, folder)
        names, below = frozenset(files), frozenset(folders) if len(files) <= _AT_ONCE else None
        last = self._last or (frozenset(), Timeline(layout=layout))
        if names == last[0] and below == last[1].folders:
            return copy(last[1])
        timeline = replace(_parsed(names, *last), folders=below)
        if any(instant.layout != layout for instant in timeline.instants):
            return _listed_with_times(storage, folder, layout)
        self._last = names, timeline
        return copy(timeline)


def _parsed(names: frozenset[str], known: frozenset[str], before: Timeline) -> Timeline:
    """Parse the names that were added since another listing, or all of them if some are gone."""
    if known <= names:
        timeline = before.with_files(sorted(names - known))
    else:
        timeline = Timeline.from_names(sorted(names), before.layout)
    return replace(timeline, is_moving=True) if MOVED in names else timeline


def _listed_with_times(storage: Storage, folder: str, layout: Layout) -> Timeline:
    files, _ = storage.list_dir(folder)
    timeline = Timeline.from_files(files, layout)
    return replace(timeline, is_moving=any(info.path == f"{folder}/{MOVED}" for info in files))
