"""The active timeline as a value: the instants of one listing, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pudi.format import Action, InstantFile, State, parse_instant_file
from pudi.timeline.instant import Instant


@dataclass(frozen=True, slots=True)
class Timeline:
    """The instants of the active timeline at one moment.

    Guarantees: one `Instant` for each requested time and comparable action, in its highest state; ordered by
    requested time; completed instants have a completion time.

    Attributes:
        instants: all of them, oldest first.
    """

    instants: tuple[Instant, ...] = ()
    _completed: dict[str, Instant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        completed = {i.requested: i for i in self.instants if i.is_completed and i.is_write}
        object.__setattr__(self, "_completed", completed)

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Timeline:
        """The timeline that a folder listing shows; names that are no instants are passed over."""
        best: dict[tuple[str, Action], InstantFile] = {}
        for name in names:
            file = parse_instant_file(name, layout=2)
            if file is None:
                continue
            key = (file.requested, file.action.comparable)
            if key not in best or best[key].state < file.state:
                best[key] = file
        instants = (Instant(f.requested, f.action, f.state, f.completion) for f in best.values())
        return cls(tuple(sorted(instants, key=lambda i: (i.requested, i.action.value))))

    @property
    def commits(self) -> tuple[Instant, ...]:
        """Completed instants that brought or replaced data files, oldest requested time first."""
        return tuple(self._completed.values())

    @property
    def pending(self) -> tuple[Instant, ...]:
        """Instants that are requested or inflight."""
        return tuple(i for i in self.instants if not i.is_completed)

    @property
    def newest_time(self) -> str | None:
        """The greatest requested or completion time, which a new instant must exceed."""
        times = [t for i in self.instants for t in (i.requested, i.completion) if t]
        return max(times, default=None)

    @property
    def start(self) -> str | None:
        """Requested time from which the timeline is complete; what is older may be archived.

        It's that of the oldest completed commit without a savepoint: archiving goes on beyond those that have one
        (BaseHoodieTimeline.findFirstNonSavepointCommit).
        """
        saved = {i.requested for i in self.instants if i.action is Action.SAVEPOINT}
        return next((requested for requested in self._completed if requested not in saved), None)

    def commit(self, requested: str) -> Instant | None:
        """The completed commit of that requested time, if there is one on the active timeline."""
        return self._completed.get(requested)

    def find(self, requested: str, action: Action | None = None) -> Instant | None:
        """The instant of that requested time (and action)."""
        matches = (i for i in self.instants if i.requested == requested and action in {None, i.action})
        return next(matches, None)

    def of(self, action: Action, state: State = State.COMPLETED) -> tuple[Instant, ...]:
        """Instants of one action in one state, oldest first."""
        return tuple(i for i in self.instants if i.action is action and i.state is state)

    def is_pending(self, requested: str) -> bool:
        """Whether a write of that requested time is under way, or died."""
        return any(i.requested == requested and not i.is_completed for i in self.instants)

    def until(self, requested: str) -> Timeline:
        """The timeline as far as instants requested at or before `requested`."""
        return Timeline(tuple(i for i in self.instants if i.requested <= requested))

    def completed_until(self, completion: str) -> Timeline:
        """The instants completed at or before `completion`."""
        return Timeline(tuple(i for i in self.instants if i.completion is not None and i.completion <= completion))
