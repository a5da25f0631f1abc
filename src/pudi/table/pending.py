"""The pending instants of a table, with their age and what waits for them."""

from __future__ import annotations

from collections.abc import Iterator

from pudi.client import MetaClient
from pudi.commit.rollback import pending_writes
from pudi.config import Options, WriteOptions
from pudi.errors import InvalidArgumentError
from pudi.format import Action, instant_to_millis
from pudi.services.registry import planned_services
from pudi.table.diagnosis import Pending
from pudi.table.history import problem_of_pending

_BLOCKS = dict.fromkeys(
    (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT),
    "archiving of later instants, and compactions of the metadata table",
) | {
    Action.SAVEPOINT: "archiving of later instants",
    Action.INDEXING: "cleaning and archiving of the metadata table",
    Action.ROLLBACK: "writes, until it is resumed",
    Action.RESTORE: "writes, until it is resumed",
}
"""Work that waits for a pending action of writers, Hudi's services and builds of indexes. A service of pudi
has it in `PlannedService.blocks`."""


def pending_instants(meta: MetaClient, options: Options) -> Iterator[Pending]:
    """Return what isn't completed.

    Args:
        meta: the table.
        options: the user's: when a writer counts as dead.
    """
    now_ms = meta.context.clock.now_ms()
    for instant, alive in pending_writes(meta, WriteOptions.of(options)):
        try:
            age = max(0, now_ms - instant_to_millis(instant.requested, meta.config.timezone)) // 1000
        except InvalidArgumentError:
            age = 0
        action, state = instant.action.value, instant.state.name.lower()
        problem = problem_of_pending(meta, instant)
        yield Pending(instant.requested, action, state, age, alive.value, _blocked_by(instant.action), problem)


def _blocked_by(action: Action) -> str:
    """Return what waits for a pending action."""
    service = next((each for each in planned_services() if each.action is action), None)
    return _BLOCKS.get(action, "") if service is None else service.blocks
