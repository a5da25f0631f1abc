"""Pause Python's garbage collector while many objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
