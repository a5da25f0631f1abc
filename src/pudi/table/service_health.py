"""Report on the services of a table: what waits for them, and which of them fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone

from pudi.client import MetaClient, TableSnapshot
from pudi.config import Options
from pudi.engine.local import LocalEngine
from pudi.errors import PudiError
from pudi.services import registry
from pudi.services.failures import failures, plans_aside
from pudi.services.target import ServiceTarget
from pudi.table.diagnosis import Advice, Diagnosis, FailingService, Level, ServiceBacklog
from pudi.upgrade.maintenance import METADATA_TABLE, TABLE


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
    """Return what waits for services, and advice where that is unknown."""
    found, unknown = [], []
    for target in targets:
        on = _name(target)
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
        since, until = _iso(each.since_ms), _iso(each.rests_until_ms)
        yield FailingService(each.service, _name(target), each.error, each.times, since, until)


def advice_on_plans(snapshot: TableSnapshot) -> Iterator[Advice]:
    """Return what to do about plans that were set aside after failures."""
    for plan in plans_aside(snapshot.meta.storage, snapshot.timeline):
        yield Advice(Level.WARNING, str(plan))


def advice_on_services(found: Diagnosis) -> Iterator[Advice]:
    """Return what to do about services that fail, and about those that an instant blocks."""
    for each in found.failing:
        times = "once" if each.times == 1 else f"{each.times} times in a row"
        yield Advice(
            Level.WARNING,
            f"the {each.service} of the {each.on} failed {times} since {each.since}, and is passed over until "
            f"{each.next_attempt}; to try it before, run it by its own command. The error: {each.error}",
        )
    for waits in found.backlog:
        if waits.blocked_by:
            yield Advice(
                Level.HINT,
                f"{waits.commits} commits wait for the {waits.service} of the {waits.on}, blocked by "
                f"{waits.blocked_by}: {waits.reason}",
            )


def _name(target: ServiceTarget) -> str:
    return METADATA_TABLE if target.is_metadata else TABLE


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, timezone.utc).isoformat()
