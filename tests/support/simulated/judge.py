"""The judge of a run: a model of the table's states, one after each commit, in the order in which they appeared.

Everything that a process was told, and everything that it saw, must fit one serial order, that in which the completed
files of commits appeared in the storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product

from pudi.errors import ConflictError, CorruptError, NotFoundError, PudiError, UnavailableError
from pudi.format import Action, InstantFile, decode_commit_metadata, parse_instant_file
from pudi.format import State as InstantState
from pudi.testing import SimulatedCrash
from support.simulated.histories import Outcome, Step, contradictions
from support.simulated.run import Done, Played
from support.simulated.work import BASE, FIRST_KEYS, Operation, Row, State, new_key
from support.simulated.world import Note

_LONG_MS = 30_000.0
"""A call that takes half as long as a writer waits for the lock, or longer."""
_SERVICES = {"COMPACT", "CLUSTER", "LOG_COMPACT"}
_WRITES = {Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT}


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write, as it appeared.

    Attributes:
        note: the call that made it visible.
        requested: its requested time.
        completion: its completion time; None below version 8.
        after: the state after it; several where it may not have found keys that came while it was at work. Such a write
            comes before those that brought them, in the serial order that explains the run.
        missed: by non-blocking concurrency control, keys that were not there at some moment while it was at work.
    """

    note: Note
    requested: str
    completion: str | None
    operation: Operation
    after: list[State]
    missed: frozenset[str] = frozenset()


def anomalies(played: Played) -> list[str]:
    """What no serial order of the operations explains; the first of them first."""
    return [text for _, text in sorted(_Judge(played).found())]


