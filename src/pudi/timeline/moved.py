"""A timeline that has moved to the other layout: a process that opened the table before must open it again."""

from __future__ import annotations

from pudi.config import TableConfig
from pudi.context import Storage
from pudi.errors import BlockedError, ConflictError, CorruptError, NotFoundError
from pudi.format import PROPERTIES, PROPERTIES_BACKUP, Layout, MaxBytes, decode_table_properties
from pudi.timeline.timeline import Timeline


def refuse_moved(storage: Storage, layout: Layout) -> None:
    """Compare the layout that a table was opened with with the one that its properties say now.

    Raises:
        ConflictError: they differ.
    """
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        try:
            found = decode_table_properties(storage.read(path, MaxBytes.PROPERTIES), path=path)
        except (NotFoundError, CorruptError):  # an update is under way, or was interrupted
            continue
        refuse_layout(found.get(TableConfig.layout_version.key), found.get(TableConfig.version.key), layout, storage)
        return


def refuse_moving(timeline: Timeline, table: str) -> None:
    """Refuse to add to a timeline while it's brought to another version.

    Raises:
        BlockedError: it is.
    """
    if timeline.is_moving:
        raise BlockedError(
            "an upgrade or downgrade of the table is pending: complete it by Table.upgrade or `pudi upgrade`",
            table=table,
        )


def refuse_layout(layout: object, version: object, opened: Layout, storage: Storage) -> None:
    """Raise an error if the table's timeline has moved to another layout.

    Args:
        layout: the layout that the table has now.
        version: the version that it has now.
        opened: the layout that it was opened with.
        storage: the table's files.

    Raises:
        ConflictError: the two layouts differ.
    """
    if str(layout) != str(opened):
        raise ConflictError(
            f"the table was brought to version {version} since it was opened: open it again, or call Table.refresh()",
            table=storage.root,
        )
