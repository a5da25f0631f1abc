"""Plays a history on a table and on the model, and compares them after each step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import pudi
from pudi.format import Action
from support.histories.generate import Generator
from support.histories.model import Model, Record, State, UnplayableError
from support.histories.operations import Back, Operation, Reopen, Upgrade
from support.histories.place import Memory, Place
from support.histories.predicates import random_predicate
from support.histories.setups import FIRST_COLUMNS, Setup
from support.histories.values import arrow, type_text
from support.rows import Row, assert_same, plain

STEPS = 25

_PREAMBLE = """\
import datetime, pudi, pyarrow as pa
path = 'memory://story'
def newest(t): return max(t.timeline.commits, key=t.timeline.done).requested
def back(found, number): return sorted(found)[-1 - number % len(found)]
def instants(t): return [each.requested for each in t.timeline.commits]
def saved(t): return [each.instant for each in t.savepoints()]\
"""
"""Begins a story: what its lines refer to."""


class DifferenceError(AssertionError):
    """The table is not what the model is."""


@dataclass(frozen=True)
class Commit:
    """A commit, with the state that it left."""

    instant: str
    completion: str
    state: State


@dataclass
class Played:
    """What a history came to.

    Attributes:
        operations: its steps.
        undone: places of those that did nothing, since pudi refused them.
        problem: the first difference; empty if there was none.
        refused: refusals by what was refused and why.
    """

    setup: Setup
    operations: list[Operation] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    problem: str = ""
    refused: Counter[str] = field(default_factory=Counter)

    def story(self) -> str:
        """Return the history as Python that can be pasted."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.setup.create_arguments.items())
        schema = ", ".join(f"({name!r}, {type_text(kind)})" for name, kind in FIRST_COLUMNS.items())
        lines = [
            f"# seed {self.setup.seed}: {self.setup}",
            _PREAMBLE,
            f"options = {self.setup.verb_options!r}",
            f"pudi.create(path, pa.schema([{schema}]), {arguments})",
            "t = pudi.Table(path, options)",
            *("# " * (at in self.undone) + each.line() for at, each in enumerate(self.operations)),
            *(f"# {line}" for line in self.problem.splitlines()),
        ]
        return "\n".join(lines)


