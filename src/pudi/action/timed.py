"""What an action's phases took: names in, seconds by name out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pudi.action.meta_client import MetaClient


class Timed:
    """An action that tells how long each of its phases took; a phase may come more than once."""

    meta: MetaClient
    phases: dict[str, float]

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        clock = self.meta.context.clock
        began = clock.monotonic()
        yield
        self.phases[name] = self.phases.get(name, 0.0) + clock.monotonic() - began
