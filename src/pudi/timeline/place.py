"""Location of a timeline, as a value that tasks carry to read it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from pudi.context import Context, Storage
from pudi.format import Layout, TimelineZone
from pudi.timeline.store import TimelineStore


class _NoLock:
    """The lock of a timeline that is only read."""

    def __enter__(self) -> _NoLock:
        raise AssertionError("tasks change no timeline")

    def verify(self) -> None:
        """Never asked for."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


@dataclass(frozen=True, slots=True)
class TimelinePlace:
    """Location of a table's timeline; picklable.

    Attributes:
        folder: its folder, relative to the table's root.
        history: the folder of the archived history.
        timezone: the zone of instants.
        layout: the timeline's layout.
    """

    folder: str
    history: str
    timezone: TimelineZone
    layout: Layout

    @classmethod
    def of(cls, store: TimelineStore) -> TimelinePlace:
        """Return where a timeline is."""
        return cls(store.folder, store.history, store.timezone_name, store.layout)

    def open(self, storage: Storage) -> TimelineStore:
        """Return the timeline of a table's files, for reading."""
        return TimelineStore(storage, self.folder, self.history, self.timezone, Context(), _NoLock(), self.layout)
