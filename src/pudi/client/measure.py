"""Measure actions, if options ask for it; without these options no module of metrics is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from pudi.client.meta_client import MetaClient
from pudi.config import MetricsOptions
from pudi.context.runtime import lazy_module
from pudi.format import Action

if TYPE_CHECKING:
    from pudi.metrics import metered
else:
    metered = lazy_module("pudi.metrics.metered")


def check_reporter(meta: MetaClient) -> None:
    """Refuse metrics that can't be reported, before anything is written.

    Raises:
        SetupError: the reporter's package is missing, or its port is taken.
    """
    metrics = _metrics(meta)
    if metrics is not None:
        metrics.open()


def note_start(meta: MetaClient) -> None:
    """Note that a verb or table service begins in this thread: the duration of its instant counts from here."""
    if meta.options[MetricsOptions.on]:
        metered.note_start(meta.context.clock)


@contextmanager
def count_failures(meta: MetaClient, action: Action) -> Iterator[None]:
    """Count an action that fails."""
    try:
        yield
    except BaseException as error:
        metrics = _metrics(meta)
        if metrics is not None:
            metrics.fail(action.value, error)
        raise


@contextmanager
def measured(meta: MetaClient, action: str) -> Iterator[dict[str, int]]:
    """Measure an action that has no instant of its own; yields where its figures are noted by their names."""
    figures: dict[str, int] = {}
    metrics = _metrics(meta)
    with nullcontext() if metrics is None else metrics.measured(action, figures):
        yield figures


def _metrics(meta: MetaClient) -> metered.Metrics | None:
    return metered.metrics_of(meta.store) if meta.options[MetricsOptions.on] else None
