"""What happens to each call of a storage: by a seed, or what is left of that when a failure is shrunk."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import unpack
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
        said: list[str] = [self.fault] if self.fault else []
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


@dataclass(frozen=True, slots=True)
class Moment:
    """A mishap at one call: some calls after a process has changed certain files, one after the other.

    Attributes:
        process: whose call.
        paths: regular expressions that are found in the paths of these files.
        calls: how many calls later it happens.
        fate: what happens.
    """

    process: str
    paths: tuple[str, ...]
    calls: int
    fate: Fate


class Moments:
    """Which moments of a run are still to come."""

    def __init__(self, moments: Sequence[Moment] = ()) -> None:
        self._waiting = [_Waiting(each, [re.compile(path) for path in each.paths], each.calls) for each in moments]

    def fate(self, process: str, kind: str, path: str) -> Fate | None:
        """Return the fate of a process's next call, where a moment has come."""
        found = None
        for each in self._waiting:
            if each.moment.process == process and each.has_come(kind, path):
                found = each.moment.fate
        return found


@dataclass(slots=True)
class _Waiting:
    moment: Moment
    paths: list[re.Pattern[str]]
    calls: int

    def has_come(self, kind: str, path: str) -> bool:
        if self.paths and kind in CHANGING and self.paths[0].search(path):
            self.paths.pop(0)
        if not self.paths:
            self.calls -= 1
        return self.calls == -1


@dataclass(slots=True)
class Script:
    """The fate of each call.

    Attributes:
        seed: what fates are drawn from.
        weather: how often things go wrong; None for never.
        moments: mishaps at chosen calls.
        only: where given, the only calls to which something happens beyond their time.
        steady: whether other calls all take the same time.
        calm: processes that nothing happens to.
    """

    seed: int
    weather: Weather
    moments: Moments = field(default_factory=Moments)
    only: Mapping[Place, Fate] | None = None
    steady: bool = False
    calm: set[str] = field(default_factory=set)
    met: dict[Place, Fate] = field(default_factory=dict)

    def number(self, *of: object) -> int:
        """Return a number that follows from the seed and a name."""
        return zlib.crc32(repr((self.seed, of)).encode())

    def of_call(self, process: str, operation: int, number: int, kind: str, path: str) -> Fate:
        """Return the fate of a call."""
        chosen = self.moments.fate(process, kind, path)
        if chosen is not None and self.only is None:
            self.met[process, operation, number] = chosen
            return chosen
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
        draws = self._numbers(place)
        weather, draw = self.weather, draws[0]
        times = weather.focus if central else 1.0
        before, after = 1 + 19 * draws[1], 10 * draws[2]
        for fault, odds in (("pause", weather.pauses), ("delay", weather.delays), ("error", weather.errors),
                            ("lost", weather.lost), ("crash", weather.crashes)):  # fmt: skip
            draw -= odds * (min(times, 2) if fault == "delay" else times)
            if draw < 0:
                return self._event(fault, draws, kind, before, after)
        return Fate(before, after)

    def _numbers(self, place: Place) -> list[float]:
        """Five numbers from 0 up to 1 that follow from the seed and a call."""
        drawn = blake2b(f"{self.seed} {place}".encode(), digest_size=40).digest()
        return [number / 2**64 for number in unpack("<5Q", drawn)]

    def _event(self, fault: str, draws: Sequence[float], kind: str, before: float, after: float) -> Fate:
        first = draws[3] < 0.5
        if fault in {"pause", "delay"}:
            longest = self.weather.longest_ms
            took = 12_000 + 108_000 * draws[4] if fault == "pause" else longest ** (0.55 + 0.45 * draws[4])
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
