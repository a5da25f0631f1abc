"""`hoodie.properties` read while others change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from pudi.client.properties import create_properties, read_properties
from pudi.context import Context, ManualClock, Storage
from pudi.errors import TableNotFoundError
from pudi.format import PROPERTIES, PROPERTIES_BACKUP
from pudi.storage import StorageWrapper, open_storage

T = TypeVar("T")


class InTheGap(StorageWrapper):
    """An update has taken the properties away when they are looked for, and is done when the backup is."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._content = inner.read(PROPERTIES)
        self._reads = 0
        inner.create(PROPERTIES_BACKUP, self._content)
        inner.delete([PROPERTIES])

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        self._reads += kind == "read"
        if self._reads == 2:
            self.inner.put(PROPERTIES, self._content)
            self.inner.delete([PROPERTIES_BACKUP])
        return do()


def test_a_table_is_found_though_an_update_ends_between_two_looks() -> None:
    context = Context(ManualClock())
    storage = open_storage("memory://properties-gap")
    create_properties(storage, {"hoodie.table.name": "trips"}, context)
    assert read_properties(InTheGap(storage), context)["hoodie.table.name"] == "trips"


def test_no_table_is_said_at_once() -> None:
    clock = ManualClock()
    began_ms = clock.now_ms()
    with pytest.raises(TableNotFoundError):
        read_properties(open_storage("memory://properties-none"), Context(clock))
    assert clock.now_ms() == began_ms
