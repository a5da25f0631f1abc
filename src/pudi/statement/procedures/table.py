"""Procedures about a table itself: its properties, version, partitions and files, and its entries in catalogs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from posixpath import basename

from pudi.catalogs import split_address
from pudi.config import OtherTableOptions, SyncOptions
from pudi.config.sync_options import HIVE_TOOL
from pudi.context import Context
from pudi.errors import InvalidArgumentError
from pudi.record import matching_paths
from pudi.statement.host import DEFAULT
from pudi.statement.parse.reader import Reader
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
from pudi.statement.table_functions import matches_by_folder, table_of
from pudi.table import Table

_VERSIONS = {"SIX": 6, "EIGHT": 8, "NINE": 9}
_TO_VERSION = Parameter("to_version", required=True)
_OPTIONS = {
    "metastore_uri": SyncOptions.uris.key,
    "mode": SyncOptions.mode.key,
    "partition_fields": SyncOptions.partition_fields.key,
    "partition_extractor_class": OtherTableOptions.partition_extractor.job_keys[0],
    "strategy": SyncOptions.strategy.key,
    "sync_incremental": SyncOptions.incremental.key,
}
"""Options by the parameters that say them; the others are about a HiveServer2, which isn't asked."""
_MODES = ("complete", "latestPartitions")
_DAYS = "datestr"
"""The column of the days in mode latestPartitions (ValidateHoodieSyncProcedure)."""


def _properties(arguments: Arguments) -> Rows:
    return sorted(arguments.table.config.raw.items())[: arguments.number("limit")]


def _to_version(arguments: Arguments) -> Rows:
    text = arguments.text("to_version").upper()
    version = _VERSIONS.get(text, int(text) if text.isdecimal() else 0)
    arguments.table.upgrade(version, spark=arguments.spark)
    return [(True,)]


def _paths(arguments: Arguments, name: str) -> list[str]:
    """The partitions that a text names, separated by commas, `*` standing for any text.

    Raises:
        InvalidArgumentError: the text is the path of one partition with a comma, and a list of others too.
    """
    known, text = arguments.table.partitions(), arguments.text(name)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if text in known and parts != [text]:
        if any(part in known or "*" in part for part in parts):
            raise InvalidArgumentError(
                f"{name} => {text!r} is one partition of the table and a list of others: ALTER TABLE … DROP PARTITION "
                "and Table.delete_partitions take one alone",
                table=arguments.table.path,
            )
        return [text]
    found: list[str] = []
    for wanted in parts:
        found += matching_paths([wanted], known) if "*" in wanted else [wanted]
    return found


def _drop_partition(arguments: Arguments) -> Rows:
    arguments.table.delete_partitions(_paths(arguments, "partition"))
    return [("Success",)]


def _truncate(arguments: Arguments) -> Rows:
    table = arguments.table
    if arguments.text("partitions"):
        done = table.delete_partitions(_paths(arguments, "partitions"))  # a pattern that matches none deletes nothing
    else:
        done = table.insert_overwrite_table(table.schema.empty_table())
    return [("SUCCESS", 0 if done is None else int(done.duration * 1000))]


def _fsview(arguments: Arguments, *, latest: bool) -> Rows:
    if arguments.text("max_instant"):
        raise InvalidArgumentError("max_instant: read the files of a moment by Table.files(as_of=…)")
    procedure = "show_fsview_latest" if latest else "show_fsview_all"
    for name in ("include_in_flight", "exclude_compaction"):
        arguments.refuse(procedure, name, False)
    if latest:
        arguments.refuse(procedure, "merge", True)
    patterns = [arguments.text(name) for name in (("path_regex", "partition_path") if latest else ("path_regex",))]
    wanted = [pattern for pattern in patterns if pattern not in {"ALL_PARTITIONS", ""}]
    if len(wanted) > 1:
        raise InvalidArgumentError("path_regex and partition_path say the same: leave one of them out")
    chosen = None
    if wanted:
        chosen = [path for path in arguments.table.partitions() if matches_by_folder(path, wanted[0])]
    found = arguments.table.files(everything=not latest, partitions=chosen)[: arguments.number("limit")]
    for each in found:
        logs = f"[{', '.join(each.log_files)}]"
        row = (each.partition, each.file_id, each.instant, each.base_file or "", each.base_bytes, len(each.log_files))
        if not latest:
            yield (*row, each.log_bytes, logs)
        else:
            share = each.log_bytes / each.base_bytes if each.base_bytes else 0.0
            yield (*row, each.log_bytes, 0, each.log_bytes, 0.0, share, "[]", logs)


