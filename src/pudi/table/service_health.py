"""The health of table services, for doctor: what waits for them, and which fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone

from pudi.client import MetaClient
from pudi.config import Options
from pudi.engine.local import LocalEngine
from pudi.errors import PudiError
from pudi.services import registry
from pudi.services.failures import failures
from pudi.services.target import ServiceTarget
from pudi.table.diagnosis import Advice, FailingService, Level, ServiceBacklog
from pudi.upgrade.maintenance import METADATA_TABLE, TABLE


def text_of_ms(ms: int) -> str:
    """Return a time, in milliseconds since 1970, as ISO text in UTC."""
    return datetime.fromtimestamp(ms // 1000, timezone.utc).isoformat()


def service_targets(meta: MetaClient, options: Options) -> list[ServiceTarget]:
    """Return the table and, if it can be opened, its metadata table, as services work on them.

    Args:
        meta: the table.
        options: the user's: what is due.
    """
    engine = LocalEngine()  # runs nothing here
    targets = [ServiceTarget.of_table(meta, engine, options)]
    if meta.config.metadata_partitions:
        with suppress(PudiError):  # doctor tells it of the metadata table
            targets.append(ServiceTarget.of_metadata_table(meta, engine, options))
    return targets


def service_backlog(targets: Sequence[ServiceTarget]) -> tuple[tuple[ServiceBacklog, ...], tuple[Advice, ...]]:
    """Return what waits for services, and advice where that is unknown.

    Args:
        targets: the table and its metadata table.
    """
    found, unknown = [], []
    for target in targets:
        on = _named(target)
        for service in registry.SERVICES:
            try:
                need = service.need(target.load())
            except PudiError as error:
                text = f"whether the {on} needs the {service.name} is unknown: {error}"
                unknown.append(Advice(Level.WARNING, text))
                continue
            if need is not None and need.backlog:
                found.append(ServiceBacklog(service.name, on, need.backlog, need.blocked_by, need.reason))
    return tuple(found), tuple(unknown)


def failing_services(target: ServiceTarget) -> Iterator[FailingService]:
    """Return the services of a table that failed at their last attempt."""
    for each in failures(target.meta.storage).values():
        since, until = text_of_ms(each.since_ms), text_of_ms(each.rests_until_ms)
        yield FailingService(each.service, _named(target), each.error, each.times, since, until)


def _named(target: ServiceTarget) -> str:
    return METADATA_TABLE if target.is_metadata else TABLE
