"""What happens to each call of a storage: by a seed, or what is left of that when a failure is shrunk."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pudi.errors import PudiError, UnavailableError
from pudi.format import TABLE_LOCK

Fault = Literal["", "error", "lost answer", "crash before", "crash after"]
Place = tuple[str, int, int]
"""A call: process, operation, and its number in the operation; numbers of calls by timers are negative."""

CHANGING = frozenset({"create", "put", "replace", "delete"})


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to one call.

    Attributes:
        before_ms: how long it takes until the storage does it.
        after_ms: how long the answer takes.
        fault: what goes wrong.
        pauses: whether the whole process stops for that long, its timers too, and not only the call.
    """

    before_ms: float = 1.0
    after_ms: float = 0.0
    fault: Fault = ""
    pauses: bool = False

    @property
    def is_event(self) -> bool:
        """Whether it is more than a call's usual time."""
        return bool(self.fault) or self.before_ms + self.after_ms > 100

    def __str__(self) -> str:
        said = [self.fault] if self.fault else []
        for name, value in (("before", self.before_ms), ("after", self.after_ms)):
            if value > 100:
                said.append(f"{'the process stops' if self.pauses else 'it takes'} {value / 1000:.1f} s {name}")
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class Weather:
    """How often things go wrong, per call; `focus` times as often where a call is about an instant or the lock."""

    delays: float = 0.03
    pauses: float = 0.0
    errors: float = 0.0
    lost: float = 0.0
    crashes: float = 0.0
    longest_ms: float = 4_000.0
    focus: float = 6.0


CALM = Weather()
STORM = Weather(pauses=0.001, errors=0.0005, lost=0.003, crashes=0.001)
CRASHES = Weather(crashes=0.002)
PAUSES = Weather(delays=0.05, pauses=0.003)
LOSSES = Weather(errors=0.0005, lost=0.015, focus=4)
WEATHERS = (CALM, STORM, CRASHES, PAUSES, LOSSES)


@dataclass(slots=True)
class Script:
    """The fate of each call.

    Attributes:
        seed: what fates are drawn from.
        weather: how often things go wrong; None for never.
        only: where given, the only calls to which something happens beyond their time.
        steady: whether other calls all take the same time.
        calm: processes that nothing happens to.
    """

    seed: int
    weather: Weather
    only: Mapping[Place, Fate] | None = None
    steady: bool = False
    calm: set[str] = field(default_factory=set)
    met: dict[Place, Fate] = field(default_factory=dict)

    def number(self, *of: object) -> int:
        """Return a number that follows from the seed and a name."""
        return zlib.crc32(repr((self.seed, of)).encode())

    def of_call(self, process: str, operation: int, number: int, kind: str, path: str) -> Fate:
        """Return the fate of a call."""
        return self._fate((process, operation, number), kind, _is_central(kind, path))

    def of_beat(self, process: str, operation: int, number: int, kind: str) -> Fate:
        """Return the fate of a call that a timer makes: it fails or not, and takes no time."""
        fate = self._fate((process, operation, -number), kind, central=False)
        return Fate(0.0, 0.0, fate.fault if fate.fault in {"error", "lost answer"} else "")

    def unavailable(self, kind: str, path: str) -> PudiError:
        """Return the error of a call without an answer."""
        return UnavailableError(f"simulated: no answer to {kind}", path=path)

    def _fate(self, place: Place, kind: str, central: bool) -> Fate:
        if place[0] in self.calm:
            return Fate()
        drawn = self._drawn(place, kind, central)
        if self.only is not None:
            given = self.only.get(place)
            drawn = given if given is not None else Fate() if self.steady or drawn.is_event else drawn
        if drawn.is_event:
            self.met[place] = drawn
        return drawn

    def _drawn(self, place: Place, kind: str, central: bool) -> Fate:
        chance = random.Random(hash((self.seed, self.number(*place))))
        weather, draw = self.weather, chance.random()
        times = weather.focus if central else 1.0
        before, after = chance.uniform(1, 20), chance.uniform(0, 10)
        for fault, odds in (("pause", weather.pauses), ("delay", weather.delays), ("error", weather.errors),
                            ("lost", weather.lost), ("crash", weather.crashes)):  # fmt: skip
            draw -= odds * (min(times, 2) if fault == "delay" else times)
            if draw < 0:
                return self._event(fault, chance, kind, before, after)
        return Fate(before, after)

    def _event(self, fault: str, chance: random.Random, kind: str, before: float, after: float) -> Fate:
        first = chance.random() < 0.5
        if fault in {"pause", "delay"}:
            longest = self.weather.longest_ms
            took = chance.uniform(12_000, 120_000) if fault == "pause" else longest ** chance.uniform(0.55, 1)
            return Fate(took if first else before, after if first else took, pauses=fault == "pause")
        if fault == "lost":
            return Fate(before, after, "lost answer" if kind in CHANGING else "")
        if fault == "crash":
            return Fate(before, 0.0, "crash before" if first else "crash after")
        return Fate(before, after, "error")


def _is_central(kind: str, path: str) -> bool:
    """Whether a call changes or lists a timeline, or is about the lock."""
    if path == TABLE_LOCK:
        return True
    if kind == "list_dir":
        return path in {".hoodie", ".hoodie/timeline"}
    aside = path.startswith((".hoodie/.temp", ".hoodie/.heartbeat"))
    return kind in CHANGING and path.startswith(".hoodie/") and not aside
