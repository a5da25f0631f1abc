"""Check what a write needs, and state properties under earlier names, before any work is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.client import MetaClient
from pudi.client.measure import check_reporter
from pudi.config import Options, SyncOptions
from pudi.config.new_table import missing_names
from pudi.context import ServiceLock
from pudi.context.runtime import lazy_module
from pudi.hooks.validators import check_validators
from pudi.task import Engine

if TYPE_CHECKING:
    from pudi.sync import after_write
else:
    after_write = lazy_module("pudi.sync.after_write")


def check_prerequisites(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Refuse a write that would fail by something outside of its table.

    Args:
        meta: the table.
        engine: the engine that does the work.
        options: the writer's options.

    Raises:
        SetupError: a package is missing, here or on the engine's workers, or a port is taken.
        UnavailableError: the service that keeps the lock doesn't answer.
        NotSupportedError: options name a validator or a catalog that there isn't.
        InvalidArgumentError: options of validators or catalogs are wrong.
    """
    check_services_around(meta, options)
    check_validators(meta, engine)
    engine.check_ready(meta.storage.root)


def check_services_around(meta: MetaClient, options: Options) -> None:
    """Refuse options whose lock, catalogs or metrics can't be had; raises as `check_prerequisites`."""
    if SyncOptions(options.given).is_on:
        after_write.check_sync(options)
    check_reporter(meta)
    if isinstance(meta.lock, ServiceLock):
        meta.lock.check_ready()


def state_older_names(meta: MetaClient) -> None:
    """Add the names that a table of version 6 or 8 lacks, which Hudi 1.2 or an earlier pudi made."""
    if not missing_names(meta.config.raw):
        return
    with meta.lock:
        meta.reload()
        if missing_names(meta.config.raw):
            meta.change_properties(dict)