def _partitions(arguments: Arguments) -> Rows:
    return [(path,) for path in arguments.table.partitions()]


def _files(arguments: Arguments) -> Rows:
    wanted = arguments.text("partition")
    found = arguments.table.files(everything=True, partitions=[wanted] if wanted else None)
    names = [path for each in found for path in (*([each.base_file] if each.base_file else ()), *each.log_files)]
    return [(basename(name),) for name in sorted(names)][: arguments.number("limit")]


_VIEW = (
    Parameter("max_instant", default=""), Parameter("include_max", "boolean", False),
    Parameter("include_in_flight", "boolean", False), Parameter("exclude_compaction", "boolean", False), limit(10),
    Parameter("path_regex", default="ALL_PARTITIONS"), FILTER,
)  # fmt: skip
_SLICE = (
    ("partition", "string"), ("file_id", "string"), ("base_instant", "string"), ("data_file", "string"),
    ("data_file_size", "bigint"), ("num_delta_files", "bigint"), ("total_delta_file_size", "bigint"),
)  # fmt: skip


def _hive_sync(arguments: Arguments) -> Rows:
    options = {key: given for name, key in _OPTIONS.items() if (given := arguments.text(name))}
    database = _database(arguments)
    if database and SyncOptions.database.key not in {**arguments.table.options, **options}:
        options[SyncOptions.database.key] = database
    own = arguments.session.host.metastore()
    if own is not None and SyncOptions.uris.key not in {**arguments.table.options, **options}:
        servers = split_address(own)[1].split(",")
        options[SyncOptions.uris.key] = ",".join(f"thrift://{server}" for server in servers)
    arguments.table.sync(HIVE_TOOL, options=options)
    return [("hive sync success.",)]


def _database(arguments: Arguments) -> str:
    """The database that the table's name or USE says, in which Hudi registers it; empty for neither.

    Source: HiveSyncProcedure and ProvidesHoodieConfig.buildHiveSyncConfig.
    """
    name = arguments.text("table")
    if "/" in name or ":" in name:
        return ""
    *levels, _ = Reader(name).table().parts
    database = levels[-1] if levels else arguments.session.catalog.database
    return "" if not levels and database == DEFAULT else database


def _sync_validate(arguments: Arguments) -> Rows:
    """Compare the counts of two tables; the later one's commits that the other lacks may explain the difference."""
    mode = arguments.text("mode")
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode {mode!r}: it is {' or '.join(map(repr, _MODES))}")
    tables = [table_of(arguments.session, arguments.text(name)) for name in ("src_table", "dst_table")]
    days = None if mode == "complete" else arguments.number("partition_cnt")
    counts = [_count(table, days) for table in tables]
    newest = [max((each.requested for each in table.timeline.commits), default="0") for table in tables]
    later = 1 if newest[1] > newest[0] else 0
    names = [table.config.table_name for table in tables]
    difference = counts[later] - counts[1 - later]
    said = f"Count difference now is count({names[later]}) - count({names[1 - later]}) == {difference}"
    missing = [each for each in tables[later].history() if each.instant > newest[1 - later]]
    if missing:
        said += f". Catach up count is {sum(each.records_inserted or 0 for each in missing)}"  # as Hudi spells it
    return [(said,)]


