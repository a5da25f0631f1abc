"""List the active timeline by the names of its files, and parse them again only when they changed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from pudi.context import Storage
from pudi.format import Layout
from pudi.format.layout import MOVED
from pudi.storage import list_names
from pudi.timeline.timeline import Timeline


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
        names = frozenset(list_names(storage, folder))
        last = self._last or (frozenset(), Timeline(layout=layout))
        if names == last[0]:
            return copy(last[1])
        timeline = _parsed(names, *last)
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
