"""Requests to catalogs in batches, and again after a failure that may pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from pudi.context import Context
from pudi.errors import PudiError

_log = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_ATTEMPTS: Final = 4
_FIRST_WAIT_S: Final = 0.5


def batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in groups of `size`, the last one maybe smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def with_retries(attempt: Callable[[], _Answer], context: Context) -> _Answer:
    """Return what a request answers; repeat it a few times, with growing waits, while its error says it may succeed.

    Raises:
        PudiError: of the last attempt.
    """
    for number in range(1, _ATTEMPTS):
        try:
            return attempt()
        except PudiError as error:
            if not error.retryable:
                raise
            wait = _FIRST_WAIT_S * 2 ** (number - 1) * context.uniform(0.5, 1.5)
            _log.info("asking again in %.1f s, after attempt %d of %d: %s", wait, number, _ATTEMPTS, error)
            context.clock.sleep(wait)
    return attempt()
