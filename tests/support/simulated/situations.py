"""Runs that lead to a rare moment: who meets whom and what goes wrong where is chosen, when exactly follows the seed.

Half of the runs are of this kind. The others, whose operations and mishaps are drawn freely, seldom come here: several
processes have to be at certain places at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.simulated.script import CALM, Fate, Fault, Moment, Weather

if TYPE_CHECKING:
    from support.simulated.work import Kind


Does = tuple[str, tuple[str, ...], float]
"""A verb, its keys, and how long its process waits before it."""
_SMALL = {"hoodie.parquet.small.file.limit": "0"}
"""New keys begin file groups, so that only what was read or replaced tells who met whom."""


_DATA = r"(^|\n)[ab]/.*(parquet|log)"
_OLD, _NEW, _BOTH = "old", "new", "both"
_ANY = ("upsert", "upsert", "update", "append", "delete", "delete where", "overwrite", "drop partition")


@dataclass(frozen=True, slots=True)
class Situation:
    """What the processes of a run do, beside a reader and the keepers.

    Attributes:
        name: what comes about.
        writers: for each writer its verbs with keys and waiting times.
        moments: what goes wrong.
        options: options of the table's processes.
        weather: what else may go wrong.
    """

    name: str
    writers: tuple[tuple[Does, ...], ...]
    moments: tuple[Moment, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    weather: Weather = CALM


_MEETINGS = (
    (("upsert", _NEW), ("upsert", _NEW)),
    (("drop partition", _OLD), ("upsert", _NEW)),
    (("update", _BOTH), ("upsert", _NEW)),
    (("append", _OLD), ("update", _OLD)),
    (("overwrite", _OLD), ("upsert", _NEW)),
    (("delete where", _BOTH), ("upsert", _NEW)),
    (("append", _OLD), ("delete where", _OLD)),
    (("upsert", _BOTH), ("drop partition", _OLD)),
)
"""What two writers do with an old key, a new one, or both."""


def _meeting(chance: random.Random, kind: Kind) -> Situation:
    """Two writers bring, change and replace the same records of one partition at once; one of them is slow."""
    del kind
    old, new = chance.choice((("k0", "x0"), ("k2", "x2"), ("k1", "x1"), ("k3", "x3")))
    keys = {_OLD: (old,), _NEW: (new,), _BOTH: (old, new)}
    writers = []
    for verb, what in chance.choice(_MEETINGS):
        more = (
            (chance.choice(_ANY), keys[chance.choice((_OLD, _NEW, _BOTH))], chance.uniform(0, 500)) for _ in range(2)
        )
        writers.append(((verb, keys[what], chance.uniform(0, 40)), *more))
    slow = Moment("writer 1", (r"\.inflight$",), 0, Fate(1.0, chance.uniform(300, 3_000)))
    return Situation("meeting", tuple(writers), (slow,), tuple(_SMALL.items()))


def _slow(chance: random.Random, kind: Kind) -> Situation:
    """One writer's call takes long, while it shows signs of life, and another one commits many times."""
    if kind.version != "6" and chance.random() < 0.4:
        return _outlived(chance)
    shared = chance.choice(("k0", "k1"))
    where = chance.choice((r"\.inflight$", _DATA, r"marker"))
    if kind.index == "record" and chance.random() < 0.7:
        where = r"metadata/record_index/"
    moment = Moment("writer 1", (where,), chance.choice((0, 0, 1, 2, 5)), Fate(1.0, chance.uniform(20_000, 50_000)))
    slow = ((chance.choice(("upsert", "update", "append", "delete")), (shared,), 0.0),)
    others = [("upsert", (shared,), chance.uniform(1_500, 3_000))]
    for _ in range(chance.choice((7, 8, 9))):
        others.append(
            (
                chance.choice(("upsert", "update", "insert")),
                (chance.choice(("k0", "k1", "k5")),),
                chance.uniform(0, 100),
            )
        )
    return Situation("slow", (slow, tuple(others)), (moment,))


def _outlived(chance: random.Random) -> Situation:
    """One writer's call takes so long that the commit which contradicts its write is the oldest one by then.

    All others are to the other partition, and their services would archive it.
    """
    shared, elsewhere = chance.choice((("k0", ("k1", "k3", "k5")), ("k1", ("k0", "k2", "k4"))))
    where = chance.choice((r"\.inflight$", _DATA, r"marker"))
    moment = Moment("writer 1", (where,), chance.choice((0, 0, 1, 2)), Fate(1.0, chance.uniform(60_000, 90_000)))
    slow = ((chance.choice(("upsert", "update", "append", "delete")), (shared,), 0.0),)
    others: list[Does] = [("upsert", (shared,), chance.uniform(1_500, 3_000))]
    for _ in range(2):
        others += [(chance.choice(("upsert", "update")), (chance.choice(elsewhere),), 50.0) for _ in range(4)]
        others.append(("maintain", (), 50.0))
    options = (("hoodie.clustering.inline", "false"),)
    return Situation("outlived", (slow, tuple(others)), (moment,), options)


