"""Another writer at the worst moment: what happens right after a write of this process is under way."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pudi
from pudi.client import MetaClient
from pudi.context import Context, Storage, SystemClock
from pudi.storage import StorageWrapper, open_storage

_BEGUN = re.compile(r"\.hoodie/(timeline/)?\d+\.(\w+\.)?inflight")


class Beside(StorageWrapper):
    """Has another writer do something each time that a write begins, as often as was said."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.then: list[Callable[[], object]] = []

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        super().create(path, data, durable=durable)
        if self.then and _BEGUN.fullmatch(path):
            self.then.pop(0)()

    def __reduce__(self) -> tuple[Any, ...]:
        return (copy.copy, (self.inner,))  # tasks in other processes write files and begin nothing


class Impatient(SystemClock):
    """A clock that notes how long it was to sleep, and doesn't."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def watched(path: Path | str, options: Mapping[str, str] | None = None) -> tuple[pudi.Table, Beside, Impatient]:
    """A table whose writes others come between, when `Beside.then` says so, and the clock that it sleeps on."""
    storage, clock = Beside(open_storage(str(path))), Impatient()
    meta = MetaClient.open(str(path), None, options or {}, Context(clock), storage)
    return pudi.Table.of(meta, options or {}), storage, clock
