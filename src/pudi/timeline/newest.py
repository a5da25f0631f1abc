"""The newest archived instants with what they say, in memory that doesn't grow with the archive.

One file of the archive is read at a time, and of layout 2 only a few of its instants. Queries that go through the whole
archive by `Archive` keep what they read.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pudi.context import Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.format import (
    Action,
    ArchivedEntry,
    CommitMetadata,
    State,
    decode_avro,
    decode_commit_metadata,
    history_range,
    is_instant_time,
)
from pudi.format.parquet import PARQUET_ERRORS, open_parquet
from pudi.storage import open_input
from pudi.timeline.archive import ACTIONS, TIMES, LogArchive, completion_time, read_manifest
from pudi.timeline.instant import Instant
from pudi.timeline.store import TimelineStore

_ATTEMPTS = 3
_ROWS = 32
"""Number of instants of a file that are in memory together."""

Key = tuple[str, Action]
"""Requested time and comparable action of an instant."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ArchivedContent:
    """Content of a completed archived instant, decoded on demand.

    Attributes:
        stored: the entry of an archive of layout 1, or the bytes of layout 2.
        path: the file of the archive.
    """

    stored: ArchivedEntry | bytes
    path: str = ""

    def commit_metadata(self) -> CommitMetadata:
        """Return the commit metadata of a write; raises `CorruptError`."""
        if isinstance(self.stored, bytes):
            return decode_commit_metadata(self.stored, path=self.path)
        return self.stored.commit_metadata

    def decoded(self) -> dict[str, Any]:
        """Return the metadata of another action, by Avro's names; raises `CorruptError`."""
        if isinstance(self.stored, bytes):
            return decode_avro(self.stored, path=self.path)
        return dict(self.stored.content)


Describe = Callable[[Instant, ArchivedContent], _T]


def newest_archived(
    store: TimelineStore, limit: int | None, describe: Describe[_T], known: Collection[Key] = ()
) -> list[tuple[Key, _T]]:
    """Describe the newest completed instants of the archive.

    Args:
        store: the timeline.
        limit: how many; None for all.
        describe: makes of an instant and its content what is kept of it.
        known: instants to pass over: those that are on the active timeline.

    Returns:
        The descriptions, newest first.

    Raises:
        CorruptError: the archive can't be read.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _newest_archived(store, limit, describe, known)
        except NotFoundError:  # a file was merged into another one since the listing
            continue
    return _newest_archived(store, limit, describe, known)


def _newest_archived(
    store: TimelineStore, limit: int | None, describe: Describe[_T], known: Collection[Key]
) -> list[tuple[Key, _T]]:
    found: _Newest[_T] = _Newest(limit, frozenset(known))
    if store.layout == 1:
        for entries in LogArchive(store.storage, store.history).by_file():
            for key, entry in entries.items():
                if found.wants(key):
                    done = completion_time(entry.transition, entry.requested)
                    instant = Instant(*key, State.COMPLETED, done, 1, archived=True)
                    found.add(key, describe(instant, ArchivedContent(entry)))
        return found.sorted()
    files = read_manifest(store.storage, store.history)[1]
    for name in sorted(files, key=_last, reverse=True):
        if not found.wants((_last(name) + "~", Action.COMMIT)):  # behind any instant of the file
            break
        for instant, content in _of_file(store.storage, f"{store.history}/{name}", found):
            found.add((instant.requested, instant.action), describe(instant, content))
    return found.sorted()


def _of_file(storage: Storage, path: str, found: _Newest[Any]) -> Iterator[tuple[Instant, ArchivedContent]]:
    """The instants of a file that are among the newest."""
    try:
        with open_input(storage, path) as source:
            file = open_parquet(source, pre_buffer=False)
            times = file.read(TIMES).to_pydict()
            own = {(t, ACTIONS[a].comparable) for t, a in zip(times["instantTime"], times["action"], strict=True)
                   if t and is_instant_time(t) and a in ACTIONS}  # fmt: skip
            wanted = {key for key in found.among(own) if found.wants(key)}
            for batch in file.iter_batches(_ROWS, columns=[*TIMES, "metadata"]) if wanted else ():
                rows = [batch.column(name).to_pylist() for name in (*TIMES, "metadata")]
                for requested, done, action, content in zip(*rows, strict=True):
                    kind = ACTIONS[action].comparable if action in ACTIONS else None
                    if kind is None or (requested, kind) not in wanted:
                        continue
                    wanted.discard((requested, kind))
                    completed = completion_time(done, requested)
                    instant = Instant(requested, kind, State.COMPLETED, completed, archived=True)
                    yield instant, ArchivedContent(bytes(content or b""), path)
    except (*PARQUET_ERRORS, KeyError) as error:
        raise CorruptError(f"a file of the archived timeline can't be read: {error}", path=path) from error


@dataclass(frozen=True, slots=True)
class _Newest(Generic[_T]):
    """The newest of the instants that were added.

    Attributes:
        limit: how many are kept; None for all.
        known: instants to pass over.
    """

    limit: int | None
    known: frozenset[Key]
    _kept: dict[Key, _T] = field(default_factory=dict)
    _order: list[tuple[str, str]] = field(default_factory=list)

    def wants(self, key: Key) -> bool:
        """Whether an instant would be kept."""
        if key in self.known or key in self._kept:
            return False
        return self.limit is None or len(self._order) < self.limit or _place(key) > self._order[0]

    def among(self, keys: Collection[Key]) -> Collection[Key]:
        """The newest of some instants, as many as are kept at most."""
        free = [key for key in keys if key not in self.known]
        return free if self.limit is None else heapq.nlargest(self.limit, free, key=_place)

    def add(self, key: Key, value: _T) -> None:
        """Keep an instant, and drop the oldest if there are too many."""
        heapq.heappush(self._order, _place(key))
        self._kept[key] = value
        if self.limit is not None and len(self._order) > self.limit:
            requested, action = heapq.heappop(self._order)
            del self._kept[requested, Action(action)]

    def sorted(self) -> list[tuple[Key, _T]]:
        """All that are kept, newest first."""
        return sorted(self._kept.items(), key=lambda pair: _place(pair[0]), reverse=True)


def _place(key: Key) -> tuple[str, str]:
    return key[0], key[1].value


def _last(name: str) -> str:
    found = history_range(name)
    assert found is not None, "names of manifests are checked"
    return found[1]