def _left_for_dead(chance: random.Random, kind: Kind) -> Situation:
    """One writer stands still and is taken for dead; who rolls it back dies over that, or stands still too."""
    del kind
    where = chance.choice((r"\.inflight$", _DATA, r"marker"))
    rolling = chance.choice((r"\.rollback\.requested", r"\.rollback\.requested", r"\.rollback\.inflight"))
    moments = (
        Moment("writer 1", (where,), chance.randint(0, 12), _pause(chance, 13_000, 32_000)),
        Moment("writer 2", (rolling,), chance.choice((0, 0, 1, 3, 6, 10)), _end(chance)),
    )
    waits = (chance.uniform(0, 100), 50.0), (chance.uniform(11_000, 16_000), 50.0, 50.0)
    verbs = ("upsert", "update", "insert", "delete")
    writers = tuple(
        tuple((chance.choice(verbs), (chance.choice(("k0", "k1", "k2", "k5")),), wait) for wait in each)
        for each in waits
    )
    return Situation("left for dead", writers, moments)


def _lost_lock(chance: random.Random, kind: Kind) -> Situation:
    """Who runs a plan loses lease and lock while it writes to the metadata table; another one runs the plan."""
    services = ["clean"]
    services += [r"(compaction|commit)"] * 2 if kind.table_type == "mor" else []
    services += [r"(replacecommit|clustering)"] if kind.index != "bucket" else []
    plan = rf"^\.hoodie/(timeline/)?\d+\.{chance.choice(services)}\.inflight"
    written = chance.choice((r"metadata/.*\.deltacommit\.requested", r"metadata/.*\.deltacommit\.inflight"))
    keep = ("maintain", (), 50.0)
    own = (*_some(chance, (0, 50, 50)), keep, *_some(chance, (50,)), keep)
    if chance.random() < 0.5:
        moments = [Moment("writer 1", (plan, written), chance.randint(0, 5), _pause(chance, 18_000, 45_000))]
        others = [("maintain", (), chance.uniform(15_000, 22_000)), *_some(chance, (500,)), ("maintain", (), 3_000.0)]
        return Situation("lost lock", (own, tuple(others)), tuple(moments))
    # The first run dies; the second one begins by undoing what it left, and loses the lock over that to the third.
    undoing = (r"metadata/\.hoodie/\.heartbeat/",)
    moments = [
        Moment("writer 1", (plan, written), chance.randint(0, 3), Fate(1.0, 0.0, "crash after")),
        Moment("writer 2", undoing, chance.randint(0, 3), _pause(chance, 17_000, 30_000)),
    ]
    waits = chance.uniform(14_000, 20_000), chance.uniform(27_000, 34_000)
    runs = tuple((("maintain", (), wait), *_some(chance, (500,))) for wait in waits)
    return Situation("lost lock", (own, *runs), tuple(moments))


def _some(chance: random.Random, waits: tuple[float, ...]) -> tuple[Does, ...]:
    """Writes of old records."""
    verbs, keys = ("upsert", "upsert", "update", "insert"), ("k0", "k1", "k2", "k5")
    return tuple((chance.choice(verbs), (chance.choice(keys),), wait) for wait in waits)


def _pause(chance: random.Random, least: float, most: float) -> Fate:
    return Fate(1.0, chance.uniform(least, most), pauses=True)


def _end(chance: random.Random) -> Fate:
    fault: Fault = chance.choice(("crash after", "crash after", "crash before"))
    return Fate(1.0, 0.0, fault) if chance.random() < 0.8 else _pause(chance, 11_000, 30_000)


SITUATIONS: Mapping[str, Callable[[random.Random, Kind], Situation]] = {
    "meeting": _meeting,
    "slow": _slow,
    "left for dead": _left_for_dead,
    "lost lock": _lost_lock,
}


def situation_of(number: int, chance: random.Random, kind: Kind) -> Situation:
    """Return the situation of a number, which comes round."""
    made = tuple(SITUATIONS.values())
    return made[number % len(made)](chance, kind)
