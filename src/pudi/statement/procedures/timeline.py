"""Procedures about what happened to a table: its commits and other instants, savepoints, and the way back to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np

from pudi.config import names_in
from pudi.errors import NotFoundError
from pudi.format import CommitMetadata, WriteStat
from pudi.statement.procedures.procedure import (
    FILTER,
    PATH,
    TABLE,
    THE_TABLE,
    Arguments,
    Parameter,
    Procedure,
    Rows,
    limit,
)
from pudi.statement.table_functions import matches_by_folder, moment_text
from pudi.table import Table
from pudi.table.history import HistoryEntry

_WRITES = {"commit", "deltacommit", "replacecommit", "clustering", "compaction"}
_INSTANT = Parameter("instant_time", required=True)
_SOME_INSTANT = Parameter("instant_time", default="")


def _commits(arguments: Arguments, *, archived: bool = False) -> Iterator[tuple[HistoryEntry, CommitMetadata]]:
    """The newest completed writes, with their metadata."""
    table = arguments.table
    found = [e for e in table.history(archived=archived) if e.state == "completed" and e.action in _WRITES]
    if archived:
        found = [e for e in found if e.archived]
        begin, end = arguments.text("start_ts"), arguments.text("end_ts")
        found = [e for e in found if (not begin or e.instant >= begin) and (not end or e.instant <= end)]
    for entry in found[: arguments.number("limit")]:
        yield entry, table.commit_metadata(entry.instant)


def _stats(metadata: CommitMetadata) -> list[tuple[str, WriteStat]]:
    return [(partition, stat) for partition, stats in metadata.partition_to_write_stats.items() for stat in stats]


def _is_new(stat: WriteStat) -> bool:
    return stat.prev_commit in {None, "null"}


def _show_commits(arguments: Arguments, *, archived: bool = False) -> Rows:
    for entry, metadata in _commits(arguments, archived=archived):
        stats = metadata.stats
        action = () if archived else (entry.action,)
        yield (
            entry.instant,
            moment_text(entry.completed),
            *action,
            sum(stat.total_write_bytes for stat in stats),
            sum(map(_is_new, stats)),
            sum(not _is_new(stat) for stat in stats),
            len(metadata.partition_to_write_stats),
            sum(stat.num_writes for stat in stats),
            sum(stat.num_update_writes for stat in stats),
            sum(stat.total_write_errors for stat in stats),
        )


def _show_commits_metadata(arguments: Arguments, *, archived: bool = False) -> Rows:
    for entry, metadata in _commits(arguments, archived=archived):
        for partition, stat in _stats(metadata):
            yield (
                entry.instant, moment_text(entry.completed), entry.action, partition, stat.file_id, stat.prev_commit,
                stat.num_writes, stat.num_inserts, stat.num_deletes, stat.num_update_writes, stat.total_write_errors,
                stat.total_log_blocks, stat.total_corrupt_log_block, stat.total_rollback_blocks, stat.total_log_records,
                stat.total_updated_records_compacted, stat.total_write_bytes,
            )  # fmt: skip


def _one(arguments: Arguments) -> tuple[Table, HistoryEntry, CommitMetadata]:
    """The commit that the call is about."""
    table, instant = arguments.table, arguments.text("instant_time")
    entry = next((e for e in table.history() if e.instant == instant and e.action in _WRITES), None)
    if entry is None:
        raise NotFoundError(f"there is no commit {instant} on the active timeline", table=table.path)
    return table, entry, table.commit_metadata(instant)


def _show_commit_files(arguments: Arguments) -> Rows:
    _, entry, metadata = _one(arguments)
    return [
        (
            entry.action, partition, stat.file_id, stat.prev_commit, stat.num_update_writes, stat.num_writes,
            stat.total_write_bytes, stat.total_write_errors, stat.file_size_in_bytes,
        )
        for partition, stat in _stats(metadata)
    ][: arguments.number("limit")]  # fmt: skip


def _show_commit_partitions(arguments: Arguments) -> Rows:
    _, entry, metadata = _one(arguments)
    return [
        (
            entry.action, partition, sum(map(_is_new, stats)), sum(not _is_new(stat) for stat in stats),
            sum(stat.num_inserts for stat in stats), sum(stat.num_update_writes for stat in stats),
            sum(stat.total_write_bytes for stat in stats), sum(stat.total_write_errors for stat in stats),
        )
        for partition, stats in metadata.partition_to_write_stats.items()
    ][: arguments.number("limit")]  # fmt: skip


def _show_commit_write_stats(arguments: Arguments) -> Rows:
    _, entry, metadata = _one(arguments)
    stats = metadata.stats
    size, rows = sum(stat.total_write_bytes for stat in stats), sum(stat.num_writes for stat in stats)
    return [(entry.action, size, rows, int(np.ceil(size / rows)) if rows else 0)]


def _show_extra_metadata(arguments: Arguments) -> Rows:
    table, wanted = arguments.table, arguments.text("metadata_key")
    writes = [e for e in table.history() if e.state == "completed" and e.action in _WRITES]
    instant = arguments.text("instant_time") or (writes[0].instant if writes else "")
    entry = next((e for e in writes if e.instant == instant), None)
    if entry is None:
        raise NotFoundError(f"there is no commit {instant} on the active timeline", table=table.path)
    extra = table.commit_metadata(instant).extra_metadata
    rows = [(instant, entry.action, key, value) for key, value in extra.items() if not wanted or key == wanted]
    return rows[: arguments.number("limit")]


def _show_timeline(arguments: Arguments) -> Rows:
    entries = arguments.table.history(archived=arguments.true("showarchived"))
    begin, end = arguments.text("starttime"), arguments.text("endtime")
    kept = [e for e in entries if (not begin or e.instant >= begin) and (not end or e.instant <= end)]
    return [
        (
            e.instant, e.action, e.state.upper(), _short(e.requested), None, _short(e.completed),
            "ARCHIVED" if e.archived else "ACTIVE", e.note if e.action == "rollback" else None,
        )
        for e in kept[: arguments.number("limit")]
    ]  # fmt: skip


def _short(at: datetime | None) -> str | None:
    return None if at is None else at.strftime("%m-%d %H:%M:%S")


def _show_rollbacks(arguments: Arguments) -> Rows:
    found = [e for e in arguments.table.history() if e.action == "rollback" and e.state == "completed"]
    return [
        (e.instant, e.note.rpartition(" ")[2], e.files_deleted, int((e.seconds or 0) * 1000), e.partitions)
        for e in found[: arguments.number("limit")]
    ]


def _stats_wa(arguments: Arguments) -> Rows:
    rows: list[Sequence[object]] = []
    total = [0, 0]
    for entry, metadata in _commits(arguments):
        stats = metadata.stats
        upserted = sum(stat.num_update_writes for stat in stats)
        written = sum(stat.num_writes for stat in stats)
        total = [total[0] + upserted, total[1] + written]
        rows.append((entry.instant, upserted, written, f"{written / upserted:.2f}" if upserted else "0"))
    return [*rows, ("Total", *total, f"{total[1] / total[0]:.2f}" if total[0] else "0")]


def _stats_file_sizes(arguments: Arguments) -> Rows:
    """Sizes of base files by the commit that wrote them, and of all together."""
    wanted = arguments.text("partition_path")
    by_commit: dict[str, list[int]] = {}
    for each in arguments.table.files(everything=True):
        if each.base_file is not None and _is_at_or_below(each.partition, wanted):
            by_commit.setdefault(each.instant, []).append(each.base_bytes)
    newest = sorted(by_commit, reverse=True)[: arguments.number("limit")]
    whole = [size for sizes in by_commit.values() for size in sizes]
    return [_sizes(instant, by_commit[instant]) for instant in newest] + ([_sizes("ALL", whole)] if whole else [])


def _is_at_or_below(partition: str, pattern: str) -> bool:
    """Return whether a partition's folder is one that a pattern names, or lies below one; `*` for all folders."""
    patterns = [each for each in pattern.split("/") if each]
    while patterns and patterns[-1] == "*":
        patterns.pop()
    above = "/".join(partition.split("/")[: len(patterns)])
    return not patterns or matches_by_folder(above, "/".join(patterns))


