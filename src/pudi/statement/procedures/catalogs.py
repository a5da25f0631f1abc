"""Procedures about catalogs: register a table, and compare two of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pudi.config import SyncOptions
from pudi.config.sync_options import HIVE_TOOL
from pudi.config.table_options import OtherTableOptions
from pudi.context import Context
from pudi.errors import InvalidArgumentError
from pudi.statement.procedures.procedure import Arguments, Parameter, Procedure, Rows
from pudi.statement.table_functions import table_of
from pudi.table import Table

_OPTIONS = {
    "metastore_uri": SyncOptions.uris.key,
    "mode": SyncOptions.mode.key,
    "partition_fields": SyncOptions.partition_fields.key,
    "partition_extractor_class": OtherTableOptions.partition_extractor.job_keys[0],
    "strategy": SyncOptions.strategy.key,
    "sync_incremental": SyncOptions.incremental.key,
}
"""Options by the parameters that say them; the others are about a HiveServer2, which isn't asked."""


def _hive_sync(arguments: Arguments) -> Rows:
    options = {key: given for name, key in _OPTIONS.items() if (given := arguments.text(name))}
    arguments.table.sync(HIVE_TOOL, options=options)
    return [("hive sync success.",)]


_MODES = ("complete", "latestPartitions")
_DAYS = "datestr"
"""The column of the days in mode latestPartitions (ValidateHoodieSyncProcedure)."""


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


PROCEDURES: tuple[Procedure, ...] = (
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
