"""The model: a table's columns and rows as plain values, and what each operation makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from support.histories.names import NO_VALUE
from support.histories.setups import Setup
from support.histories.values import WIDER, Columns, retyped

Values = dict[str, Any]
_Fields = list[pa.Field]
Place = tuple[str, tuple[Any, ...]]
"""A partition path and a record key."""


class UnplayableError(Exception):
    """An operation makes no sense in this state: a shorter history left out what it needs."""


@dataclass(frozen=True)
class Record:
    """One stored record.

    Attributes:
        folder: its partition path.
        values: by column.
        commit: the instant of the commit that wrote it.
    """

    folder: str
    values: Values
    commit: str


@dataclass(frozen=True)
class Doubt:
    """What isn't sure of a record whose key was deleted before, until the table is read.

    Attributes:
        may_lack: whether the record may have lost to the delete.
        folders: partition paths of deleted copies, in one of which it may be in place of its own.
    """

    may_lack: bool
    folders: frozenset[str]


@dataclass(frozen=True)
class State:
    """A table at one moment.

    Attributes:
        columns: names and types, in order.
        records: in any order.
        deleted: of keys whose deletes may be in log files, the greatest ordering value they had; None if unknown.
        unsure: doubts about some of the records, by place.
    """

    columns: Columns
    records: tuple[Record, ...] = ()
    deleted: dict[Place, int | None] = field(default_factory=dict)
    unsure: dict[Place, Doubt] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """What operations do to a state of a table that is set up in one way."""

    setup: Setup

    def key(self, values: Values) -> tuple[Any, ...]:
        """Return a row's record key."""
        return tuple(values[name] for name in self.setup.key)

    def place(self, record: Record) -> Place:
        """Return partition path and record key."""
        return record.folder, self.key(record.values)

    def key_text(self, values: Values) -> str:
        """Return the text of a row's record key."""
        if len(self.setup.key) == 1:
            return str(values[self.setup.key[0]])
        return ",".join(f"{name}:{values[name]}" for name in self.setup.key)

    def stamped(self, values: Values, commit: str) -> Record:
        """Return a row as a record of its partition. A partition value that says nothing is stored as null."""
        folder = self.setup.folder(values.get("p"))
        if self.setup.names and values.get("p") in NO_VALUE:
            values = {**values, "p": None}
        return Record(folder, values, commit)

    def widened(self, state: State, columns: Columns) -> State:
        """Return the state with columns that a batch brings and the table lacks, or has of narrower types."""
        missing = [name for name in state.columns if name not in columns]
        if missing:
            raise UnplayableError(f"columns {missing}")
        for name, kind in columns.items():
            if kind in WIDER.get(state.columns.get(name, kind), ()):
                state = self.change_type(state, name, kind)
            elif state.columns.get(name, kind) not in {kind, *WIDER.get(kind, ())}:
                raise UnplayableError(name)
        return self._with_columns(state, {name: kind for name, kind in columns.items() if name not in state.columns})

    def _with_columns(self, state: State, new: Columns) -> State:
        if not new:
            return state
        rows = tuple(replace(r, values={**r.values, **dict.fromkeys(new)}) for r in state.records)
        return replace(state, columns={**state.columns, **new}, records=rows)

    def insert(self, state: State, rows: Iterable[Values], commit: str) -> State:
        """Add rows as they are."""
        if self.setup.inserts_merge:
            return self.upsert(state, rows, commit)
        new = [self.stamped(row, commit) for row in rows]
        there = {self.identity(old): old.folder for old in state.records}
        if any(there.get(self.identity(each), each.folder) != each.folder for each in new):
            raise UnplayableError("a key in two partitions of a table with a global index")
        if not self.setup.copies and any(self.identity(each) in there for each in new):
            raise UnplayableError("keys are there")
        return self._judged(state, replace(state, records=(*state.records, *new)), new, looks=False)

    def unknown(self, state: State, rows: Iterable[Values]) -> list[Values]:
        """Return the rows whose key isn't there."""
        known = {self.identity(old) for old in state.records}
        return [row for row in rows if self.identity(self.stamped(row, "")) not in known]

    def upsert(self, state: State, rows: Iterable[Values], commit: str) -> State:
        """Update what is there, insert the rest."""
        winners: dict[Any, Record] = {}
        for row in rows:
            new = self.stamped(row, commit)
            old = winners.get(self.identity(new))
            winners[self.identity(new)] = new if old is None else self.winner(old, new)
        return self._put(state, winners)

    def _put(self, state: State, winners: dict[Any, Record]) -> State:
        merged, known, gone = [], set[Any](), []
        for old in state.records:
            who = self.identity(old)
            new = winners.get(who)
            if new is None:
                merged.append(old)
                continue
            if who in known and new.folder != old.folder:
                raise UnplayableError("copies of a key would move")
            known.add(who)
            if new.folder != old.folder and not self.setup.moves:
                new = replace(new, folder=old.folder)
            kept = self.winner(old, new)
            if kept.folder != old.folder:
                gone.append(old)
            merged.append(kept)
        added = [new for who, new in winners.items() if who not in known]
        after = self._without(replace(state, records=(*merged, *added)), gone)
        moved = [each for each in merged if any(self.key(old.values) == self.key(each.values) for old in gone)]
        return self._judged(state, after, [*added, *moved])

    def _judged(self, before: State, after: State, new: Iterable[Record], *, looks: bool = True) -> State:
        """Return the state with what isn't sure of new records whose key was deleted before.

        Indexes that search base files find deleted copies there. So do those of Hudi.
        """
        stays = looks and self.setup.index.startswith("GLOBAL") and not self.setup.moves
        unsure = dict(after.unsure)
        for record in new:
            key, order = self.key(record.values), record.values["ts"]
            deleted = {folder: ts for (folder, other), ts in before.deleted.items() if other == key}
            folders = frozenset(deleted if stays else deleted.keys() & {record.folder})
            times = [deleted[folder] for folder in folders]
            late = self.setup.event and any(ts is None or order is None or order < ts for ts in times)
            if late or folders - {record.folder}:
                unsure[self.place(record)] = Doubt(late, folders)
        return replace(after, unsure=unsure)

    def remove(self, state: State, gone: Iterable[Record]) -> State:
        """Return the state without some of its records."""
        gone = list(gone)
        left = {id(each) for each in gone}
        kept = tuple(each for each in state.records if id(each) not in left)
        return self._without(replace(state, records=kept), gone)

    def _without(self, state: State, gone: Iterable[Record]) -> State:
        if self.setup.kind == "cow":
            return state
        deleted = dict(state.deleted)
        for record in gone:
            place, order = self.place(record), record.values["ts"]
            before = deleted.get(place, order)
            deleted[place] = None if order is None or before is None else max(order, before)
        return replace(state, deleted=deleted)

    def delete(self, state: State, keys: Iterable[Values]) -> State:
        """Remove records by key."""
        identities = {self.identity(self.stamped(row, "")) for row in keys}
        return self.remove(state, [old for old in state.records if self.identity(old) in identities])

    def change(self, state: State, commit: str, new: Callable[[Values], Values | None]) -> State:
        """Update the records for which a function gives other values."""
        winners: dict[Any, Record] = {}
        for old in state.records:
            values = new(old.values)
            if values is not None:
                if self.identity(old) in winners:
                    raise UnplayableError("one key twice")
                winners[self.identity(old)] = Record(old.folder, values, commit)
        if any(self.identity(old) in winners and new(old.values) is None for old in state.records):
            raise UnplayableError("one key twice")
        return self._put(state, winners)

    def overwrite(self, state: State, rows: Iterable[Values], commit: str, *, whole: bool = False) -> State:
        """Put rows in place of what is in their partitions, or in all."""
        new = [self.stamped(row, commit) for row in rows]
        return self._replace(state, None if whole else {each.folder for each in new}, new)

    def empty(self, state: State, folders: set[str]) -> State:
        """Remove all that is in partitions."""
        return self._replace(state, folders, [])

    def _replace(self, state: State, folders: set[str] | None, new: list[Record]) -> State:
        kept = [old for old in state.records if folders is not None and old.folder not in folders]
        several = self.setup.copies and not self.setup.is_global
        if not several and {self.identity(old) for old in kept} & {self.identity(each) for each in new}:
            raise UnplayableError("keys are in other partitions")
        deleted = {at: ts for at, ts in state.deleted.items() if folders is not None and at[0] not in folders}
        return replace(state, records=(*kept, *new), deleted=deleted)

    def add_column(self, state: State, path: str, kind: pa.DataType, after: str | None) -> State:
        """Add a column, or a field of a struct."""
        outer, _, name = path.rpartition(".")
        if outer:
            return self._with_struct(state, outer, name, lambda fields: [*fields, pa.field(name, kind)], {})
        if name in state.columns or (after is not None and after not in state.columns):
            raise UnplayableError(path)
        state = self._with_columns(state, {name: kind})
        return state if after is None else self.move_column(state, name, after)

    def move_column(self, state: State, name: str, after: str) -> State:
        """Move a column behind another one."""
        if name == after or not {name, after} <= set(state.columns):
            raise UnplayableError(name)
        order = [each for each in state.columns if each != name]
        order.insert(order.index(after) + 1, name)
        return replace(state, columns={each: state.columns[each] for each in order})

    def rename_column(self, state: State, path: str, new: str) -> State:
        """Rename a column, or a field of a struct."""
        outer, _, name = path.rpartition(".")
        if outer:
            return self._with_struct(
                state,
                outer,
                new,
                lambda fields: [f.with_name(new) if f.name == name else f for f in fields],
                {name: new},
            )
        if name not in state.columns or new in state.columns:
            raise UnplayableError(path)

        def renamed(values: dict[str, Any]) -> dict[str, Any]:
            return {new if each == name else each: value for each, value in values.items()}

        rows = tuple(replace(each, values=renamed(each.values)) for each in state.records)
        return replace(state, columns=renamed(state.columns), records=rows)

    def drop_column(self, state: State, path: str) -> State:
        """Drop a column, or a field of a struct."""
        outer, _, name = path.rpartition(".")
        if outer:
            return self._with_struct(state, outer, "", lambda fields: [f for f in fields if f.name != name], {name: ""})
        if name not in state.columns:
            raise UnplayableError(path)

        def without(values: dict[str, Any]) -> dict[str, Any]:
            return {each: value for each, value in values.items() if each != name}

        rows = tuple(replace(each, values=without(each.values)) for each in state.records)
        return replace(state, columns=without(state.columns), records=rows)

    def change_type(self, state: State, name: str, kind: pa.DataType) -> State:
        """Give a column a wider type."""
        old = state.columns.get(name)
        if old is None or old == kind:
            raise UnplayableError(name)
        rows = tuple(
            replace(each, values={**each.values, name: retyped(each.values[name], old, kind)}) for each in state.records
        )
        return replace(state, columns={**state.columns, name: kind}, records=rows)

    def _with_struct(
        self, state: State, path: str, new: str, change: Callable[[_Fields], _Fields], names: dict[str, str]
    ) -> State:
        """Return the state with other fields of a struct.

        Args:
            state: the state.
            path: of the struct.
            new: a field that it must not have yet; empty for none.
            change: returns its fields, from those that it has.
            names: of a field that it has, and the name that it gets; empty if it goes.
        """
        name, *inner = path.split(".")
        kind = _changed(state.columns.get(name), inner, new, change, set(names))
        rows = tuple(
            replace(each, values={**each.values, name: _reshaped(each.values[name], inner, kind, names)})
            for each in state.records
        )
        return replace(state, columns={**state.columns, name: kind}, records=rows)

    def winner(self, old: Record, new: Record) -> Record:
        """Return the version that counts."""
        if not self.setup.event or old.values["ts"] is None:
            return new
        if new.values["ts"] is None:
            return old
        return new if new.values["ts"] >= old.values["ts"] else old

    def identity(self, record: Record) -> Any:
        """Return what names a record among all that the index looks at."""
        return self.key(record.values) if self.setup.is_global else self.place(record)


def _changed(kind: Any, path: list[str], new: str, change: Callable[[_Fields], _Fields], needed: set[str]) -> Any:
    """Return a struct type with other fields at a path within it; arguments as of `Model._with_struct`."""
    if kind is None or not pa.types.is_struct(kind):
        raise UnplayableError("no struct")
    names = {field.name for field in kind}
    if path:
        if path[0] not in names:
            raise UnplayableError(path[0])
        inner = _changed(kind.field(path[0]).type, path[1:], new, change, needed)
        return pa.struct([f.with_type(inner) if f.name == path[0] else f for f in kind])
    fields = change(list(kind))
    if new in names or not needed <= names or not fields:
        raise UnplayableError("fields")
    return pa.struct(fields)


def _reshaped(value: Any, path: list[str], kind: Any, names: dict[str, str]) -> Any:
    """Return a struct's value with the fields that its type got at a path within it."""
    if value is None:
        return None
    if path:
        return {**value, path[0]: _reshaped(value[path[0]], path[1:], kind.field(path[0]).type, names)}
    new = {names.get(name, name): each for name, each in value.items()}
    return {field.name: new.get(field.name) for field in kind}