class _Judge:
    def __init__(self, played: Played) -> None:
        self.played = played
        self.layout = 1 if played.plan.kind.version == "6" else 2
        self.folder = ".hoodie" if self.layout == 1 else ".hoodie/timeline"
        self.operations = {done.operation.number: done.operation for done in played.done}
        for process in played.plan.processes:
            self.operations |= {each.number: each for each in process.operations}
        self.ordered = played.plan.kind.ordered
        self.commits: list[Commit] = []
        self.problems: list[tuple[int, str]] = []
        self.instants = list(self._read_instants())
        self.last = len(played.notes)

    def found(self) -> list[tuple[int, str]]:
        self._read_commits()
        self._check_times()
        for done in self.played.done:
            self._check_answer(done)
        for done in self.played.done:
            if done.operation.is_read and done.error is None:
                self._check_read(done)
        self._check_settled()
        told = history_of(self.played)
        self.problems += [(self.last, text) for text in contradictions(told)] if told is not None else []
        return self.problems

    def _say(self, at: int, text: str) -> None:
        self.problems.append((at, text))

    def _read_instants(self) -> Iterator[tuple[Note, InstantFile]]:
        """The files of the table's timeline, in the order in which they appeared."""
        for note in self.played.notes:
            if note.kind in {"create", "put"} and note.done and note.path.startswith(".hoodie/"):
                folder, _, name = note.path.rpartition("/")
                file = parse_instant_file(name, self.layout) if folder == self.folder else None
                if file is not None:
                    yield note, file

    def _read_commits(self) -> None:
        states, by_operation = [self.played.first], set()
        began = {done.operation.number: done.began for done in self.played.done}
        for note, file in self.instants:
            if file.state is not InstantState.COMPLETED or file.action not in _WRITES:
                continue
            metadata = decode_commit_metadata(note.data or b"", path=note.path)
            if metadata.operation_type in _SERVICES:
                continue
            operation = self.operations[note.operation]
            if operation.number in by_operation:
                self._say(
                    note.number, f"{operation} was done twice: {file.requested} appeared after another commit of it"
                )
            by_operation.add(operation.number)
            since = began.get(operation.number, 0)
            earlier = [
                s for c in (self._before(since), *(c.after for c in self.commits if c.note.number > since)) for s in c
            ]
            if self.played.plan.kind.is_loose:
                missed = frozenset(k for k in operation.keys if any(k not in each for each in earlier))
                self.commits.append(Commit(note, file.requested, file.completion, operation, [], missed))
                self.commits[-1].after.extend(merged_states(self.played.first, self.commits))
                continue
            states = _after(operation, states, earlier, self.ordered)
            self.commits.append(Commit(note, file.requested, file.completion, operation, states))

    def _before(self, at: int) -> list[State]:
        before = [commit.after for commit in self.commits if commit.note.number <= at]
        return before[-1] if before else [self.played.first]

    def _check_times(self) -> None:
        newest, asked = "", ""
        for note, file in self.instants:
            if file.state is InstantState.INFLIGHT:
                continue
            if file.state is InstantState.REQUESTED:
                if file.requested <= asked:
                    self._say(note.number, f"requested times don't increase: {file.requested} after {asked}")
                if self.layout == 2 and file.requested <= newest:
                    self._say(note.number, f"{file.requested} was requested after {newest} had completed")
                asked = max(asked, file.requested)
            elif file.completion is not None:
                if file.completion <= newest or file.completion <= file.requested:
                    self._say(note.number, f"completion times don't increase: {file.completion} after {newest}")
                newest = max(newest, file.completion)

    def _check_answer(self, done: Done) -> None:
        own = [commit for commit in self.commits if commit.operation.number == done.operation.number]
        error = done.error
        if isinstance(error, SimulatedCrash) or (done.operation.verb == "savepoint" and "already" in str(error)):
            return
        if error is not None and not isinstance(error, PudiError):
            self._say(done.ended, f"{done} is no error of pudi's\n{done.trace}")
        elif isinstance(error, CorruptError):
            self._say(done.ended, f"{done}: nothing was damaged\n{done.trace}")
        elif isinstance(error, NotFoundError) and not self._cleaned(done.ended):
            self._say(done.ended, f"{done}: nothing was deleted\n{done.trace}")
        elif error is not None and not isinstance(error, (ConflictError, NotFoundError, UnavailableError)):
            self._say(done.ended, f"{done}\n{done.trace}")
        elif isinstance(error, UnavailableError) and not self._has_faults() and not self._is_slow():
            self._say(done.ended, f"{done}: the storage answered every time, and soon\n{done.trace}")
        if isinstance(error, ConflictError) and own:
            self._say(done.ended, f"{done}: but commit {own[0].requested} of it is visible")
        if isinstance(error, ConflictError) and "for dead" in str(error) and done.paused_ms < 5_000:
            self._say(done.ended, f"{done}: it had stood still for {done.paused_ms / 1000:.1f} s only")
        if error is None and done.operation.is_write:
            self._check_told(done, own)

    def _check_told(self, done: Done, own: list[Commit]) -> None:
        if done.result is None:
            if own:
                self._say(done.ended, f"{done}: it had nothing to do, but commit {own[0].requested} of it is visible")
            elif not any(done.operation.apply(state, ordered=self.ordered) == state for state in self._states(done)):
                self._say(done.ended, f"{done}: it had nothing to do, which was never so")
        elif not own or own[0].requested != done.result.instant:
            self._say(done.ended, f"{done}: it was done as {done.result.instant}, which is not visible")
        failed = done.result.failed_services if done.result is not None else {}
        bad = [f"{name}: {text}" for name, text in failed.items() if not _is_expected(text, self._has_faults())]
        if bad:
            self._say(done.ended, f"{done}: {bad[0]}")

    def _states(self, done: Done) -> list[State]:
        """The states that the table had while an operation ran."""
        during = [commit.after for commit in self.commits if done.began < commit.note.number <= done.ended]
        return [state for states in (self._before(done.began), *during) for state in states]

    def _check_read(self, done: Done) -> None:
        states = self._states(done)
        if not any(done.operation.sees(state) == done.result for state in states):
            older = any(done.operation.sees(s) == done.result for c in self.commits for s in c.after)
            known = "a state of another time" if older else "no state that the table ever had"
            wanted = _either([done.operation.sees(state) for state in states])
            said = f"{done.process}: {done.operation} saw {_shown(done.result)}: {known}; it was {wanted}"
            self._say(done.ended, said)

    def _check_settled(self) -> None:
        found = self.played.settled
        if found is None:
            return
        if found.error:
            self._say(self.last, f"afterwards: {found.error}")
        ours = [commit for commit in self.commits if commit.note.process != "afterwards"]
        final = ours[-1].after if ours else [self.played.first]
        for number, state in enumerate(found.states):
            wanted = self.commits[-1].after if number == 3 else final
            if state not in wanted:
                self._say(self.last, f"afterwards the table is {_shown(state)}, not {_either(wanted)}")
                break
        lost = [commit.requested for commit in ours if commit.requested not in found.known] if found.known else []
        if lost:
            self._say(self.last, f"afterwards commit {lost[0]} is neither on the timeline nor in the archive")
        for step in found.failed_steps:
            self._say(self.last, f"afterwards: {step}")
        for text in found.differences:
            self._say(self.last, f"afterwards the check finds: {text}")
        for instant, seen in found.times.items():
            wanted = self._as_of(instant)
            if seen not in wanted:
                shown = seen if isinstance(seen, str) else _shown(seen)
                self._say(self.last, f"afterwards the table as of {instant} is {shown}, not {_either(wanted)}")

    def _as_of(self, instant: str) -> list[State]:
        if self.played.plan.kind.is_loose:
            return merged_states(self.played.first, [c for c in self.commits if c.requested <= instant])
        states, known = [self.played.first], [self.played.first]
        for commit in self.commits:
            if commit.requested <= instant:
                states = _after(commit.operation, states, known, self.ordered)
                known += states
        return states

    def _cleaned(self, at: int) -> bool:
        return any(
            note.kind == "create" and note.path.startswith(self.folder) and ".clean" in note.path
            for note in self.played.notes[:at]
        )

    def _has_faults(self) -> bool:
        return any(fate.fault or fate.pauses for fate in self.played.script.met.values())

    def _is_slow(self) -> bool:
        """Whether one call took so long that who waits for the lock may give up, if it isn't free again at once."""
        return any(fate.before_ms + fate.after_ms > _LONG_MS for fate in self.played.script.met.values())


