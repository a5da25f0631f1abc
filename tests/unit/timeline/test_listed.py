"""The timeline by the names of its files: parsed once, and always as the folder is now."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from pudi.context import FileInfo
from pudi.format.layout import MOVED
from pudi.timeline import Timeline
from pudi.timeline.timeline import ListedTimeline


@dataclass
class Folder:
    """A folder by its names; counts listings with times."""

    names: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    slow: int = 0

    def list_names(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        del prefix
        return self.names, self.folders

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        self.slow += 1
        return [FileInfo(f"{prefix}/{name}", 1, 1_700_000_000_000) for name in self.names], self.folders


def listed(timeline: ListedTimeline, folder: Folder, layout: Any = 2) -> Timeline:
    return timeline.list(cast(Any, folder), "t", layout)


_STATES = ("{0}.commit.requested", "{0}.inflight", "{0}_{0}.commit", "{0}.compaction.requested", "{0}.foreign")
_TIMES = ("20240101000000000", "20250101000000000")
_NAMES = st.sets(st.builds(str.format, st.sampled_from(_STATES), st.sampled_from(_TIMES)))


@given(st.lists(_NAMES, min_size=1, max_size=5))
def test_it_is_what_the_folder_shows_at_each_listing(states: list[set[str]]) -> None:
    timeline, folder = ListedTimeline(), Folder()
    for names in states:
        folder.names = sorted(names)
        assert listed(timeline, folder) == Timeline.from_names(folder.names)
    assert folder.slow == 0


def test_folders_beside_the_instants_are_those_of_the_last_listing() -> None:
    timeline, folder = ListedTimeline(), Folder(["20240101000000000.commit.requested"])
    assert listed(timeline, folder).folders == frozenset()
    folder.folders = ["history"]
    assert listed(timeline, folder).folders == {"history"}
    assert listed(timeline, folder).folders == {"history"}
    assert Timeline.from_names(folder.names).folders is None


def test_a_long_listing_says_nothing_of_folders() -> None:
    """It's read in pieces: instants may have been archived in between, and their folder made."""
    timeline, folder = ListedTimeline(), Folder([f"{20240101000000000 + n}.commit.requested" for n in range(101)])
    assert listed(timeline, folder).folders is None
    folder.folders = ["history"]
    assert listed(timeline, folder).folders is None
    del folder.names[0]
    assert listed(timeline, folder).folders == {"history"}


def test_times_are_read_where_names_have_none() -> None:
    folder = Folder(["20240101000000000.commit"])
    timeline = ListedTimeline()
    for _ in range(2):
        assert [instant.layout for instant in listed(timeline, folder).instants] == [1]
    assert [instant.layout for instant in listed(timeline, folder, 1).instants] == [1]
    assert folder.slow == 3
    folder.names = ["20240101000000000_20240101000000001.commit"]
    assert [instant.completion for instant in listed(timeline, folder).instants] == ["20240101000000001"]


def test_a_listing_is_a_value_of_its_own() -> None:
    timeline, folder = ListedTimeline(), Folder(["20240101000000000.commit.requested"])
    first, second = listed(timeline, folder), listed(timeline, folder)
    assert first == second
    assert first is not second
    assert listed(pickle.loads(pickle.dumps(timeline)), folder) == first


def test_a_timeline_that_moves_is_told_until_it_has_moved() -> None:
    timeline, folder = ListedTimeline(), Folder(["20240101000000000.commit.requested"])
    assert not listed(timeline, folder).is_moving
    folder.names = [*folder.names, MOVED]
    assert listed(timeline, folder).is_moving
    folder.names = folder.names[:1]
    assert not listed(timeline, folder).is_moving
