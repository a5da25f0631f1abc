"""The plan of a whole run by its seed: kind of table, processes with their operations and clocks, what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from support.simulated.script import WEATHERS, Moment, Moments, Script, Weather
from support.simulated.situations import Situation, situation_of
from support.simulated.work import (
    FIRST_KEYS,
    KINDS,
    LAST,
    NONBLOCKING_KINDS,
    NONBLOCKING_WRITES,
    ORDERED_WRITES,
    WRITES,
    Kind,
    Operation,
    Verb,
    new_key,
)


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """What one process does, and its clock."""

    name: str
    operations: tuple[Operation, ...]
    offset_ms: float = 0.0
    drift: float = 0.0
    jumps: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    Attributes:
        seed: what it follows from.
        kind: the kind of table.
        weather: how often things go wrong.
        processes: who does what.
        situation: the rare moment that it leads to; empty for a run that is drawn freely.
        moments: mishaps that make it.
        more_options: options of all processes, besides those of the kind of table.
    """

    seed: int
    kind: Kind
    weather: Weather
    processes: tuple[ProcessPlan, ...]
    situation: str = ""
    moments: tuple[Moment, ...] = ()
    more_options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}; {self.situation}" if self.situation else str(self.kind)

    @property
    def options(self) -> dict[str, str]:
        """The options of all its processes."""
        return self.kind.options | dict(self.more_options)

    @classmethod
    def of(cls, seed: int, kind: Kind | None = None) -> Plan:
        """Return the run that a seed stands for.

        Kinds of tables come round first, then free runs and situations in turns, then kinds of weather or situations.
        """
        chance = random.Random(seed)
        kinds = KINDS if seed >= 0 else NONBLOCKING_KINDS
        kind = kind or kinds[seed % len(kinds)]
        turn = seed // len(kinds)
        numbers = iter(range(1, LAST))
        if turn % 2 and not kind.nonblocking:
            return cls._towards(seed, kind, situation_of(seed + turn // 2, chance, kind), chance, numbers)
        turn = turn if kind.nonblocking else turn // 2
        weather = WEATHERS[turn % len(WEATHERS)] if chance.random() < 0.8 else chance.choice(WEATHERS)
        appends = chance.random() < 0.25
        processes = [
            _writer(f"writer {number}", chance, numbers, kind, appends=appends, count=chance.randint(2, 4))
            for number in range(1, chance.choice((2, 2, 3, 3, 4, 5)) + 1)
        ]
        processes += _others(chance, numbers, kind)
        return cls(seed, kind, weather, tuple(p for p in processes if p.operations))

    @classmethod
    def _towards(cls, seed: int, kind: Kind, found: Situation, chance: random.Random, numbers: Iterator[int]) -> Plan:
        """Return a run that leads to a situation."""
        processes = []
        for number, does in enumerate(found.writers, 1):
            operations = tuple(Operation(next(numbers), cast(Verb, verb), keys, wait) for verb, keys, wait in does)
            processes.append(ProcessPlan(f"writer {number}", operations, **_clock(chance)))
        processes += _others(chance, numbers, kind)
        return cls(seed, kind, found.weather, tuple(processes), found.name, found.moments, found.options)

    def script(self) -> Script:
        """Return the fates of its calls."""
        return Script(self.seed, self.weather, Moments(self.moments))


def _others(chance: random.Random, numbers: Iterator[int], kind: Kind) -> list[ProcessPlan]:
    """A reader, and who runs services where the writers don't."""
    found = [_reader("reader", chance, numbers)]
    if kind.services == "apart":
        found += [_keeper(f"keeper {number}", chance, numbers, kind) for number in range(1, chance.choice((2, 3)))]
    return found


def _clock(chance: random.Random) -> dict[str, Any]:
    """A clock that is at most 250 ms off, since locks that expire allow for 500 ms between two machines."""
    offset = chance.uniform(-150, 150)
    jumps = ((chance.uniform(0, 3_000), chance.uniform(-100, 100)),) if chance.random() < 0.5 else ()
    return {"offset_ms": offset, "drift": chance.uniform(-1e-6, 1e-6), "jumps": jumps}


def _pause(chance: random.Random) -> float:
    return chance.uniform(0, 400) if chance.random() < 0.9 else chance.uniform(0, 30_000)


def _writer(
    name: str, chance: random.Random, numbers: Iterator[int], kind: Kind, *, appends: bool, count: int
) -> ProcessPlan:
    if kind.nonblocking:
        return _stream(name, chance, numbers, ORDERED_WRITES if kind.ordered else NONBLOCKING_WRITES, count=count)
    done = []
    for number, _ in zip(numbers, range(count), strict=False):
        verb: Verb = chance.choice(("update", "append")) if appends else chance.choice(WRITES)
        keys = tuple(chance.sample(FIRST_KEYS, chance.choice((1, 1, 2, 3))))
        done.append(Operation(number, verb, keys, _pause(chance)))
    return ProcessPlan(name, tuple(done), **_clock(chance))


def _stream(
    name: str, chance: random.Random, numbers: Iterator[int], verbs: tuple[Verb, ...], *, count: int
) -> ProcessPlan:
    """A writer in a hurry, of records that may be new, so that buckets are begun and written at once."""
    done, known = [], (*FIRST_KEYS, *map(new_key, FIRST_KEYS))
    for number, _ in zip(numbers, range(count), strict=False):
        keys = tuple(chance.sample(known, chance.choice((1, 2, 3, 4))))
        done.append(Operation(number, chance.choice(verbs), keys, chance.uniform(0, 150)))
    return ProcessPlan(name, tuple(done), **_clock(chance))


def _reader(name: str, chance: random.Random, numbers: Iterator[int]) -> ProcessPlan:
    done = []
    for number, _ in zip(numbers, range(chance.randint(2, 5)), strict=False):
        keys = tuple(chance.sample(FIRST_KEYS, 3))
        done.append(Operation(number, chance.choice(("read", "read", "find")), keys, chance.uniform(0, 1_500)))
    return ProcessPlan(name, tuple(done), **_clock(chance))


def _keeper(name: str, chance: random.Random, numbers: Iterator[int], kind: Kind) -> ProcessPlan:
    services = ["clean"]
    services += ["clustering"] if kind.index != "bucket" else []
    services += ["compaction"] if kind.table_type == "mor" else []
    done = []
    for number, _ in zip(numbers, range(chance.randint(2, 4)), strict=False):
        verb: Verb = chance.choice(("maintain", "maintain", "run pending", "schedule", "schedule", "savepoint"))
        keys = tuple(chance.sample(services, 1)) if verb == "schedule" else ()
        done.append(Operation(number, verb, keys, chance.uniform(0, 1_200)))
    return ProcessPlan(name, tuple(done), **_clock(chance))
