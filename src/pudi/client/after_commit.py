"""Run what goes along with a commit and may fail: the commit completes all the same, and reports what failed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)

CLEAN_UP, METADATA_TABLE = "clean-up", "metadata table"
"""Names in `CommitResult.failed_services` of work that may fail beside a commit."""


@contextmanager
def after_commit(
    service: str, table: str, failed: dict[str, str] | None = None, *, retried: bool = True
) -> Iterator[None]:
    """Do something after a commit. If it fails, log the error with its traceback, and go on.

    The next commit or the next writer's repair does what was left undone.

    Args:
        service: its name.
        table: the table's root.
        failed: where the error is noted by the service's name.
        retried: whether a later commit tries again.
    """
    again = ", and will be tried again" if retried else ""
    with _noting(f"the commit stands, but the {service} after it failed{again}", service, table, failed):
        yield


@contextmanager
def before_commit(service: str, table: str, failed: dict[str, str]) -> Iterator[None]:
    """Do something before a commit. If it fails, log the error with its traceback, and go on; a later commit retries.

    Args:
        service: its name.
        table: the table's root.
        failed: where the error is noted by the service's name.
    """
    with _noting(f"the {service} before a commit failed, and will be tried again", service, table, failed):
        yield


@contextmanager
def _noting(what: str, service: str, table: str, failed: dict[str, str] | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the commit doesn't depend on it
        _log.warning("table %s: %s: %s", table, what, error, exc_info=True)
        if failed is not None:
            failed[service] = f"{type(error).__name__}: {error}"
