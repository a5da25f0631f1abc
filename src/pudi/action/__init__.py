"""One timeline action, from request to completion or rollback.

Each action is a module. This package exports what actions share, so that a read loads no action.
"""

from pudi.action.committed_files import files_written, verify_committed_files, verify_committed_logs
from pudi.action.log_merging import merging_of
from pudi.action.meta_client import OPENING_OPTIONS, MetaClient, TableProperties
from pudi.action.result import CommitResult
from pudi.action.schema_history import read_history

__all__ = [
    "OPENING_OPTIONS",
    "CommitResult",
    "MetaClient",
    "TableProperties",
    "files_written",
    "merging_of",
    "read_history",
    "verify_committed_files",
    "verify_committed_logs",
]
