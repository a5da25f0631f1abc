"""Keep tables apart: no table is made inside of another one, or above one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pudi.context import Context, Storage
from pudi.errors import CorruptError, InvalidArgumentError, RefusedError
from pudi.filegroup.nested import is_table_root
from pudi.format import nested_root
from pudi.storage import executor_of, open_storage, whole_place


def check_apart(storage: Storage, storage_options: Mapping[str, str] | None, context: Context) -> None:
    """Refuse a root inside of another table of Hudi, Delta or Iceberg, or above one.

    Each would take the other's files for its own, or for orphans.

    Args:
        storage: the root of a table to be.
        storage_options: the user's.
        context: clock and chance.

    Raises:
        InvalidArgumentError: there is another table.
    """
    top, folder = whole_place(storage.root)
    above = [folder[:end] for end in [0, *(at for at, char in enumerate(folder) if char == "/")]] if folder else []
    around = open_storage(top, storage_options, context=context)
    for other in executor_of(around).map(partial(_table_at, around), above):
        if other is not None:
            raise InvalidArgumentError(
                f"this is inside of another table, at {top.rstrip('/')}/{other}: each would take the other's files for "
                "its own; choose a path beside it",
                table=storage.root,
            )
    for info in storage.list():
        below = nested_root(info.path)
        if below is not None:
            raise InvalidArgumentError(
                f"there is another table below, at {below}: each would take the other's files for its own; choose "
                "another path",
                table=storage.root,
            )


def _table_at(storage: Storage, folder: str) -> str | None:
    """Return the folder if it is the root of a table; None too where the caller has no rights to look."""
    try:
        return folder if is_table_root(storage, folder) else None
    except (RefusedError, InvalidArgumentError, CorruptError):
        return None
