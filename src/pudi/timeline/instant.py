"""One action on the timeline, the forms in which a user may name a point in time, and the times of new instants.

The time of a new instant is greater than all others of the table, whoever made them (TrueTime,
HoodieInstantTimeGenerator).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TypeAlias

from pudi.config import Options, TimeOptions, WriteOptions
from pudi.config.lock_settings import WAIT_TO_ADJUST_SKEW
from pudi.config.option import checked_name
from pudi.context import Clock
from pudi.errors import InvalidArgumentError, NotSupportedError, UnavailableError, cause_text
from pudi.format import (
    WRITE_ACTIONS,
    Action,
    InstantFile,
    Layout,
    State,
    TimelineZone,
    instant_to_millis,
    millis_to_instant,
)

NO_COMMIT = "null"
"""Value of a write stat's `prev_commit` for a new file group (HoodieWriteStat.NULL_COMMIT)."""

_DAY_MS = 24 * 60 * 60 * 1000
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:\d{2})?)?")


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """An action on the timeline in the highest state recorded for it.

    Attributes:
        requested: requested time, the action's identity: `yyyyMMddHHmmssSSS`.
        action: the action.
        state: how far it is.
        completion: completion time, in the same form; None while pending, and for what this process itself completed on
            a timeline of layout 1.
        layout: how its files are named: 1 says that the completion time is no part of the name but the time at which
            the file was made, in local time (in layout 2 those are the instants of a table that was upgraded).
        archived: whether it was archived: its files are gone, and the archive holds their content.
    """

    requested: str
    action: Action
    state: State
    completion: str | None = None
    layout: Layout = field(default=2, compare=False)
    archived: bool = field(default=False, compare=False)

    def file_name(self, state: State | None = None) -> str:
        """Name of the timeline file of this instant's own or an earlier state."""
        state = self.state if state is None else state
        completion = self.completion if state is State.COMPLETED and self.layout == 2 else None
        return InstantFile(self.requested, self.named_action, state, completion).file_name(self.layout)

    @property
    def named_action(self) -> Action:
        """The action as files name it: layout 1 has no name of its own for a clustering that is pending."""
        return self.action.comparable if self.layout == 1 and self.action is Action.CLUSTERING else self.action

    @property
    def is_completed(self) -> bool:
        """Whether the action's effects are visible."""
        return self.state is State.COMPLETED

    def completion_zone(self, timezone_name: TimelineZone) -> TimelineZone:
        """The zone that the completion time is in: in layout 1, where it's the time of a file, local time."""
        return "LOCAL" if self.layout == 1 else timezone_name

    @property
    def is_write(self) -> bool:
        """Whether the action brings or replaces data files."""
        return self.action in WRITE_ACTIONS


def parse_time(value: str | date, timezone_name: TimelineZone, *, what: str) -> str:
    """The instant that a user's point in time stands for.

    Args:
        value: an instant (14 or 17 digits), an ISO date or date-time text, a date or datetime. Without a zone, it's in
            the timeline's timezone; a text without milliseconds means the end of that second, a date
            its midnight (HoodieSqlCommonUtils.formatQueryInstant).
        timezone_name: `UTC` or `LOCAL`, the timeline's timezone.
        what: name of the argument, for the error.

    Raises:
        InvalidArgumentError: the value is none of these.
    """
    if isinstance(value, datetime):
        try:
            return _from_datetime(value, timezone_name)
        except OverflowError as error:
            raise InvalidArgumentError(f"{what}={value!r} lies outside of the years 1 to 9999 in UTC") from error
    if isinstance(value, date):
        return value.isoformat().replace("-", "") + "000000000"
    if not isinstance(value, str):
        raise InvalidArgumentError(
            f"{what} must be an instant, an ISO text, a date or a datetime, not {type(value).__name__}"
        )
    text = value.strip()
    if text.isascii() and text.isdigit() and (len(text) in {14, 17} or set(text) == {"0"}):
        return text
    match = _ISO.fullmatch(text)
    moment = None if match is None else _iso_datetime(match)
    if match is None or moment is None:
        raise InvalidArgumentError(
            f"{what}={value!r} is no point in time: give an instant such as '20261121075311237', "
            "an ISO text such as '2026-11-21 07:53:11.237', or a datetime"
        )
    instant = _from_datetime(moment, timezone_name)
    names_a_second = match.group(4) is not None and match.group(7) is None
    return instant[:14] + "999" if names_a_second else instant


