"""Note failures of services in the table: wait before the next try, and set plans aside that fail again and again.

After the first failure the next commit or maintenance tries the service again. After the second in a row the service
rests, twice as long after each further failure; a success clears the note. An explicit call, such as `Table.compact()`,
is always tried. The notes are files of pudi's own, one for each service, below the `.hoodie` of the table that it works
on; no decision depends on them, so a lost one costs one attempt.

A failed run is noted by its plan. The third failure in the same way rolls the plan back; automatic runs of the service
then leave out the file group that the error names, or all of the plan, until a user asks for the service. Below version
8 the plan of a compaction stays pending, since log files are named by it: automatic runs then pass it over. Failures
that pass, of the storage or the engine, don't count. A lost note costs three attempts.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from posixpath import basename

from pudi.client import MetaClient
from pudi.commit.lease import PlanTakenError, is_available
from pudi.commit.rollback import abort, roll_back
from pudi.config import WriteOptions
from pudi.context import Storage
from pudi.errors import ConflictError, NotFoundError, PudiError, cause_text
from pudi.format import (
    SERVICE_FAILURES_DIR,
    SET_ASIDE_DIR,
    Action,
    FileGroupId,
    MaxBytes,
    parse_data_file,
    service_failure_path,
    set_aside_path,
)
from pudi.services.target import ServiceTarget
from pudi.timeline import Instant, Timeline

_log = logging.getLogger(__name__)

_FIRST_REST_MS = 60 * 1000
_LONGEST_REST_MS = 60 * 60 * 1000
_LATEST_MS = 1 << 46
"""Times from here on, about the year 4200, are damage."""


@dataclass(frozen=True, slots=True)
class ServiceFailure:
    """A service that failed at its last attempt.

    Attributes:
        service: its name.
        error: the last error.
        times: number of failures in a row.
        since_ms: time of the first of them, in milliseconds since the epoch.
        last_ms: time of the last of them.
    """

    service: str
    error: str
    times: int
    since_ms: int
    last_ms: int

    @property
    def rests_until_ms(self) -> int:
        """When it's tried again, in milliseconds since the epoch."""
        if self.times < 2:
            return self.last_ms
        return self.last_ms + min(_FIRST_REST_MS << min(self.times - 2, 16), _LONGEST_REST_MS)

    def __str__(self) -> str:
        return (
            f"failed {self.times} times in a row since {_moment(self.since_ms)}, is tried again after "
            f"{_moment(self.rests_until_ms)}: {self.error}"
        )