def _sizes(name: str, sizes: Sequence[int]) -> Sequence[object]:
    low, middle, high = (float(value) for value in np.percentile(sizes, [10, 50, 95], method="weibull"))
    deviation = float(np.std(sizes, ddof=1)) if len(sizes) > 1 else 0.0
    return name, min(sizes), low, middle, float(np.mean(sizes)), high, max(sizes), len(sizes), deviation


_COMMIT = (
    ("commit_time", "string"), ("state_transition_time", "string"), ("action", "string"),
    ("total_bytes_written", "bigint"), ("total_files_added", "bigint"), ("total_files_updated", "bigint"),
    ("total_partitions_written", "bigint"), ("total_records_written", "bigint"),
    ("total_update_records_written", "bigint"), ("total_errors", "bigint"),
)  # fmt: skip
_FILE = (
    ("commit_time", "string"), ("state_transition_time", "string"), ("action", "string"), ("partition", "string"),
    ("file_id", "string"), ("previous_commit", "string"), ("num_writes", "bigint"), ("num_inserts", "bigint"),
    ("num_deletes", "bigint"), ("num_update_writes", "bigint"), ("total_errors", "bigint"),
    ("total_log_blocks", "bigint"), ("total_corrupt_log_blocks", "bigint"), ("total_rollback_blocks", "bigint"),
    ("total_log_records", "bigint"), ("total_updated_records_compacted", "bigint"), ("total_bytes_written", "bigint"),
)  # fmt: skip
_SPAN = (Parameter("start_ts", default=""), Parameter("end_ts", default=""))


