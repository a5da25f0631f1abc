"""Hudi's table-valued functions: changes of a table, its timeline, its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.scan import ChangeFeed, Scan
from pudi.statement.host import Rows
from pudi.statement.reader import Reader
from pudi.statement.session import Session
from pudi.statement.tree import TableName
from pudi.table import Table
from pudi.table.history import HistoryEntry


def table_of(session: Session, name: object) -> Table:
    """The table that an argument names: by name or path, as Hudi takes both."""
    text = str(name)
    found = session.find(Reader(text).table()) if "/" not in text and ":" not in text else None
    return (
        found
        if found is not None
        else session.table(TableName(("hudi", text), 0))
        if "/" in text
        else session.table(TableName(tuple(text.split(".")), 0))
    )


def _changes(session: Session, arguments: Sequence[object]) -> Scan | ChangeFeed:
    """`hudi_table_changes(table, format, since[, until])`: what `Table.changes` gives."""
    if len(arguments) not in {3, 4}:
        raise InvalidArgumentError("hudi_table_changes takes a table, a format, a begin, and perhaps an end")
    name, kind, since, *until = arguments
    table = table_of(session, name)
    if str(kind).lower() == "cdc":
        return table.changes(str(since), *map(str, until), format="cdc")
    if str(kind).lower() != "latest_state":
        raise InvalidArgumentError(f"hudi_table_changes: format {kind!r}: it is 'latest_state' or 'cdc'")
    if str(since) == "latest":
        raise NotSupportedError("hudi_table_changes from 'latest': name an instant, or 'earliest'")
    return table.changes(str(since), *map(str, until), columns=session.shown(table))


def _timeline(session: Session, arguments: Sequence[object]) -> pa.Table:
    """`hudi_query_timeline(table[, archived])`: the instants, oldest first."""
    if len(arguments) not in {1, 2}:
        raise InvalidArgumentError("hudi_query_timeline takes a table, and perhaps whether archived instants come too")
    archived = len(arguments) == 2 and str(arguments[1]).lower() == "true"
    table = table_of(session, arguments[0])
    numbers = ("Total_Bytes_Written", "Total_Files_Updated", "Total_Partitions_Written", "Total_Records_Written")
    columns = (
        ("Timestamp", "string"), ("Action", "string"), ("State", "string"), ("Completion_Time", "string"),
        ("File_Name", "string"), *((name, "bigint") for name in numbers), ("Total_Updated_Records_Written", "bigint"),
        ("Total_Write_Errors", "bigint"),
    )  # fmt: skip
    return Rows.table(columns, [_instant(table, entry) for entry in reversed(table.history(archived=archived))])


_NO_WRITE = (-1,) * 6


def _instant(table: Table, entry: HistoryEntry) -> Sequence[object]:
    """An instant as Hudi's timeline relation has it; of what is no completed write, all numbers are -1."""
    done = None if entry.completed is None else entry.completed.strftime("%Y%m%d%H%M%S%f")[:17]
    between = f"_{done}" if done is not None and table.config.version >= 8 else ""
    ending = "" if entry.state == "completed" else f".{entry.state}"
    file = f"{entry.instant}{between}.{entry.action}{ending}"
    numbers: tuple[int, ...] = _NO_WRITE
    if entry.state == "completed" and entry.bytes_written is not None:
        stats = [
            each for found in table.commit_metadata(entry.instant).partition_to_write_stats.values() for each in found
        ]
        numbers = (
            sum(each.total_write_bytes for each in stats),
            sum(each.prev_commit not in {None, "null"} for each in stats),
            entry.partitions or 0,
            sum(each.num_writes for each in stats),
            sum(each.num_update_writes for each in stats),
            sum(each.total_write_errors for each in stats),
        )
    return (entry.instant, entry.action, entry.state.upper(), done, file, *numbers)


def _files(session: Session, arguments: Sequence[object]) -> pa.Table:
    """`hudi_filesystem_view(table[, partition])`: the latest file slices."""
    if len(arguments) not in {1, 2}:
        raise InvalidArgumentError("hudi_filesystem_view takes a table, and perhaps a partition")
    wanted = str(arguments[1]) if len(arguments) == 2 else None
    columns = (
        ("File_ID", "string"), ("Partition_Path", "string"), ("Base_Instant_Time", "string"),
        ("Base_File_Path", "string"), ("Base_File_Size", "bigint"), ("Log_File_Count", "bigint"),
        ("Log_File_Size", "bigint"), ("Log_File_Scheduled", "string"), ("Log_File_Unscheduled", "string"),
    )  # fmt: skip
    found = table_of(session, arguments[0]).files(partitions=None if wanted in {None, "*", ""} else [str(wanted)])
    rows = [
        (f.file_id, f.partition, f.instant, f.base_file, f.base_bytes, len(f.log_files), f.log_bytes, None, None)
        for f in found
    ]
    return Rows.table(columns, rows)


FUNCTIONS: Mapping[str, Callable[[Session, Sequence[object]], Scan | ChangeFeed | pa.Table]] = {
    "hudi_table_changes": _changes,
    "hudi_query_timeline": _timeline,
    "hudi_filesystem_view": _files,
}
"""The functions by name."""