def _count(table: Table, days: int | None) -> int:
    """Count records: all, or those of the last days."""
    names = table.schema.names
    if days is None:
        return sum(batch.num_rows for batch in table.scan(names[:1]).to_batches())
    if _DAYS not in names:
        raise InvalidArgumentError(
            f"mode latestPartitions compares days in a column {_DAYS}, which the table lacks: use mode complete",
            table=table.path,
        )
    today = datetime.fromtimestamp(Context().clock.now_ms() / 1000, timezone.utc).date()
    recent = table.scan(names[:1], f"{_DAYS} > '{today - timedelta(days)}' and {_DAYS} <= '{today}'")
    return sum(batch.num_rows for batch in recent.to_batches())


PROCEDURES = (
    Procedure(
        "show_table_properties", "Table.config", (TABLE, PATH, limit(10), FILTER),
        (("key", "string"), ("value", "string")), _properties,
    ),
    Procedure("upgrade_table", "Table.upgrade", (THE_TABLE, _TO_VERSION), (("result", "boolean"),), _to_version),
    Procedure("downgrade_table", "Table.upgrade", (THE_TABLE, _TO_VERSION), (("result", "boolean"),), _to_version),
    Procedure(
        "drop_partition", "Table.delete_partitions", (THE_TABLE, Parameter("partition", required=True)),
        (("result", "string"),), _drop_partition,
    ),
    Procedure(
        "truncate_table", "Table.insert_overwrite_table", (THE_TABLE, Parameter("partitions")),
        (("result", "string"), ("time_cost", "bigint")), _truncate,
    ),
    Procedure(
        "show_fsview_all", "Table.files", (TABLE, PATH, *_VIEW), (*_SLICE, ("delta_files", "string")),
        lambda a: _fsview(a, latest=False),
    ),
    Procedure(
        "show_fsview_latest", "Table.files",
        (
            TABLE, PATH, *_VIEW, Parameter("partition_path", default="ALL_PARTITIONS"),
            Parameter("merge", "boolean", True),
        ),
        (
            *_SLICE, ("delta_size_compaction_scheduled", "bigint"), ("delta_size_compaction_unscheduled", "bigint"),
            ("delta_to_base_radio_compaction_scheduled", "double"),
            ("delta_to_base_radio_compaction_unscheduled", "double"),
            ("delta_files_compaction_scheduled", "string"), ("delta_files_compaction_unscheduled", "string"),
        ),
        lambda a: _fsview(a, latest=True),
    ),
    Procedure(
        "show_metadata_table_partitions", "Table.partitions", (TABLE, PATH, FILTER),
        (("partition", "string"),), _partitions,
    ),
    Procedure(
        "show_metadata_table_files", "Table.files",
        (TABLE, PATH, Parameter("partition", default=""), limit(100), FILTER),
        (("file_path", "string"),), _files,
    ),
    Procedure(
        "hive_sync", "Table.sync",
        (
            Parameter("table", required=True), Parameter("metastore_uri"), Parameter("username"),
            Parameter("password"), Parameter("use_jdbc"), Parameter("mode"), Parameter("partition_fields"),
            Parameter("partition_extractor_class"), Parameter("strategy"), Parameter("sync_incremental"),
        ),
        (("result", "string"),), _hive_sync,
    ),
    Procedure(
        "sync_validate", "Table.scan",
        (
            Parameter("src_table", required=True), Parameter("dst_table", required=True),
            Parameter("mode", required=True), Parameter("hive_server_url", required=True),
            Parameter("hive_pass", required=True), Parameter("src_db", default="rawdata"),
            Parameter("target_db", default="dwh_hoodie"), Parameter("partition_cnt", "int", 5),
            Parameter("hive_user", default=""),
        ),
        (("result", "string"),), _sync_validate,
    ),
)  # fmt: skip
"""The procedures of this module."""
