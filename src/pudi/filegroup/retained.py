"""Errors of readers that meet a file that is gone name what cleans left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pudi.context import Storage
from pudi.errors import NotFoundError, PudiError
from pudi.filegroup.cleaned import cleans_after, retained_text
from pudi.timeline import TimelinePlace, TimelineStore

_T = TypeVar("_T")


@contextmanager
def naming_retained(store: TimelineStore) -> Iterator[None]:
    """Add to the error of a file that is gone which table it is and which of its states are still readable.

    Args:
        store: the table's timeline.
    """
    try:
        yield
    except NotFoundError as error:
        text = _text(store) if type(error) is NotFoundError else ""
        if text and text not in error.message:
            error.message = f"{error.message}; {text}"
        error.table = error.table or store.storage.root
        raise


def naming_retained_in(storage: Storage, timeline: TimelinePlace | None, rows: Iterable[_T]) -> Iterator[_T]:
    """Yield what a task reads; its errors are those of `naming_retained`.

    Args:
        storage: the table's files.
        timeline: where its timeline is; None adds nothing.
        rows: what is read.
    """
    if timeline is None:
        yield from rows
        return
    with naming_retained(timeline.open(storage)):
        yield from rows


def _text(store: TimelineStore) -> str:
    try:
        timeline = store.load()
        return retained_text(timeline, cleans_after(store, timeline))
    except PudiError:  # the first error says more
        return ""
