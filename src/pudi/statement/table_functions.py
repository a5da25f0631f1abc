"""Hudi's table-valued functions: changes of a table, its timeline, its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

import pyarrow as pa

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.scan import ChangeFeed, Scan
from pudi.statement.host import result_table
from pudi.statement.parse.reader import Reader
from pudi.statement.session import Session, TableFunction
from pudi.statement.tree import TableName
from pudi.table import Table
from pudi.table.history import HistoryEntry


def table_of(session: Session, name: object) -> Table:
    """The table that an argument names: by name or path, as Hudi takes both."""
    text = str(name)
    if "/" in text:
        return session.table(TableName(("hudi", text), 0))
    found = None if ":" in text else session.find(Reader(text).table())
    return session.table(TableName(tuple(text.split(".")), 0)) if found is None else found


def _changes(session: Session, arguments: Sequence[object]) -> Scan | ChangeFeed:
    """`hudi_table_changes(table, format, since[, until])`: what `Table.changes` gives."""
    if len(arguments) not in {3, 4}:
        raise InvalidArgumentError("hudi_table_changes takes a table, a format, a begin, and perhaps an end")
    name, kind, since, *until = arguments
    table = table_of(session, name)
    if kind == "cdc":
        return table.changes(str(since), *map(str, until), format="cdc")
    if kind != "latest_state":
        raise InvalidArgumentError(f"hudi_table_changes: format {kind!r}: it is 'latest_state' or 'cdc'")
    if str(since) == "latest":
        raise NotSupportedError("hudi_table_changes from 'latest': name an instant, or 'earliest'")
    if until and str(since).isdecimal() and len(str(since)) == len(str(until[0])) and str(until[0]) < str(since):
        until = [since]  # nothing lies between them, as Hudi says
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
    return result_table(columns, [_instant(table, entry) for entry in reversed(table.history(archived=archived))])


def moment_text(at: datetime | None) -> str | None:
    """Return a time as Hudi writes instants, to milliseconds; None for None."""
    return None if at is None else at.strftime("%Y%m%d%H%M%S%f")[:17]


_NO_WRITE = (-1,) * 6


def _instant(table: Table, entry: HistoryEntry) -> Sequence[object]:
    """An instant as Hudi's timeline relation has it; of what is no completed write, all numbers are -1."""
    done = moment_text(entry.completed)
    between = f"_{done}" if done is not None and table.config.version >= 8 else ""
    ending = "" if entry.state == "completed" else f".{entry.state}"
    file = f"{entry.instant}{between}.{entry.action}{ending}"
    numbers: tuple[int, ...] = _NO_WRITE
    if entry.state == "completed" and entry.bytes_written is not None:
        stats = table.commit_metadata(entry.instant).stats
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
    """`hudi_filesystem_view(table[, partitions])`: the file slices, of partitions that match a pattern."""
    if len(arguments) not in {1, 2}:
        raise InvalidArgumentError("hudi_filesystem_view takes a table, and perhaps a pattern of partitions")
    columns = (
        ("File_ID", "string"), ("Partition_Path", "string"), ("Base_Instant_Time", "string"),
        ("Base_File_Path", "string"), ("Base_File_Size", "bigint"), ("Log_File_Count", "bigint"),
        ("Log_File_Size", "bigint"), ("Log_File_Scheduled", "bigint"), ("Log_File_Unscheduled", "bigint"),
    )  # fmt: skip
    table, wanted = table_of(session, arguments[0]), None
    if len(arguments) == 2 and arguments[1]:
        wanted = [path for path in table.partitions() if matches_by_folder(path, str(arguments[1]))]
    root = table.path.rstrip("/")
    rows = []
    for each in table.files(everything=True, partitions=wanted):
        base = None if each.base_file is None else f"{root}/{each.base_file}"
        slice_of = (each.file_id, each.partition, each.instant, base, each.base_bytes)
        rows.append((*slice_of, len(each.log_files), each.log_bytes, 0, each.log_bytes))
    return result_table(columns, rows)


def matches_by_folder(path: str, pattern: str) -> bool:
    """Return whether a partition path matches a pattern, folder by folder (FSUtils.getGlobStatuses)."""
    folders, patterns = path.split("/"), pattern.strip("/").split("/")
    return len(folders) == len(patterns) and all(map(fnmatchcase, folders, patterns))


def _metadata(session: Session, arguments: Sequence[object]) -> pa.Table:
    """`hudi_metadata(table)`: the records of the metadata table."""
    if len(arguments) != 1:
        raise InvalidArgumentError("hudi_metadata takes a table")
    return table_of(session, arguments[0]).metadata_records()


def _query(session: Session, arguments: Sequence[object]) -> Scan:
    """`hudi_query(table, mode)`: the rows of a snapshot, or of base files alone."""
    if len(arguments) != 2 or str(arguments[1]) not in {"snapshot", "read_optimized"}:
        raise InvalidArgumentError("hudi_query takes a table, and 'snapshot' or 'read_optimized'")
    table = table_of(session, arguments[0])
    return table.scan(session.shown(table), read_optimized=arguments[1] == "read_optimized")


FUNCTIONS: Mapping[str, TableFunction] = {
    "hudi_query": _query,
    "hudi_table_changes": _changes,
    "hudi_query_timeline": _timeline,
    "hudi_filesystem_view": _files,
    "hudi_metadata": _metadata,
}
"""The functions by name."""
