"""Copy the timeline files of an instant before it's rolled back (BaseRollbackActionExecutor.backupRollbackInstants)."""

from __future__ import annotations

import logging

from pudi.client.meta_client import MetaClient
from pudi.config import WriteOptions
from pudi.errors import PudiError
from pudi.format import HOODIE_DIR, Action, MaxBytes, parse_instant_file

_log = logging.getLogger(__name__)

_OTHERS = frozenset({Action.SAVEPOINT, Action.ROLLBACK, Action.RESTORE})
"""Actions that may bear the requested time of a commit, and aren't rolled back."""


def copy_instant(meta: MetaClient, requested: str) -> None:
    """Copy what the timeline has of an instant, if the options ask for it. As in Hudi, a failed copy is only logged.

    Args:
        meta: the table.
        requested: the instant's requested time.
    """
    if not meta.options[WriteOptions.keeps_rolled_back]:
        return
    folder = f"{HOODIE_DIR}/{meta.options[WriteOptions.rolled_back_folder]}"
    for info in meta.storage.list_dir(meta.store.folder)[0]:
        name = info.path.rpartition("/")[2]
        file = parse_instant_file(name, meta.store.layout)
        if file is None or file.requested != requested or file.action in _OTHERS:
            continue
        try:
            meta.storage.put(f"{folder}/{name}", meta.storage.read(info.path, MaxBytes.INSTANT))
        except PudiError as error:
            _log.warning("table %s: %s wasn't copied before its rollback: %s", meta.storage.root, info.path, error)