def read_failure(storage: Storage, service: str) -> ServiceFailure | None:
    """Return what is noted of a service; None if its last attempt succeeded, or the note can't be read.

    Args:
        storage: the table's files.
        service: the service's name.
    """
    with suppress(NotFoundError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        fields = json.loads(storage.read(service_failure_path(service), MaxBytes.NOTE))
        times, since_ms, last_ms = (int(fields[name]) for name in ("times", "since_ms", "last_ms"))
        if times > 0 and 0 <= since_ms <= last_ms < _LATEST_MS:
            return ServiceFailure(service, str(fields["error"]), times, since_ms, last_ms)
    return None


def failures(storage: Storage) -> dict[str, ServiceFailure]:
    """Return the services of a table that failed at their last attempt, by name."""
    names = sorted(basename(info.path) for info in storage.list_dir(SERVICE_FAILURES_DIR)[0])
    found = {name: read_failure(storage, name) for name in names}
    return {name: failure for name, failure in found.items() if failure is not None}


def is_resting(target: ServiceTarget, failure: ServiceFailure | None) -> bool:
    """Return whether a service is not tried now."""
    return failure is not None and target.meta.context.clock.now_ms() < failure.rests_until_ms


@contextmanager
def note_outcome(target: ServiceTarget, service: str, before: ServiceFailure | None) -> Iterator[None]:
    """Note the failure of an attempt at a service; clear the earlier failures if it succeeds.

    A plan that another process runs is no failure. A note that can't be written is logged: the attempt's own error
    counts.

    Args:
        target: the table.
        service: the service's name.
        before: what was noted of it.
    """
    try:
        yield
    except PlanTakenError:
        raise
    except Exception as error:
        now_ms = target.meta.context.clock.now_ms()
        since_ms, times = (now_ms, 1) if before is None else (before.since_ms, before.times + 1)
        _note(target, ServiceFailure(service, failure_text(error), times, since_ms, now_ms))
        raise
    if before is not None:
        clear_failure(target, service)


def clear_failure(target: ServiceTarget, service: str) -> None:
    """Delete the note that a service failed."""
    with suppress(PudiError):  # the next success deletes it
        target.meta.storage.delete([service_failure_path(service)])


def _note(target: ServiceTarget, failure: ServiceFailure) -> None:
    text = json.dumps(asdict(failure)).encode()
    try:
        target.meta.storage.put(service_failure_path(failure.service), text)
    except Exception:  # noqa: BLE001 - the service's own error is the one to tell
        _log.warning(
            "table %s: can't note that the %s failed", target.meta.storage.root, failure.service, exc_info=True
        )


def failure_text(error: Exception) -> str:
    """Return an error as reports of services state it, with its type."""
    return f"{type(error).__name__}: {error}" if isinstance(error, PudiError) else cause_text(error)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


_TIMES = 3
"""Failures in the same way after which a plan is set aside."""
_NAMES = re.compile(r"[0-9a-f]{8}[0-9a-f-]*|\d+")
"""Parts of messages that differ from run to run: ids, times, numbers."""
_CALLS = {"clustering": "Table.cluster()", "log_compaction": "Table.compact(log_compaction=True)"}
_COMPACT = "Table.compact()"


@dataclass(frozen=True, slots=True)
class FailedPlan:
    """A plan whose runs failed.

    Attributes:
        instant: its requested time.
        service: the service's name.
        error: the last error.
        times: the number of failures in the same way, one after the other.
        groups: the file groups that it names; of a plan that was set aside those that are left out.
        is_aside: whether it was set aside.
        stays: whether it's pending all the same.
    """

    instant: str
    service: str
    error: str
    times: int
    groups: tuple[FileGroupId, ...] = ()
    is_aside: bool = False
    stays: bool = False

    def __str__(self) -> str:
        done = "is passed over" if self.stays else "was rolled back"
        first = f", beginning with {self.groups[0][1]} of partition {self.groups[0][0]!r}" if self.groups else ""
        count = "its file group" if len(self.groups) == 1 else f"{len(self.groups)} file groups"
        waits = "; cleaning of its files and archiving wait for it" if self.stays else ""
        return (
            f"the {self.service} {self.instant} failed {self.times} times in the same way and was set aside: its plan "
            f"{done}, and automatic runs leave {count} out{first}{waits}. Remove the cause and run "
            f"{_CALLS.get(self.service, _COMPACT)}, which takes them again. The error: {self.error}"
        )


def failed_plans(storage: Storage) -> list[FailedPlan]:
    """Return the plans of a table that failed, oldest first."""
    names = sorted(basename(info.path) for info in storage.list_dir(SET_ASIDE_DIR)[0])
    found = [_read(storage, name) for name in names]
    return [plan for plan in found if plan is not None]


def plans_aside(storage: Storage, timeline: Timeline) -> list[FailedPlan]:
    """Return the plans that are set aside, oldest first; one that stays only until somebody ran it."""
    aside = [plan for plan in failed_plans(storage) if plan.is_aside]
    return [plan for plan in aside if not plan.stays or timeline.is_pending(plan.instant)]


def groups_aside(storage: Storage, service: str) -> set[FileGroupId]:
    """Return the file groups that automatic runs of a service leave out."""
    aside = [plan for plan in failed_plans(storage) if plan.is_aside and plan.service == service and not plan.stays]
    return {group for plan in aside for group in plan.groups}


def not_aside(storage: Storage, plans: Sequence[Instant]) -> list[Instant]:
    """Return the pending plans that automatic runs don't pass over."""
    aside = {plan.instant for plan in failed_plans(storage) if plan.is_aside} if plans else set()
    return [plan for plan in plans if plan.requested not in aside]


def take_back(storage: Storage, service: str) -> None:
    """Let a service take all file groups again."""
    for plan in failed_plans(storage):
        if plan.is_aside and plan.service == service:
            storage.delete([set_aside_path(plan.instant)])


@contextmanager
def setting_aside(
    meta: MetaClient, plan: Instant, service: str, groups: Callable[[], Collection[FileGroupId]], options: WriteOptions
) -> Iterator[None]:
    """Note the failure of a run of a plan; set it aside after the third in the same way.

    Args:
        meta: the table.
        plan: the pending plan.
        service: the service's name.
        groups: returns the file groups that it names.
        options: the failed-writes policy, and the heartbeat's limits.
    """
    try:
        yield
    except ConflictError:  # another process runs it, or it's displaced: that ends by itself
        raise
    except Exception as error:
        if isinstance(error, PudiError) and error.retryable:
            raise
        with _unless_it_fails(meta, plan):
            noted = _noted(meta, plan, service, error, sorted(groups()))
            meta.storage.put(set_aside_path(plan.requested), json.dumps(asdict(noted)).encode())
            if noted.is_aside and (noted.stays or roll_back_plan(meta, plan, options)):
                _tell(error, noted)
        raise


def roll_back_plan(meta: MetaClient, plan: Instant, options: WriteOptions) -> bool:
    """Roll back a pending plan that no process runs; return whether it was there to be rolled back."""
    with meta.lock:
        current = meta.store.load().find(plan.requested, plan.action)
        if current is None or current.is_completed or not is_available(meta, current, options):
            return False
        if current.action is Action.COMPACTION:
            abort(meta, current, dead=True)  # a rollback would keep the plan, as in Hudi
        else:
            roll_back(meta, current)
    return True


def _noted(meta: MetaClient, plan: Instant, service: str, error: Exception, groups: list[FileGroupId]) -> FailedPlan:
    """Return the note of a failure; a plan that was made anew for some file groups has failed as often as theirs."""
    text, times = cause_text(error), 1
    for before in failed_plans(meta.storage):
        again = before.instant == plan.requested or (
            before.service == service and not before.is_aside and not set(groups).isdisjoint(before.groups)
        )
        if again and _NAMES.sub("#", before.error) == _NAMES.sub("#", text):
            times = max(times, before.times + 1)
        if again and before.instant != plan.requested:
            meta.storage.delete([set_aside_path(before.instant)])
    aside = times >= _TIMES
    stays = aside and plan.action is Action.COMPACTION and meta.store.rules.logs_name_their_slice
    if aside and not stays:
        groups = _named(error, groups) or groups
    return FailedPlan(plan.requested, service, text, times, tuple(groups), aside, stays)


def _named(error: Exception, groups: list[FileGroupId]) -> list[FileGroupId]:
    """Return the file group whose file an error names."""
    partition, _, name = (getattr(error, "path", None) or "").rpartition("/")
    with suppress(PudiError):
        parsed = parse_data_file(name)
        return [] if parsed is None else [group for group in groups if group == FileGroupId(partition, parsed.file_id)]
    return []


def _tell(error: Exception, plan: FailedPlan) -> None:
    if isinstance(error, PudiError):
        done = "is passed over" if plan.stays else "was rolled back"
        error.message += (
            f". The plan {plan.instant} failed {plan.times} times in this way and {done}; automatic runs of the "
            f"{plan.service} leave its file groups out, {_CALLS.get(plan.service, _COMPACT)} takes them again"
        )


@contextmanager
def _unless_it_fails(meta: MetaClient, plan: Instant) -> Iterator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 - the plan's own error is the one to tell
        _log.warning("table %s: can't set plan %s aside", meta.storage.root, plan.requested, exc_info=True)


def _read(storage: Storage, instant: str) -> FailedPlan | None:
    with suppress(NotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fields = json.loads(storage.read(set_aside_path(instant), MaxBytes.NOTE))
        groups = tuple(FileGroupId(str(partition), str(file_id)) for partition, file_id in fields["groups"])
        aside, stays = (bool(fields[name]) for name in ("is_aside", "stays"))
        return FailedPlan(
            instant, str(fields["service"]), str(fields["error"]), int(fields["times"]), groups, aside, stays
        )
    return None