def _create_savepoint(arguments: Arguments) -> Rows:
    table, instant = arguments.table, arguments.text("commit_time") or None
    if instant in {each.instant for each in table.savepoints()}:
        return [(False,)]
    table.savepoint(instant, user=arguments.text("user"), comment=arguments.text("comments"))
    return [(True,)]


def _newest(arguments: Arguments) -> str:
    """The savepoint that is named, or the newest one."""
    named = arguments.text("instant_time")
    known = sorted(each.instant for each in arguments.table.savepoints())
    return named or (known[-1] if known else "")


def _delete_savepoint(arguments: Arguments) -> Rows:
    table, wanted = arguments.table, list(names_in(_newest(arguments)))
    known = {each.instant for each in table.savepoints()}
    # One that isn't there is an error before any is gone.
    for instant in sorted(wanted, key=known.__contains__) or [""]:
        table.delete_savepoint(instant)
    return [(True,)]


def _show_savepoints(arguments: Arguments) -> Rows:
    return [(instant,) for instant in sorted((each.instant for each in arguments.table.savepoints()), reverse=True)]


def _rollback_to_savepoint(arguments: Arguments) -> Rows:
    instant = _newest(arguments)
    if instant not in {each.instant for each in arguments.table.savepoints()}:
        arguments.table.delete_savepoint(instant)  # raises: there is none
    arguments.table.restore(instant, spark=arguments.spark)
    return [(True,)]


def _rollback_to_instant(arguments: Arguments) -> Rows:
    arguments.table.rollback(arguments.text("instant_time"), spark=arguments.spark)
    return [(True,)]


