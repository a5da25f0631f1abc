"""Note in the table that a service failed, so that processes wait before they try it again.

After the first failure the next commit or maintenance tries the service again. After the second in a row the service
rests, twice as long after each further failure; a success clears the note. An explicit call, such as `Table.compact()`,
is always tried. The notes are files of pudi's own, one for each service, below the `.hoodie` of the table that it works
on; no decision depends on them, so a lost one costs one attempt.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from pudi.commit.lease import PlanTakenError
from pudi.context import Storage
from pudi.errors import NotFoundError, PudiError, cause_text
from pudi.format import SERVICE_FAILURES_DIR, MaxBytes, service_failure_path
from pudi.services.target import ServiceTarget

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
    try:
        return _parse(service, storage.read(service_failure_path(service), MaxBytes.NOTE))
    except NotFoundError:
        return None


def failures(storage: Storage) -> dict[str, ServiceFailure]:
    """Return the services of a table that failed at their last attempt, by name."""
    names = sorted(info.path.rpartition("/")[2] for info in storage.list_dir(SERVICE_FAILURES_DIR)[0])
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
        _note(target, ServiceFailure(service, _text_of(error), times, since_ms, now_ms))
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


def _parse(service: str, data: bytes) -> ServiceFailure | None:
    try:
        fields = json.loads(data)
        times, since_ms, last_ms = (int(fields[name]) for name in ("times", "since_ms", "last_ms"))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    whole = times > 0 and 0 <= since_ms <= last_ms < _LATEST_MS
    return ServiceFailure(service, str(fields["error"]), times, since_ms, last_ms) if whole else None


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, PudiError) else cause_text(error)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