class Player:
    """One table beside its model."""

    def __init__(self, setup: Setup, place: Place) -> None:
        self.setup, self.place = setup, place
        self.model = Model(setup)
        self.options = setup.verb_options
        self.state = State(dict(FIRST_COLUMNS))
        self.history: list[Commit] = []
        self.known: set[str] = set()
        self.saved: set[str] = set()
        self.lossy = self.copied = False
        self.refused: Counter[str] = Counter()
        self.floor = self.cleaned = ""
        self.version = setup.version

    @property
    def table(self) -> pudi.Table:
        """The table."""
        return self.place.table

    def step(self, operation: Operation) -> bool:
        """Do it in both, and compare what the newest state is; return whether pudi did it."""
        self.place.wait()
        if isinstance(operation, Reopen):
            self.place.open(self.options)
            return True
        before, done = self.state, False
        try:
            self.model_after(operation, "?")
            expects_error = False
        except pudi.PudiError:
            expects_error = True
        try:
            result = self._do(operation)
        except pudi.PudiError as error:
            allowed = expects_error or (isinstance(error, operation.refusals) and not self._must_work(operation))
            if not allowed or (isinstance(error, pudi.SchemaError) and pudi.SchemaError not in operation.refusals):
                raise DifferenceError(f"{type(error).__name__}: {error}") from error
            why = getattr(error, "message", str(error))[:70]
            self.refused[f"{operation.line().partition('(')[0]}: {type(error).__name__}: {why}"] += 1
        else:
            if expects_error:
                raise DifferenceError("no error, though no table takes such a partition")
            done = not isinstance(operation, Back) or result is not None
            if not isinstance(operation, Back):
                self._follow(operation, result, before)
            elif operation.verb == "savepoint":
                self.saved = {each.instant for each in self.table.savepoints()}
        keys = {self.model.key(each.values) for each in self.state.records}
        self.copied = self.copied or len(keys) < len(self.state.records)
        self._look_at_cleans()
        self.compare_newest()
        if self.history:
            last = self.history[-1]
            self.history[-1] = replace(last, state=self.state)
        return done

    def model_after(self, operation: Operation, commit: str) -> State:
        """Return what the model says of an operation."""
        return operation.after(self.model, self.state, commit)

    def _do(self, operation: Operation) -> Any:
        if not isinstance(operation, Back):
            return operation.run(self.place)
        saved = sorted(self.saved)
        if operation.verb == "delete_savepoint":
            if saved:
                self.table.delete_savepoint(saved[-1 - operation.back % len(saved)])
                self.saved = {each.instant for each in self.table.savepoints()}
            return True if saved else None
        commits = self.table.timeline.commits
        if not commits:
            return None
        if operation.verb == "rollback":
            newest = max(commits, key=self.table.timeline.done).requested
            self.table.rollback(newest)
            self._go_back([each for each in self.history if each.instant != newest])
            return True
        places = {each.instant: number for number, each in enumerate(self.history)}
        instants = sorted(each.requested for each in commits if each.requested in places)
        if not instants:
            return None
        instant = instants[-1 - operation.back % len(instants)]
        if operation.verb == "savepoint":
            return self.table.savepoint(instant)
        self.table.restore(instant)
        self._go_back(self.history[: places[instant] + 1])
        return True

    def _go_back(self, history: list[Commit]) -> None:
        self.known -= {each.instant for each in self.history[len(history) :]}
        newest = self.state
        self.history = history
        self.state = history[-1].state if history else replace(State(dict(FIRST_COLUMNS)))
        if self.model.setup.kind == "mor":
            deleted = {**self.state.deleted, **newest.deleted}
            self.state = replace(self.state, deleted=dict.fromkeys(deleted))

    def _must_work(self, operation: Operation) -> bool:
        """Return whether nothing can stand in the way of what may be refused elsewhere."""
        cleaned = bool(self.table.timeline.of(Action.CLEAN)) or self.lossy
        return isinstance(operation, Back) and not cleaned and not self.saved

    def _follow(self, operation: Operation, result: Any, before: State) -> None:
        instant = getattr(result, "instant", None)
        failed = getattr(result, "failed_services", ())
        if failed:
            raise DifferenceError(f"services failed: {failed}")
        if getattr(result, "ok", True) is False:
            raise DifferenceError(f"not ok: {result}")
        if isinstance(operation, Upgrade):
            self._upgraded()
        timeline = self.table.timeline
        new = sorted((c for c in timeline.commits if c.requested not in self.known), key=lambda c: c.requested)
        if instant is None:
            expected = self.model_after(operation, "none")
            if self._is_sql(operation):
                instant = new[0].requested if new else None
            elif _rows(expected, before) != _rows(before, before):
                raise DifferenceError("the verb found nothing to do")
        if instant is not None:
            self.state = self.model_after(operation, instant)
        for each in new:
            self.known.add(each.requested)
            state = before if instant is not None and each.requested < instant else self.state
            self.history.append(Commit(each.requested, each.completion or each.requested, state))

    def _is_sql(self, operation: Operation) -> bool:
        return getattr(operation, "by_sql", False)

    def _upgraded(self) -> None:
        self._fitting()
        self.place.open(self.options)
        if self.table.config.version != self.version:
            self.version, self.lossy = self.table.config.version, True
            self.floor = max((each.requested for each in self.table.timeline.commits), default="")

    def _fitting(self) -> dict[str, str]:
        """Return the options without an index that the table has no more."""
        if "RECORD_LEVEL_INDEX" in self.options.values():
            names = ("hoodie.index.type", "hoodie.metadata.record.level.index.enable")
            self.options = {key: value for key, value in self.options.items() if key not in names}
        return self.options

    def compare_newest(self) -> None:
        """Compare all columns of all rows; settle what the model can't know."""
        names, rows = self._read("scan()", self.table.scan())
        names = [name for name in names if not name.startswith("_hoodie_")]
        if names != list(self.state.columns):
            raise DifferenceError(f"columns {names}, expected {list(self.state.columns)}")
        if self.state.unsure:
            there = {(row["_hoodie_partition_path"], row["_hoodie_record_key"]) for row in rows}
            settled = [found for each in self.state.records for found in self._settled(each, there)]
            self.state = replace(self.state, records=tuple(settled), unsure={})
        self._same(rows, self.expected(self.state), "scan()")

    def _settled(self, record: Record, there: set[Any]) -> list[Record]:
        """Return a record as the table has it, if it may have it so."""
        doubt = self.state.unsure.get(self.model.place(record))
        key = self.model.key_text(record.values)
        if doubt is None or (record.folder, key) in there:
            return [record]
        found = [replace(record, folder=folder) for folder in doubt.folders if (folder, key) in there]
        return found[:1] or ([] if doubt.may_lack else [record])

    def expected(self, state: State, chosen: Callable[[Record], Any] = lambda _: True) -> list[Row]:
        """Return the rows of a state, meta fields too."""
        return [
            {
                "_hoodie_commit_time": each.commit,
                "_hoodie_record_key": self.model.key_text(each.values),
                "_hoodie_partition_path": each.folder,
                **plain(each.values),
            }
            for each in state.records
            if chosen(each)
        ]

    def _same(self, actual: list[Row], expected: list[Row], about: str) -> None:
        try:
            assert_same(actual, expected, ("_hoodie_commit_seqno", "_hoodie_file_name"), about)
        except AssertionError as error:
            raise DifferenceError(str(error)) from None

    def _read(self, about: str, scan: Any) -> tuple[list[str], list[Row]]:
        try:
            return self.place.read(scan)
        except pudi.NotFoundError:
            raise
        except Exception as error:
            raise DifferenceError(f"{about}: {type(error).__name__}: {error}") from error

    def compare_filtered(self, chance: random.Random) -> None:
        """Compare a scan by a random predicate."""
        where = random_predicate(chance, self.state.columns, [each.values for each in self.state.records])
        if self.setup.moves or not self.setup.is_global or "p" not in where.columns():
            about = f"scan(where={where.sql()!r})"
            rows = self._read(about, self.table.scan(where=where.sql()))[1]
            self._same(rows, self.expected(self.state, lambda r: where.of(r.values)), about)

    def compare_sql(self, chance: random.Random) -> None:
        """Compare a query by a random predicate."""
        rows = [each.values for each in self.state.records]
        where = random_predicate(chance, self.state.columns, rows, self.setup.zone)
        if self.setup.moves or not self.setup.is_global or "p" not in where.columns():
            text = f"SELECT * FROM t WHERE {where.sql()}"
            expected = self.expected(self.state, lambda r: where.of(r.values))
            self._same(self.place.query(text), expected, text)

    def compare_columns(self, chance: random.Random) -> None:
        """Compare a scan of some columns."""
        names = chance.sample(list(self.state.columns), 2)
        rows = self._read(f"scan({names})", self.table.scan(names))[1]
        expected = [{name: plain(each.values[name]) for name in names} for each in self.state.records]
        self._same(rows, expected, f"scan({names})")

    def compare_keys(self, chance: random.Random) -> None:
        """Compare a join with some keys."""
        records = chance.sample(self.state.records, min(2, len(self.state.records)))
        values = [{name: each.values[name] for name in self.setup.key} for each in records]
        about = f"scan(keys={values})"
        side = self.place.frame(arrow(values, {name: self.state.columns[name] for name in self.setup.key}))
        keys = {self.model.key(each.values) for each in records}
        same = self.expected(self.state, lambda r: self.model.key(r.values) in keys)
        self._same(self._read(about, self.table.scan(keys=side))[1], same, about)

    def compare_past(self, chance: random.Random) -> None:
        """Compare an earlier state."""
        commit = chance.choice(self.history)
        about = f"scan(as_of={commit.instant!r}), {len(self.history) - 1 - self.history.index(commit)} commits back"
        if commit.instant > self.floor or commit is self.history[-1]:
            self._past(commit, about)

    def compare_changes(self, chance: random.Random) -> None:
        """Compare what changed since a commit."""
        commit = chance.choice(self.history)
        later = {each.instant for each in self.history if each.completion > commit.completion}
        about = f"changes({commit.completion!r})"
        if commit.instant <= self.floor:
            return
        try:
            rows = self._read(about, self.table.changes(commit.completion))[1]
        except pudi.NotFoundError as error:
            if not self._may_be_gone(commit):
                raise DifferenceError(f"{about}: {error}") from error
            return
        expected = self.expected(self.state, lambda r: r.commit in later)
        # Which version was there before doesn't count, and copies of a key in one file group share a log record.
        if (self.setup.event or self.copied) and self.setup.kind == "mor":
            there = [str(row["_hoodie_record_key"]) for row in rows]
            missing = [row for row in expected if row["_hoodie_record_key"] not in there]
            if missing:
                raise DifferenceError(f"{about}: {missing} missing")
            return
        self._same(rows, expected, about)

    def _past(self, commit: Commit, about: str) -> None:
        try:
            names, rows = self._read(about, self.table.scan(as_of=commit.instant))
        except pudi.NotFoundError as error:
            if not self._may_be_gone(commit):
                raise DifferenceError(f"{about}: {error}") from error
            return
        names = [name for name in names if not name.startswith("_hoodie_")]
        if names != list(commit.state.columns):
            raise DifferenceError(f"{about}: columns {names}, expected {list(commit.state.columns)}")
        self._same(rows, self.expected(commit.state), about)

    def _may_be_gone(self, commit: Commit) -> bool:
        return commit.instant not in self.saved and commit.instant < self.cleaned

    def _look_at_cleans(self) -> None:
        """Remember how far cleans went: archiving takes them from the timeline."""
        for each in self.table.timeline.of(Action.CLEAN):
            # A clean by file versions retains no commit as a whole.
            earliest = self.table._meta.store.decoded(each)["earliestCommitToRetain"] or each.requested
            self.cleaned = max(self.cleaned, earliest)

    def check(self) -> None:
        """Have the table compare itself with its files."""
        found = self.table.check()
        if not found.ok and not (self.copied and all(_is_of_copies(each) for each in found.differences)):
            raise DifferenceError(f"check: {found}")