PROCEDURES = (
    Procedure("show_commits", "Table.history", (THE_TABLE, limit(10)), _COMMIT, _show_commits),
    Procedure("show_commits_metadata", "Table.commit_metadata", (THE_TABLE, limit(10)), _FILE, _show_commits_metadata),
    Procedure(
        "show_archived_commits", "Table.history(archived=True)", (THE_TABLE, limit(10), *_SPAN),
        tuple(column for column in _COMMIT if column[0] != "action"), lambda a: _show_commits(a, archived=True),
    ),
    Procedure(
        "show_archived_commits_metadata", "Table.commit_metadata", (THE_TABLE, limit(10), *_SPAN), _FILE,
        lambda a: _show_commits_metadata(a, archived=True),
    ),
    Procedure(
        "show_commit_files", "Table.commit_metadata", (THE_TABLE, limit(10), _INSTANT),
        (
            ("action", "string"), ("partition_path", "string"), ("file_id", "string"), ("previous_commit", "string"),
            ("total_records_updated", "bigint"), ("total_records_written", "bigint"), ("total_bytes_written", "bigint"),
            ("total_errors", "bigint"), ("file_size", "bigint"),
        ),
        _show_commit_files,
    ),
    Procedure(
        "show_commit_partitions", "Table.commit_metadata", (THE_TABLE, limit(10), _INSTANT),
        (
            ("action", "string"), ("partition_path", "string"), ("total_files_added", "bigint"),
            ("total_files_updated", "bigint"), ("total_records_inserted", "bigint"),
            ("total_records_updated", "bigint"),
            ("total_bytes_written", "bigint"), ("total_errors", "bigint"),
        ),
        _show_commit_partitions,
    ),
    Procedure(
        "show_commit_write_stats", "Table.commit_metadata", (THE_TABLE, limit(10), _INSTANT),
        (
            ("action", "string"), ("total_bytes_written", "bigint"), ("total_records_written", "bigint"),
            ("avg_record_size", "bigint"),
        ),
        _show_commit_write_stats,
    ),
    Procedure(
        "show_commit_extra_metadata", "Table.commit_metadata",
        (THE_TABLE, limit(100), Parameter("instant_time"), Parameter("metadata_key")),
        (
            ("instant_time", "string"), ("action", "string"), ("metadata_key", "string"), ("metadata_value", "string"),
        ),
        _show_extra_metadata,
    ),
    Procedure(
        "show_timeline", "Table.history",
        (
            TABLE, PATH, limit(20), Parameter("showArchived", "boolean", False), FILTER,
            Parameter("startTime", default=""), Parameter("endTime", default=""),
        ),
        (
            ("instant_time", "string"), ("action", "string"), ("state", "string"), ("requested_time", "string"),
            ("inflight_time", "string"), ("completed_time", "string"), ("timeline_type", "string"),
            ("rollback_info", "string"),
        ),
        _show_timeline,
    ),
    Procedure(
        "show_rollbacks", "Table.history", (THE_TABLE, limit(10)),
        (
            ("instant", "string"), ("rollback_instant", "string"), ("total_files_deleted", "int"),
            ("time_taken_in_millis", "bigint"), ("total_partitions", "int"),
        ),
        _show_rollbacks,
    ),
    Procedure(
        "stats_wa", "Table.commit_metadata", (THE_TABLE, limit(10)),
        (
            ("commit_time", "string"), ("total_upserted", "bigint"), ("total_written", "bigint"),
            ("write_amplification_factor", "string"),
        ),
        _stats_wa,
    ),
    Procedure(
        "stats_file_sizes", "Table.files", (THE_TABLE, Parameter("partition_path", default=""), limit(10)),
        (
            ("commit_time", "string"), ("min", "bigint"), ("10th", "double"), ("50th", "double"), ("avg", "double"),
            ("95th", "double"), ("max", "bigint"), ("num_files", "int"), ("std_dev", "double"),
        ),
        _stats_file_sizes,
    ),
    Procedure(
        "create_savepoint",
        "Table.savepoint",
        (
            TABLE,
            Parameter("commit_time", default=""),
            Parameter("user", default=""),
            Parameter("comments", default="", also="comment"),
            PATH,
        ),
        (("create_savepoint_result", "boolean"),),
        _create_savepoint,
    ),
    Procedure(
        "delete_savepoint",
        "Table.delete_savepoint",
        (TABLE, _SOME_INSTANT, PATH),
        (("delete_savepoint_result", "boolean"),),
        _delete_savepoint,
    ),
    Procedure("show_savepoints", "Table.savepoints", (TABLE, PATH), (("savepoint_time", "string"),), _show_savepoints),
    Procedure(
        "rollback_to_savepoint",
        "Table.restore",
        (TABLE, _SOME_INSTANT, PATH),
        (("rollback_savepoint_result", "boolean"),),
        _rollback_to_savepoint,
    ),
    Procedure(
        "rollback_to_instant",
        "Table.rollback",
        (THE_TABLE, Parameter("instant_time", required=True)),
        (("rollback_result", "boolean"),),
        _rollback_to_instant,
    ),
)  # fmt: skip
"""The procedures of this module."""
