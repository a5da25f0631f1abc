"""Keep the instant of an action alive while it runs, and undo the action if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pudi.action.after_commit import CLEAN_UP, after_commit
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.errors import PudiError


@contextmanager
def keep_alive(
    meta: MetaClient,
    hearts: Sequence[Heartbeat],
    undo: Callable[[BaseException], None],
    failed: dict[str, str] | None = None,
) -> Iterator[None]:
    """Run an action whose heartbeats the caller starts; stop them at its end, and undo the action on an error.

    If undoing fails too, the first error is raised. The heartbeat files stay then, so that the next writer finds the
    instant dead and rolls it back.

    Args:
        meta: the table.
        hearts: the heartbeats; more may be added while the action runs.
        undo: undoes what the action did so far. It isn't called if the process is about to end.
        failed: notes of what failed after the commit. The heartbeat files stay if the clean-up is among them: by them
            the next writer finds the markers that are left.
    """
    try:
        yield
    except BaseException as error:
        _stop(hearts)
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
            with suppress(PudiError):
                undo(error)
        raise
    _stop(hearts)
    if CLEAN_UP in (failed or {}):
        return
    with after_commit(CLEAN_UP, meta.storage.root, failed):
        for heart in hearts:
            heart.stop()


def _stop(hearts: Sequence[Heartbeat]) -> None:
    for heart in hearts:
        heart.stop(delete=False)
