"""Run what follows a completed commit: if it fails, the commit stands and is reported as completed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)

CLEAN_UP, METADATA_TABLE = "clean-up", "metadata table"
"""What may fail after a commit, as `CommitResult.failed_services` names it."""


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
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the commit is done
        _log.warning(
            "table %s: the commit stands, but the %s after it failed%s: %s",
            table,
            service,
            ", and will be tried again" if retried else "",
            error,
            exc_info=True,
        )
        if failed is not None:
            failed[service] = f"{type(error).__name__}: {error}"
