"""Set a clustering aside whose plan fails again and again: it must not block writers of its file groups for good.

A failed run is noted by its plan. The third failure in the same way rolls the plan back; automatic clusterings then
leave its file groups out, until a user asks for a clustering. Failures that pass, of the storage or the engine, don't
count. The notes are files of pudi's own below `.hoodie`; a lost one costs three attempts.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from pudi.client.meta_client import MetaClient
from pudi.commit.lease import is_available
from pudi.commit.rollback import roll_back
from pudi.config import WriteOptions
from pudi.context import Storage
from pudi.errors import ConflictError, NotFoundError, PudiError, cause_text
from pudi.format import SET_ASIDE_DIR, MaxBytes, set_aside_path
from pudi.timeline import Instant

_log = logging.getLogger(__name__)

_TIMES = 3
"""Failures in the same way after which a plan is set aside."""
_NAMES = re.compile(r"[0-9a-f]{8}[0-9a-f-]*|\d+")
"""Parts of messages that differ from run to run: ids, times, numbers."""


@dataclass(frozen=True, slots=True)
class FailedPlan:
    """A plan whose runs failed.

    Attributes:
        instant: its requested time.
        error: the last error.
        times: the number of failures in the same way, one after the other.
        groups: partition and file id of the file groups that it named, once it's set aside.
    """

    instant: str
    error: str
    times: int
    groups: tuple[tuple[str, str], ...] = ()

    @property
    def is_aside(self) -> bool:
        """Whether the plan was rolled back, and its file groups are left out."""
        return bool(self.groups)


def failed_plans(storage: Storage) -> list[FailedPlan]:
    """Return the plans of a table that failed, oldest first."""
    names = sorted(info.path.rpartition("/")[2] for info in storage.list_dir(SET_ASIDE_DIR)[0])
    found = [_read(storage, name) for name in names]
    return [plan for plan in found if plan is not None]


def groups_aside(storage: Storage) -> set[tuple[str, str]]:
    """Return the file groups that automatic clusterings leave out."""
    return {group for plan in failed_plans(storage) for group in plan.groups}


def take_back(storage: Storage) -> None:
    """Let clusterings take all file groups again."""
    for plan in failed_plans(storage):
        if plan.is_aside:
            storage.delete([set_aside_path(plan.instant)])


@contextmanager
def setting_aside(
    meta: MetaClient, plan: Instant, groups: Callable[[], Collection[tuple[str, str]]], options: WriteOptions
) -> Iterator[None]:
    """Note the failure of a run of a plan; after the third in the same way roll the plan back.

    Args:
        meta: the table.
        plan: the pending plan.
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
            if _note(meta, plan, error, groups) and roll_back_plan(meta, plan, options):
                _tell(error, plan)
        raise


def roll_back_plan(meta: MetaClient, plan: Instant, options: WriteOptions) -> bool:
    """Roll back a pending plan that no process runs; return whether it was there to be rolled back."""
    with meta.lock:
        current = meta.store.load().find(plan.requested, plan.action)
        if current is None or current.is_completed or not is_available(meta, current, options):
            return False
        roll_back(meta, current)
    return True


def _note(meta: MetaClient, plan: Instant, error: Exception, groups: Callable[[], Collection[tuple[str, str]]]) -> bool:
    """Note a failure; return whether the plan is to be set aside."""
    text, before = cause_text(error), _read(meta.storage, plan.requested)
    same = before is not None and _NAMES.sub("#", before.error) == _NAMES.sub("#", text)
    times = before.times + 1 if same and before is not None else 1
    aside = times >= _TIMES
    noted = FailedPlan(plan.requested, text, times, tuple(sorted(groups())) if aside else ())
    meta.storage.put(set_aside_path(plan.requested), json.dumps(asdict(noted)).encode())
    return aside


def _tell(error: Exception, plan: Instant) -> None:
    if isinstance(error, PudiError):
        error.message += (
            f". The plan {plan.requested} failed {_TIMES} times in this way and was rolled back; automatic clusterings "
            "leave its file groups out, Table.cluster() takes them again"
        )


@contextmanager
def _unless_it_fails(meta: MetaClient, plan: Instant) -> Iterator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 - the plan's own error is the one to tell
        _log.warning("table %s: can't set plan %s aside", meta.storage.root, plan.requested, exc_info=True)


def _read(storage: Storage, instant: str) -> FailedPlan | None:
    with suppress(NotFoundError, ValueError, KeyError, TypeError, RecursionError):
        fields = json.loads(storage.read(set_aside_path(instant), MaxBytes.NOTE))
        groups = tuple((str(partition), str(file_id)) for partition, file_id in fields["groups"])
        return FailedPlan(instant, str(fields["error"]), int(fields["times"]), groups)
    return None