def _iso_datetime(match: re.Match[str]) -> datetime | None:
    """The moment of an ISO text, None for one that the calendar doesn't have. Python 3.10 reads fewer forms itself."""
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 4, 5, 6))
    micros = int((match.group(7) or "").ljust(6, "0"))
    zone = match.group(8)
    try:
        moment = datetime(year, month, day, hour, minute, second, micros)
        if zone is None:
            return moment
        return moment.replace(tzinfo=datetime.strptime(zone, "%z").tzinfo)
    except ValueError:
        return None


def _from_datetime(value: datetime, timezone_name: TimelineZone) -> str:
    if value.tzinfo is None:
        return f"{value.year:04}{value:%m%d%H%M%S}{value.microsecond // 1000:03}"  # %Y drops leading zeros
    millis = int(value.astimezone(timezone.utc).timestamp() * 1000 // 1)
    return millis_to_instant(millis, timezone_name)


def day_before(instant: str) -> str:
    """The instant a day before one, the earliest there is where that's no date; any form that `parse_time` gives."""
    try:
        return millis_to_instant(instant_to_millis(instant, "UTC") - _DAY_MS, "UTC")
    except InvalidArgumentError:
        return ""


def new_instant(now_ms: int, newest: str | None, timezone_name: TimelineZone) -> str:
    """An instant for now that is greater than `newest`, the newest requested or completion time on the timeline."""
    now = millis_to_instant(now_ms, timezone_name)
    if newest is None or now > newest:
        return now
    following = millis_to_instant(instant_to_millis(newest, timezone_name) + 1, timezone_name)
    # where local time goes back in autumn the text can repeat: count on from the text itself
    return following if following > newest else str(int(newest) + 1)


TimeGenerator: TypeAlias = Callable[[], int]
"""Returns milliseconds since the epoch, UTC, for an instant that is made now; called under the table's lock."""

_REGISTERED: dict[str, TimeGenerator] = {}
_IN_PROCESS = "InProcessLockProvider"


def register_time_generator(name: str, generator: TimeGenerator) -> None:
    """Make a source of times of your own known to this process, such as a service that all writers ask.

    Tables that are opened with `hoodie.time.generator.type=NAME` take the times of instants from it. pudi calls it
    under the table's lock, and still gives each instant a later time than all that the timeline has.

    Args:
        name: the name in the option; any but those of Hudi's. One registered before under the same name is replaced for
            tables that are opened from now on.
        generator: returns milliseconds since the epoch, UTC.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is Hudi's, or `generator` can't be called.
    """
    name = checked_name("time generator", name, generator)
    if name == WAIT_TO_ADJUST_SKEW:
        raise InvalidArgumentError(f"{name!r} is Hudi's name of a time generator: take one of your own")
    _REGISTERED[name] = generator


@dataclass(frozen=True, slots=True)
class InstantTimes:
    """Makes times of instants, under a table's lock (TimeGenerator, SkewAdjustingTimeGenerator).

    Attributes:
        wait_ms: how long to wait after a time was made, so that other writers' clocks have passed it.
        generator: gives the time in place of this machine's clock; None for that.
    """

    wait_ms: int = 0
    generator: TimeGenerator | None = None

    @classmethod
    def of(cls, options: Options, table: str) -> InstantTimes:
        """Return what a writer's options say.

        Raises:
            NotSupportedError: they name a generator that nobody registered.
        """
        view, provider = TimeOptions.of(options), str(options[WriteOptions.lock_provider] or "")
        name = view.generator
        if name is not None and name != WAIT_TO_ADJUST_SKEW and name not in _REGISTERED:
            raise NotSupportedError(
                f"{TimeOptions.generator}={name} is not supported; known are {WAIT_TO_ADJUST_SKEW} and names given to "
                "pudi.register_time_generator in this process",
                table=table,
            )
        wait_ms = view.wait_ms(in_process=provider.rpartition(".")[2] == _IN_PROCESS)
        return cls(wait_ms, None if name is None else _REGISTERED.get(name))

    def next(self, clock: Clock, newest: str | None, timezone_name: TimelineZone) -> str:
        """Return a time that is greater than `newest`, the newest requested or completion time on the timeline.

        Raises:
            UnavailableError: the user's generator failed.
        """
        made = new_instant(self._now_ms(clock), newest, timezone_name)
        if self.wait_ms:
            clock.sleep(self.wait_ms / 1000)
        return made

    def _now_ms(self, clock: Clock) -> int:
        if self.generator is None:
            return clock.now_ms()
        try:
            return int(self.generator())
        except Exception as error:
            raise UnavailableError(f"the time generator failed: {cause_text(error)}; nothing was committed") from error