def _is_expected(text: str, faults: bool) -> bool:
    expected = (
        "ConflictError",
        "BlockedError",
        "PlanTakenError",
        "PlanDisplacedError",
        "IndexesChangedError",
        "NotFoundError",
    )
    return text.startswith((*expected, "UnavailableError") if faults else expected)


def _after(operation: Operation, states: list[State], earlier: list[State], ordered: bool) -> list[State]:
    """The states after a commit, from those before it and those that its operation may have looked at."""
    found: list[State] = []
    for state in states:
        came = [k for k in operation.keys if operation.may_miss and k in state and any(k not in e for e in earlier)]
        for missed in chain.from_iterable(combinations(came, count) for count in range(len(came) + 1)):
            after = operation.apply(state, missed, ordered=ordered)
            if after not in found:
                found.append(after)
    return found


def merged_states(first: State, commits: list[Commit]) -> list[State]:
    """The states that readers may see after commits by non-blocking concurrency control, without ordering column.

    Log files are merged by the times at which their commits were requested, above what was compacted before they
    completed. So each record comes by an order in which a commit follows another one if it was both requested and
    completed after it; of two of which one ran within the other's time, either may come first.
    """
    keys = sorted({*first, *FIRST_KEYS, *map(new_key, FIRST_KEYS)})
    choices = [[(key, row) for row in _rows_of(key, first, commits)] for key in keys]
    return [{key: row for key, row in chosen if row is not None} for chosen in product(*choices)]


def _rows_of(key: str, first: State, commits: list[Commit]) -> list[Row | None]:
    own = [c for c in commits if c.operation.concerns(key)]
    before = {id(c): {id(o) for o in own if o is not c and _precedes(o, c)} for c in own}
    found: list[Row | None] = []

    def follow(done: frozenset[int], row: Row | None) -> None:
        if len(done) == len(own) and row not in found:
            found.append(row)
        for commit in own:
            if id(commit) in done or not before[id(commit)] <= done:
                continue
            state = {} if row is None else {key: row}
            follow(done | {id(commit)}, commit.operation.apply(state).get(key))
            if commit.operation.verb == "append" and key in commit.missed:
                follow(done | {id(commit)}, row)

    follow(frozenset(), first.get(key))
    return found


def _precedes(one: Commit, other: Commit) -> bool:
    return one.requested < other.requested and (one.completion or "") < (other.completion or "")


def _either(states: list[State]) -> str:
    return " or ".join(map(_shown, states[:4]))


def _shown(state: State) -> str:
    return "{" + ", ".join(f"{key}: {'·'.join(map(str, history(row[1])))}" for key, row in sorted(state.items())) + "}"


def history(number: int) -> list[int]:
    """The operations that a record's number tells of, the oldest first; 0 is the beginning."""
    digits: list[int] = []
    while number >= BASE:
        number, digit = divmod(number, BASE)
        digits.insert(0, digit)
    return [number, *digits]


def history_of(played: Played) -> list[Step] | None:
    """The run as a history of reads and appends; None where its operations do other things too."""
    writes = [done for done in played.done if done.operation.is_write and done.process != "afterwards"]
    if played.plan.kind.ordered or any(done.operation.verb not in {"update", "append"} for done in writes):
        return None
    steps = []
    for done in played.done:
        span = done.process, float(done.began), float(done.ended)
        if done.operation.is_read and done.error is None:
            lists = {key: history(number) if number else [] for key, (_, number) in done.result.items()}
            steps.append(Step(*span, seen=lists))
        elif done in writes:
            refused = isinstance(done.error, ConflictError)
            outcome: Outcome = "not done" if refused else "done" if done.error is None else "unknown"
            steps.append(
                Step(*span, appended=dict.fromkeys(done.operation.keys, done.operation.number), outcome=outcome)
            )
    return steps