def _is_of_copies(difference: Any) -> bool:
    text = str(difference)
    return "more than once" in text or text.startswith("record_index")


def _rows(state: State, before: State) -> list[Any]:
    """Return the records, by the columns of the state before: without records to write, nothing adds a column."""
    return [(each.folder, {name: each.values[name] for name in before.columns}) for each in state.records]


def play(
    setup: Setup,
    operations: Sequence[Operation] | None = None,
    steps: int = STEPS,
    place: Callable[[Setup, pa.Schema], Place] = Memory,
) -> Played:
    """Play a history: the seed's own, or given steps of it.

    Args:
        setup: the table's.
        operations: the steps; None for the seed's.
        steps: their number.
        place: makes the table.
    """
    played = Played(setup)
    try:
        player = Player(setup, place(setup, pa.schema(list(FIRST_COLUMNS.items()))))
        generator = Generator(setup, player.model, random.Random(f"steps {setup.seed}"))
        for number in range(steps if operations is None else len(operations)):
            if operations is None:
                operation = generator.next(player.state, first=not player.history)
            else:
                operation = operations[number]
            played.operations.append(operation)
            try:
                if not player.step(operation):
                    played.undone.add(len(played.operations) - 1)
                look(player, random.Random(f"look {setup.seed} {len(played.operations)}"))
            except UnplayableError:
                if operations is None:
                    played.operations.pop()
                    continue
                raise
        player.check()
        played.refused = player.refused
    except DifferenceError as error:
        played.problem = str(error) or "?"
    except UnplayableError:
        raise
    except Exception as error:  # noqa: BLE001 - any other error is a difference
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        played.problem = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
    return played


def look(player: Player, chance: random.Random) -> None:
    """Compare more than the newest state, each time in another way."""
    ways = [player.compare_filtered] * 4 + [player.compare_columns, player.compare_sql] + [player.compare_keys] * 2
    if player.history:
        ways += [player.compare_past] * 2 + [player.compare_changes]
    chance.choice(ways)(chance)
    if chance.random() < 1 / STEPS:
        player.check()
