"""Draws the steps of a history, each for the state that the steps before it left."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

import pudi
from support.histories.model import Model, State, UnplayableError, Values
from support.histories.operations import (
    Alter,
    Back,
    BadPartition,
    DeletePartitions,
    DeleteWhere,
    Index,
    Merge,
    Operation,
    Reopen,
    Service,
    Update,
    Upgrade,
    Write,
)
from support.histories.predicates import functions_of, random_predicate
from support.histories.setups import Setup
from support.histories.values import NEW_TYPES, TIME, WIDER, Columns, is_nested, random_value

_WEIGHTS = {
    "upsert": 20,
    "insert": 10,
    "bulk_insert": 4,
    "delete": 8,
    "delete_where": 7,
    "update": 8,
    "merge": 8,
    "overwrite": 4,
    "delete_partitions": 2,
    "alter": 14,
    "service": 18,
    "back": 6,
    "upgrade": 2,
    "index": 6,
    "reopen": 6,
}
_ALONE = 0.25
"""How often services and archiving alone follow a change of columns, until no write is left on the timeline."""
_BY_SQL = 0.15
_KEYS = 14
_FIXED = {"id", "num", "p", "ts"}
_NEW_NAMES = ("a", "b", "c", "e", "f", "g")

_NUMBERS = {pa.int32(), pa.int64(), pa.float32(), pa.float64()}


def _narrower(kind: pa.DataType) -> list[pa.DataType]:
    return [narrow for narrow, wider in WIDER.items() if kind in wider]


class Generator:
    """Draws operations."""

    def __init__(self, setup: Setup, model: Model, chance: random.Random) -> None:
        self.setup, self.model, self.chance = setup, model, chance
        self.good = [name for name in setup.names if not setup.is_refused(name)]
        self.bad = [name for name in setup.names if setup.is_refused(name)]
        self.may_repeat = setup.copies or setup.inserts_merge
        self.indexed: set[str] = set()
        self.made = ["column_stats", "bloom_filters"]
        self.quiet = 0

    def next(self, state: State, *, first: bool) -> Operation:
        """Return an operation that makes sense in a state."""
        while True:
            if first:
                kind = self.chance.choice(["insert", "bulk_insert", "upsert"])
            elif self.quiet:
                kind = "service"
            else:
                kind = self.chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            operation = getattr(self, f"_{kind}")(state)
            if operation is None:
                continue
            try:
                operation.after(self.model, state, "?")
            except UnplayableError:
                continue
            except pudi.InvalidArgumentError:
                pass
            self.quiet = max(0, self.quiet - 1)
            if kind == "alter" and self.chance.random() < _ALONE:
                self.quiet = self.chance.randint(2, 5)
            return operation  # type: ignore[no-any-return]

    def _upsert(self, state: State) -> Operation | None:
        return self._write(state, "upsert", self._keys(state, known=0.7))

    def _insert(self, state: State) -> Operation | None:
        if self.setup.finds_copies and self.chance.random() < 0.2:
            keys = self._keys(state, known=0.4, unique=True)
            return self._write(state, "insert", keys, policy=self.chance.choice(["drop", "drop", "fail"]))
        return self._write(state, "insert", self._keys(state, known=0.3 * self.may_repeat, fresh=True))

    def _bulk_insert(self, state: State) -> Operation | None:
        return self._write(state, "bulk_insert", self._keys(state, known=0.2 * self.may_repeat, fresh=True))

    def _delete(self, state: State) -> Operation | None:
        columns = {name: state.columns[name] for name in ("id", "num", "p", "ts")}
        rows = [self._row(columns, key, place) for key, place in self._keys(state, known=0.8)]
        return Write("delete", tuple(rows), tuple(columns.items())) if rows else None

    def _overwrite(self, state: State) -> Operation | None:
        verb = self.chance.choice(["insert_overwrite", "insert_overwrite", "insert_overwrite_table"])
        return self._write(state, verb, self._keys(state, known=0.5, unique=True))

    def _write(self, state: State, verb: str, keys: list[tuple[int, Any]], policy: str = "") -> Operation | None:
        columns = dict(state.columns)
        if self.setup.columns_change and self.chance.random() < 0.06:
            new = [n for n in (*_NEW_NAMES, "h") if n not in columns]
            columns |= {self.chance.choice(new): self._new_type()} if new else {}
        elif self.setup.columns_change and self.chance.random() < 0.06:
            columns |= self._other_types(columns)
        rows = [self._row(columns, key, place) for key, place in keys]
        if not rows:
            return None
        if self.bad and self.chance.random() < 0.1:
            rows[-1] = {**rows[-1], "p": self.chance.choice(self.bad)}
            return BadPartition(verb, tuple(rows), tuple(columns.items()))
        by_sql = columns == state.columns and not policy and verb in {"insert", "insert_overwrite_table"}
        return Write(verb, tuple(rows), tuple(columns.items()), policy, by_sql and self.chance.random() < 2 * _BY_SQL)

    def _other_types(self, columns: Columns) -> Columns:
        """Return a column with a type that a batch may bring it with: a wider or a narrower one."""
        others = {
            name: [each for each in (*WIDER.get(kind, ()), *_narrower(kind)) if each in _NUMBERS or each == pa.string()]
            for name, kind in columns.items()
            if name not in _FIXED and name not in self.indexed and (kind in _NUMBERS or kind == pa.string())
        }
        name = self.chance.choice([name for name, found in others.items() if found] or [""])
        return {name: self.chance.choice(others[name])} if name else {}

    def _keys(self, state: State, known: float, *, fresh: bool = False, unique: bool = False) -> list[tuple[int, Any]]:
        """Return numbers of keys with partition values; `fresh` ones are not there, but for a share of `known`."""
        there = {self.model.key(each.values): each for each in state.records}
        places = {(each.folder, self.model.key(each.values)) for each in state.records}
        found: list[tuple[int, Any]] = []
        for _ in range(self.chance.randint(1, 5)):
            number = self.chance.randrange(_KEYS)
            place = self.chance.choice(self.good) if self.good else self.chance.choice(["nyc", "rome", None])
            if there and self.chance.random() < known:
                old = self.chance.choice(list(there.values()))
                number = old.values["num"]
                if self.chance.random() < 0.85:
                    place = old.values["p"]
            elif fresh:
                folder, key = self.setup.folder(place), self._key(number)
                if (folder, key) in places or (self.setup.is_global and key in there):
                    continue
            found.append((number, place))
        if unique or fresh:
            found = list(dict(reversed(found)).items())
        return found

    def _key(self, number: int) -> tuple[Any, ...]:
        return self.model.key({"id": f"k{number}", "num": number})

    def _row(self, columns: Columns, number: int, place: Any) -> Values:
        own = {"id": f"k{number}", "num": number, "p": place}
        nulls = 0.15 if self.setup.event else 0.4
        own["ts"] = None if self.chance.random() < nulls else self.chance.randint(1, 20)
        return {name: own[name] if name in own else random_value(self.chance, kind) for name, kind in columns.items()}

    def _predicate(self, state: State, *, by_sql: bool) -> Any:
        columns = dict(state.columns)
        if self.setup.is_global and not self.setup.moves:
            columns.pop("p")
        return random_predicate(
            self.chance, columns, [each.values for each in state.records], self.setup.zone if by_sql else ""
        )

    def _delete_where(self, state: State) -> Operation | None:
        by_sql = self.chance.random() < _BY_SQL
        return DeleteWhere(self._predicate(state, by_sql=by_sql), by_sql)

    def _update(self, state: State) -> Operation | None:
        names = [name for name, kind in state.columns.items() if name not in _FIXED and not is_nested(kind)]
        sets: list[tuple[str, str, Any]] = []
        for name in self.chance.sample(names, min(len(names), self.chance.randint(1, 2))):
            kind = state.columns[name]
            if pa.types.is_integer(kind) and self.chance.random() < 0.4:
                sets.append((name, "plus", None))
            elif same := [each for each, other in state.columns.items() if other == kind and each not in {name, "p"}]:
                sets.append((name, "column", self.chance.choice(same)))
            else:
                sets.append((name, "value", random_value(self.chance, kind)))
        if self.setup.event and self.chance.random() < 0.3:
            sets.append(("ts", "value", self.chance.randint(1, 20)))
        if not sets:
            return None
        by_sql = self.chance.random() < _BY_SQL
        return Update(tuple(sets), self._predicate(state, by_sql=by_sql), by_sql, self.setup.zone if by_sql else "")

    def _merge(self, state: State) -> Operation | None:
        columns = dict(state.columns)
        if self.setup.is_global and self.setup.names:
            keys = [(each.values["num"], each.values["p"]) for each in state.records]
            keys = self.chance.sample(keys, min(3, len(keys)))
            there = {number for number, _ in keys} | {each.values["num"] for each in state.records}
            new = [number for number in range(_KEYS) if number not in there]
            place = self.chance.choice(self.good)
            if new:
                keys.append((new[0], place))
            if not self.setup.moves:
                return None
        else:
            keys = self._keys(state, known=0.6, unique=True)
        keys = [(n, p) for n, p in keys if p is not None or not self.setup.names]
        if self.setup.names:
            folders = {self.setup.folder(p) for p in (*(r.values["p"] for r in state.records), *(p for _, p in keys))}
            values = {*(r.values["p"] for r in state.records), *(p for _, p in keys)}
            if len(folders) < len(values):
                return None  # null and empty share a folder, not a value
        rows = [self._row(columns, number, place) for number, place in keys]
        if not rows:
            return None
        matched: Any = self.chance.choice([None, "delete", "update", "update", "update"])
        if matched == "delete":
            rows = [{**row, "ts": 99} for row in rows]
        elif matched:
            names = [name for name in columns if name not in {"id", "num", "p"}]
            matched = tuple(self.chance.sample(names, min(3, len(names))))
        beside: Any = self.chance.choice([None, None, None, "delete", "update"])
        if beside == "update":
            plain_names = [n for n, kind in columns.items() if n not in _FIXED and not is_nested(kind)]
            if not plain_names:
                return None
            name = self.chance.choice(plain_names)
            beside = (name, random_value(self.chance, columns[name]))
        inserts = self.chance.random() < 0.6
        if not (matched or beside or inserts):
            return None
        by_sql = self.chance.random() < 2 * _BY_SQL
        if by_sql and self.setup.event and isinstance(matched, tuple):
            matched = tuple(dict.fromkeys((*matched, "ts")))  # a statement sets the ordering field
        condition = self._predicate(state, by_sql=by_sql) if matched and self.chance.random() < 0.4 else None
        where = self._predicate(state, by_sql=by_sql) if beside else None
        on = (*self.setup.key, *(["p"] if self.setup.names else []))
        zone = self.setup.zone if by_sql else ""
        return Merge(tuple(rows), tuple(columns.items()), matched, condition, inserts, beside, where, on, by_sql, zone)

    def _delete_partitions(self, state: State) -> Operation | None:
        folders = sorted({each.folder for each in state.records})
        if not self.setup.names or not folders:
            return None
        return DeletePartitions((self.chance.choice(folders),))

    def _new_type(self) -> pa.DataType:
        return self.chance.choice(NEW_TYPES)

    def _alter(self, state: State) -> Operation | None:
        if not self.setup.columns_change:
            return None
        by_sql = self.chance.random() < _BY_SQL
        free = [name for name in state.columns if name not in _FIXED]
        structs = [n for n in free if pa.types.is_struct(state.columns[n])]
        unused = [name for name in _NEW_NAMES if name not in state.columns]
        verbs = ["add_column", "add_column", "move_column", "change_type"]
        verbs += ["rename_column", "rename_column", "drop_column"]
        verb = self.chance.choice(verbs)
        name = self.chance.choice(free) if free else None
        indexed = name in self.indexed
        if structs and self.chance.random() < 0.25:
            given = self._nested_change(state.columns, self.chance.choice(structs))
            return Alter(verb, given[verb], by_sql=by_sql) if verb in given else None
        if verb == "add_column" and unused:
            after = self.chance.choice([None, *state.columns])
            return Alter(verb, (self.chance.choice(unused), self._new_type(), after), by_sql=by_sql)
        if name is None:
            return None
        if verb == "move_column":
            return Alter(verb, (name, self.chance.choice(list(state.columns))), by_sql=by_sql)
        if verb == "rename_column" and unused:
            return Alter(verb, (name, self.chance.choice(unused)), indexed, by_sql)
        if verb == "drop_column":
            return Alter(verb, (name,), indexed, by_sql)
        wider = WIDER.get(state.columns[name], ())
        if verb == "change_type" and wider:
            return Alter(verb, (name, self.chance.choice(wider)), indexed, by_sql)
        return None

    def _nested_change(self, columns: Columns, name: str) -> dict[str, tuple[Any, ...]]:
        """Return arguments of changes of a field within a struct, by verb."""
        kind = columns[name]
        inner = [field.name for field in kind if pa.types.is_struct(field.type)]
        if inner and self.chance.random() < 0.5:
            name, kind = f"{name}.{inner[0]}", kind.field(inner[0]).type
        fields = [field.name for field in kind]
        new = self.chance.choice([n for n in ("x", "y", "z", "w") if n not in fields] or ["v"])
        path = f"{name}.{self.chance.choice(fields)}"
        return {
            "add_column": (f"{name}.{new}", self.chance.choice([pa.int32(), pa.string(), TIME]), None),
            "rename_column": (path, new),
            "drop_column": (path,),
        }

    def _service(self, state: State) -> Operation | None:
        names = ["clean", "maintain", "archive", *["archive"] * bool(self.quiet)]
        if self.setup.kind == "mor":
            names += ["compact", "compact", "log_compaction"]
        if self.setup.clusters:
            names += ["cluster", "cluster"]
        name = self.chance.choice(names)
        if name == "log_compaction":
            if self.setup.version == 6:
                return None
            return Service(
                "compact", (("log_compaction", True), ("options", {"hoodie.log.compaction.blocks.threshold": "1"}))
            )
        if name == "cluster" and self.chance.random() < 0.5:
            return Service("cluster", (("order_by", "num"),))
        return Service(name)

    def _back(self, state: State) -> Operation | None:
        return Back(
            self.chance.choice(["savepoint", "delete_savepoint", "rollback", "restore"]), self.chance.randint(0, 3)
        )

    def _upgrade(self, state: State) -> Operation | None:
        return Upgrade(self.chance.choice([6, 8, 9]))

    def _index(self, state: State) -> Operation | None:
        kinds = ["column_stats", "record_index", "bloom_filters", "secondary_index", "secondary_index"]
        kind = self.chance.choice([*kinds, "expression", "expression", "drop", "drop"])
        if kind == "drop":
            return Index("drop_index", (self.chance.choice(self.made),))
        if kind not in {"secondary_index", "expression"}:
            return Index("create_index", (kind,))
        plain_names = [n for n, t in state.columns.items() if n not in _FIXED and not is_nested(t)]
        if not plain_names:
            return None
        name = self.chance.choice(plain_names)
        if kind == "secondary_index":
            self.indexed.add(name)
            self.made.append(f"secondary_index_{name}")
            return Index("create_index", (kind, name))
        functions = functions_of(state.columns[name])
        if not functions:
            return None
        self.indexed.add(name)
        function = self.chance.choice(functions)
        self.made.append(f"expr_index_{name}_{function}")
        kind = self.chance.choice(["column_stats", "column_stats", "bloom_filters"])
        return Index("create_index", (kind, name, f"{name}_{function}", function))

    def _reopen(self, state: State) -> Operation | None:
        return Reopen()
