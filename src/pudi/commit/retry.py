"""Retries after a conflict: which verbs repeat a write, how often, after which pause.

After a conflict nothing of the write is visible, and the next attempt plans from the new state. That is right for a
verb that states what to do with existing records (an update, a merge, a delete by predicate), or that only adds
records. Records to upsert, or to replace others, may have been computed from what the other writer changed. They are
only written again if an option says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from pudi.client import CommitResult, MetaClient
from pudi.config import WriteOptions
from pudi.context import OneProcessLock
from pudi.errors import BlockedError, ConflictError, naming

_log = logging.getLogger(__name__)

RETRIES = 5
"""Default number of times that a write is repeated after a conflict."""
_LONGEST_PAUSE = 10.0
"""Seconds. A pause takes at most as long as the lost attempt: one that grew with each loss would let writers that have
just won overtake the others again and again."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Attempts at one write.

    Attributes:
        meta: the table.
        most: the maximum number of attempts.
    """

    meta: MetaClient
    most: int

    @classmethod
    def of(cls, meta: MetaClient, options: WriteOptions, *, by_default: bool) -> Retries:
        """Return the retries of a write.

        If the options declare a single writer, a conflict contradicts them and is raised immediately.

        Args:
            meta: the table.
            options: the writer's.
            by_default: whether to repeat it if the options don't say: its input doesn't depend on the table's records.
        """
        number = options.conflict_retries
        if number is None:
            number = RETRIES if by_default and not isinstance(meta.lock, OneProcessLock) else 0
        return cls(meta, 1 + number)

    @property
    def may_retry(self) -> bool:
        """Whether the input may be needed more than once."""
        return self.most > 1

    def run(self, attempt: Callable[[], CommitResult | None]) -> CommitResult | None:
        """Attempt a write until it has no conflict.

        Args:
            attempt: plans from the current table, and writes; it must not reuse state of an earlier attempt.

        Raises:
            ConflictError: of the last attempt, with the number of attempts.
        """
        meta, most, clock = self.meta, self.most, self.meta.context.clock
        began = clock.monotonic()
        for number in range(most):
            since = clock.monotonic()
            try:
                with naming(None, meta.storage.root):
                    done = attempt()
            except ConflictError as error:
                if number + 1 < most and error.retryable and not isinstance(error, BlockedError):
                    _log.info("%s: attempt %d of %d to write lost: %s", meta.storage.root, number + 1, most, error)
                    clock.sleep(meta.context.uniform(0, min(clock.monotonic() - since, _LONGEST_PAUSE)))
                    continue
                if number == 0:
                    raise
                raise _with_attempts(error, number + 1) from error
            if done is None or number == 0:
                return done
            return replace(done, attempts=number + 1, duration=clock.monotonic() - began)
        raise AssertionError("a retry policy has at least one attempt")


def _with_attempts(error: ConflictError, attempts: int) -> ConflictError:
    return type(error)(
        f"{error.message} (attempt {attempts}, the last one; {WriteOptions.conflict_retries} says how "
        "often a write that lost is repeated)",
        table=error.table,
        path=error.path,
        instant=error.instant,
        offset=error.offset,
    )
