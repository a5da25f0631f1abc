"""Compare what catalogs hold of a table with the table; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pudi.catalogs import Catalog, CatalogTable, is_hudi
from pudi.catalogs.registered import Registration
from pudi.client import TableSnapshot
from pudi.config import SyncOptions
from pudi.config.sync_options import MANIFEST_PLACES
from pudi.errors import PudiError
from pudi.sync.after_write import opened_place, request_of
from pudi.sync.run import (
    all_partitions,
    altered,
    commits_since,
    lower_columns,
    one_spelling,
    registered_times,
)
from pudi.timeline import Timeline

_SHOWN = 3
"""Partitions that a difference names."""


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """State of one of a table's entries in a catalog.

    Attributes:
        catalog: address of the catalog, or what options name.
        name: database and name there; empty where the catalog doesn't answer.
        last_sync: requested time of the newest commit that is registered; None before the first sync.
        differences: what differs from the table, in words.
        problem: why it can't be said; empty where it can.
    """

    catalog: str
    name: str
    last_sync: str | None
    differences: tuple[str, ...] = ()
    problem: str = ""


def registered_states(snapshot: TableSnapshot) -> tuple[RegisteredState, ...]:
    """Return the state of each entry in the catalogs that the options name for syncs after writes.

    Args:
        snapshot: the table, with the writers' options.
    """
    found: list[RegisteredState] = []
    for place in SyncOptions.of(snapshot.options).places:
        if place in MANIFEST_PLACES:
            continue
        try:
            found += _states(snapshot, place)
        except PudiError as error:
            found.append(RegisteredState(place, "", None, problem=str(error)))
    return tuple(found)


def _states(snapshot: TableSnapshot, place: str) -> list[RegisteredState]:
    with opened_place(place, snapshot.options, snapshot.meta.context) as (catalog, name):
        _, registration = request_of(catalog, snapshot.options, name=name).entries(snapshot)
        wanted = registration.tables
        known = catalog.tables(wanted[0].name.database, [each.name.table for each in wanted])
        paths = all_partitions(snapshot).present if registration.is_partitioned and known else ()
        comparison = _Comparison(catalog, registration, snapshot.timeline, paths)
        states = []
        for each in wanted:
            entry = known.get(each.name.table)
            if entry is None:
                states.append(RegisteredState(str(catalog), str(each.name), None, ("it isn't registered",)))
                continue
            differences = tuple(comparison.differences(each, entry))
            states.append(RegisteredState(str(catalog), str(each.name), registered_times(entry)[0], differences))
        return states


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares a table with its entries in one catalog.

    Attributes:
        catalog: the catalog.
        registration: the entries as they are to be.
        timeline: the table's timeline.
        paths: paths of the partitions that hold data.
    """

    catalog: Catalog
    registration: Registration
    timeline: Timeline
    paths: tuple[str, ...]

    def differences(self, wanted: CatalogTable, known: CatalogTable) -> Iterator[str]:
        """Yield what differs between an entry as it's to be and as it is."""
        if not is_hudi(known):
            yield f"it is a table of another format, at {known.location}"
            return
        if one_spelling(known.location) != one_spelling(wanted.location):
            yield f"it is the table at {known.location}"
            return
        if lower_columns(known.partition_columns) != lower_columns(wanted.partition_columns):
            there, here = (
                ", ".join(" ".join(column) for column in lower_columns(each.partition_columns)) or "none"
                for each in (known, wanted)
            )
            yield f"its partition columns are {there}, those of the table {here}"
            return
        ours, theirs = (
            dict(lower_columns(altered(known, wanted, comments=False).columns)),
            dict(lower_columns(known.columns)),
        )
        if ours != theirs:
            yield "columns differ: " + ", ".join(
                f"{name} is {theirs.get(name, 'missing')}, in the table {ours.get(name, 'none')}"
                for name in dict.fromkeys((*ours, *theirs))
                if ours.get(name) != theirs.get(name)
            )
        if self.registration.is_partitioned:
            yield from self._of_partitions(known)
        if self.catalog.has_partitions:
            yield from _behind(known, self.timeline)

    def _of_partitions(self, known: CatalogTable) -> Iterator[str]:
        wanted = {each.values for each in self.registration.partitions(self.paths)}
        there = set(self.catalog.partition_values(known))
        lacking = (wanted - there, "isn't registered", "aren't registered")
        surplus = (there - wanted, "holds no data any more", "hold no data any more")
        for values, one, several in (lacking, surplus):
            if values:
                some = ", ".join("/".join(each) for each in sorted(values)[:_SHOWN])
                said = f"1 partition {one}" if len(values) == 1 else f"{len(values):,} partitions {several}"
                yield f"{said}: {some}{', …' if len(values) > _SHOWN else ''}"


def _behind(known: CatalogTable, timeline: Timeline) -> Iterator[str]:
    times = registered_times(known)
    if times[0] is None:
        yield "no sync of it has ended"
        return
    missing = commits_since(timeline, *times)
    if missing is None:
        yield f"the timeline no longer holds the last registered commit, {times[0]}"
    elif missing:
        commits = "1 commit" if len(missing) == 1 else f"{len(missing):,} commits"
        yield f"{commits} came after the last sync, the first is {missing[0].requested}"
