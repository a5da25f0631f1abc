"""The phases of an action: timed, logged, and reported as progress."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pudi.action.meta_client import MetaClient
from pudi.action.result import CommitResult
from pudi.context.progress import phase

_log = logging.getLogger(__name__)


class Timed:
    """An action that tells how long each of its phases took; a phase may come more than once."""

    meta: MetaClient
    phases: dict[str, float]

    @property
    def _name(self) -> str:
        """The action's name in the log and in progress reports."""
        raise NotImplementedError

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        clock, root = self.meta.context.clock, self.meta.storage.root
        began = clock.monotonic()
        with phase(root, self._name, name):
            yield
        seconds = clock.monotonic() - began
        self.phases[name] = self.phases.get(name, 0.0) + seconds
        _log.info("table %s: %s: %s took %.2f s", root, self._name, name, seconds)

    def _log_result(self, result: CommitResult) -> None:
        _log.info("table %s: %s", self.meta.storage.root, result)
