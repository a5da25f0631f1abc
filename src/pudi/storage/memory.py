"""Files in this process's memory, by name: `memory://NAME`."""

from __future__ import annotations

import os
import threading

from obstore.store import MemoryStore

from pudi.context import Context
from pudi.errors import NotSupportedError
from pudi.storage.objects import ObjectStorage

_stores: dict[str, MemoryStore] = {}
_guard = threading.Lock()


def open_memory(root: str, name: str, prefix: str, context: Context | None = None) -> ObjectStorage:
    """The storage of a store in memory, which is made when it's first named and lives as long as the process.

    Args:
        root: the root as the user named it.
        name: name of the store.
        prefix: where in the store the root is; empty for all of it.
        context: clock and chance.
    """
    with _guard:
        store = _stores.setdefault(name, MemoryStore())
    return ObjectStorage(root, store, prefix, (_reopen, (root, name, prefix, os.getpid())), context)


def _reopen(root: str, name: str, prefix: str, process: int) -> ObjectStorage:
    if process != os.getpid():
        raise NotSupportedError("files in memory can't be reached from another process", table=root)
    return open_memory(root, name, prefix)
