"""One timeline action, from request to completion or rollback."""

from pudi.action.alter import alter
from pudi.action.compaction import compact, maybe_compact, run_pending, schedule
from pudi.action.create import create_table
from pudi.action.index import check_index
from pudi.action.log_merging import merging_of
from pudi.action.meta_client import MetaClient
from pudi.action.presence import check_logs, check_present, files_written
from pudi.action.result import CommitResult
from pudi.action.schema_history import read_history
from pudi.action.write import write

__all__ = [
    "CommitResult",
    "MetaClient",
    "alter",
    "check_index",
    "check_logs",
    "check_present",
    "compact",
    "create_table",
    "files_written",
    "maybe_compact",
    "merging_of",
    "read_history",
    "run_pending",
    "schedule",
    "write",
]
