"""Python's own runtime where its defaults don't fit: properties cached without a lock, the garbage collector paused."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class CachedProperty(functools.cached_property[T]):
    """A `functools.cached_property` that holds no lock while it computes.

    Before Python 3.12 that one holds a lock of all objects of the class: a table that waits for storage, or for a Spark
    job, would make those of other threads wait too. Two threads that share an object may compute the value twice.
    """

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value and keep it in the object, where it's found from then on."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


cached_property = CachedProperty


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running meanwhile: it would walk over all that is made, again and again.

    For work that creates many small objects without reference cycles, such as planning 100,000 files.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
