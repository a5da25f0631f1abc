"""Whether what several processes did and saw fits one serial order that respects real time: strict serialisability.

Operations are transactions of one step each: an append adds a value, which no other one adds, to the lists of some
keys; a read returns the lists. The order of appends to a key follows from the longest list that anybody read, so the
orders of all operations are edges of a graph, as is real time: what ended before something else began comes before it.
A history is strictly serialisable if that graph has no cycle, and lists hold nothing else than what was appended.

After Elle (Kingsbury and Alvaro 2020), for lists and single operations. It asks nobody in which order commits
completed, so it judges real processes as well as simulated ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

Value = int | str
Outcome = Literal["done", "not done", "unknown"]


class Step(NamedTuple):
    """One operation of a history.

    Attributes:
        process: whose it is.
        began: when it was called, by a clock that all processes share.
        ended: when it returned.
        appended: the value that it added to each key; empty for a read.
        seen: the lists that a read returned, by key; keys that it looked for and didn't find have empty ones.
        outcome: whether it was done, as its process knows. A read that failed is left out of the history.
    """

    process: str
    began: float
    ended: float
    appended: Mapping[str, Value] = {}
    seen: Mapping[str, Sequence[Value]] = {}
    outcome: Outcome = "done"

    def __str__(self) -> str:
        what = f"append {dict(self.appended)}" if self.appended else f"read {_lists(self.seen)}"
        return f"{self.process} at {self.began:g}-{self.ended:g}: {what}"


def contradictions(history: Sequence[Step]) -> list[str]:
    """Return why a history isn't strictly serialisable; nothing if it is."""
    return _Checker(history).found()


@dataclass(slots=True)
class _Checker:
    history: Sequence[Step]
    problems: list[str] = field(default_factory=list)
    writers: dict[tuple[str, Value], int] = field(default_factory=dict)
    orders: dict[str, Sequence[Value]] = field(default_factory=dict)
    edges: dict[int, dict[int, str]] = field(default_factory=dict)

    def found(self) -> list[str]:
        self._find_writers()
        self._find_orders()
        if not self.problems:
            self._link_values()
            self._link_times()
            self._find_cycle()
        return self.problems

    @property
    def _reads(self) -> Iterator[tuple[int, Step]]:
        return ((number, step) for number, step in enumerate(self.history) if not step.appended)

    def _find_writers(self) -> None:
        for number, step in enumerate(self.history):
            for key, value in step.appended.items():
                if (key, value) in self.writers:
                    self.problems.append(f"{step}: the value is not unique, so the history can't be judged")
                self.writers[key, value] = number

    def _find_orders(self) -> None:
        for _, step in self._reads:
            for key, values in step.seen.items():
                known = self.orders.get(key, ())
                longer, shorter = (values, known) if len(values) > len(known) else (known, values)
                if list(longer[: len(shorter)]) != list(shorter):
                    self.problems.append(
                        f"{step}: {key} was {list(known)} for another reader, and neither begins the other"
                    )
                self.orders[key] = longer
                self._check_values(step, key, values)

    def _check_values(self, step: Step, key: str, values: Sequence[Value]) -> None:
        if len(set(values)) < len(values):
            self.problems.append(f"{step}: {key} has a value twice")
        for value in values:
            writer = self.writers.get((key, value))
            if writer is None:
                self.problems.append(f"{step}: nobody appended {value!r} to {key}")
            elif self.history[writer].outcome == "not done":
                self.problems.append(f"{step}: it saw {value!r} of {key}, whose writer was told that it wasn't done")

    def _link_values(self) -> None:
        for key, values in self.orders.items():
            for before, after in pairwise(values):
                self._link(self.writers[key, before], self.writers[key, after], f"{key}: {before!r} before {after!r}")
        last = {key: values[-1] for key, values in self.orders.items() if values}
        never = {
            place: number
            for place, number in self.writers.items()
            if self.history[number].outcome == "done" and place[1] not in self.orders.get(place[0], ())
        }
        for (key, value), number in never.items():  # it comes after all that were seen
            if key in last:
                self._link(self.writers[key, last[key]], number, f"{key}: {last[key]!r} before {value!r}")
        for number, step in self._reads:
            for key, values in step.seen.items():
                self._link_read(number, key, values, [n for (k, _), n in never.items() if k == key])

    def _link_read(self, number: int, key: str, values: Sequence[Value], never: Collection[int]) -> None:
        order = self.orders.get(key, ())
        if values:
            self._link(self.writers[key, values[-1]], number, f"it saw {values[-1]!r} of {key}")
        if len(values) < len(order):
            missed = order[len(values)]
            self._link(number, self.writers[key, missed], f"it didn't see {missed!r} of {key}")
        for each in never:
            self._link(number, each, f"nobody saw what it appended to {key}")

    def _link_times(self) -> None:
        """Chain the ends of operations by one node each: an operation comes after all that ended before it began."""
        ends = sorted((step.ended, number) for number, step in enumerate(self.history) if step.outcome == "done")
        count = len(self.history)
        for place, (_, number) in enumerate(ends):
            self._link(number, count + place, "ended")
            if place:
                self._link(count + place - 1, count + place, "then")
        begins = sorted((step.began, number) for number, step in enumerate(self.history))
        place = 0
        for began, number in begins:
            while place < len(ends) and ends[place][0] < began:
                place += 1
            if place:
                self._link(count + place - 1, number, "before it began")

    def _link(self, before: int, after: int, why: str) -> None:
        if before != after:
            self.edges.setdefault(before, {}).setdefault(after, why)

    def _find_cycle(self) -> None:
        state: dict[int, int] = {}
        for start in list(self.edges):
            if start in state:
                continue
            path, waiting = [start], [iter(self.edges.get(start, {}))]
            state[start] = 1
            while waiting:
                after = next(waiting[-1], None)
                if after is None:
                    state[path.pop()] = 2
                    waiting.pop()
                elif state.get(after) == 1:
                    self.problems.append(self._told(path[path.index(after) :]))
                    return
                elif after not in state:
                    state[after] = 1
                    path.append(after)
                    waiting.append(iter(self.edges.get(after, {})))

    def _told(self, cycle: Sequence[int]) -> str:
        lines = ["no serial order:"]
        for before, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            if before < len(self.history):
                lines.append(f"  {self.history[before]}")
                if after < len(self.history):
                    lines.append(f"    comes before the next one: {self.edges[before][after]}")
                else:
                    lines.append("    ended before the next one began")
        return "\n".join(lines)


def _lists(seen: Mapping[str, Sequence[Value]]) -> str:
    return "{" + ", ".join(f"{key}: {list(values)}" for key, values in sorted(seen.items())) + "}"
