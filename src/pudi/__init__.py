"""Pudi: Apache Hudi tables in Python, on Arrow on one machine and on Spark through PySpark.

`pudi.create` makes a table, `pudi.Table` opens one; `pudi.spark` holds what Spark users reach for first.

The names below load with the module that defines them when they are first used (PEP 562): a Spark worker imports this
package for its task alone, the command line for its help.
"""

from typing import TYPE_CHECKING, Any

from pudi.context.runtime import load_export
from pudi.errors import (
    BlockedError,
    ChangedSinceError,
    ConflictError,
    CorruptError,
    InvalidArgumentError,
    MergerError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    RefusedError,
    SchemaError,
    SetupError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
    ValidationError,
)
from pudi.version import __version__

if TYPE_CHECKING:
    from pudi import ingest, spark
    from pudi.catalogs import Catalog, register_catalog
    from pudi.client import CommitResult
    from pudi.context.progress import Progress, report_progress
    from pudi.hooks import CommitMessage, register_commit_callback, register_validator
    from pudi.locks import LockProvider, register_lock_provider
    from pudi.merge import MergeContext, RecordMerger, register_merger
    from pudi.scan import Scan
    from pudi.statement.local import sql
    from pudi.table.by_name import TableCatalog, catalog
    from pudi.table.by_path import exists, read, scan_polars, write
    from pudi.table.create import create
    from pudi.table.import_table import import_table
    from pudi.table.table import Table
    from pudi.timeline import register_time_generator

__all__ = [
    "BlockedError",
    "Catalog",
    "ChangedSinceError",
    "CommitMessage",
    "CommitResult",
    "ConflictError",
    "CorruptError",
    "InvalidArgumentError",
    "LockProvider",
    "MergeContext",
    "MergerError",
    "NotFoundError",
    "NotSupportedError",
    "Progress",
    "PudiError",
    "RecordMerger",
    "RefusedError",
    "Scan",
    "SchemaError",
    "SetupError",
    "Table",
    "TableCatalog",
    "TableExistsError",
    "TableNotFoundError",
    "UnavailableError",
    "ValidationError",
    "__version__",
    "catalog",
    "create",
    "exists",
    "import_table",
    "ingest",
    "read",
    "register_catalog",
    "register_commit_callback",
    "register_lock_provider",
    "register_merger",
    "register_time_generator",
    "register_validator",
    "report_progress",
    "scan_polars",
    "spark",
    "sql",
    "write",
]

_SOURCES = {
    "Catalog": "pudi.catalogs",
    "CommitMessage": "pudi.hooks",
    "CommitResult": "pudi.client.result",
    "Progress": "pudi.context.progress",
    "LockProvider": "pudi.locks",
    "MergeContext": "pudi.merge",
    "RecordMerger": "pudi.merge",
    "Scan": "pudi.scan",
    "Table": "pudi.table",
    "TableCatalog": "pudi.table.by_name",
    "catalog": "pudi.table.by_name",
    "create": "pudi.table",
    "import_table": "pudi.table.import_table",
    "register_catalog": "pudi.catalogs",
    "register_commit_callback": "pudi.hooks",
    "register_lock_provider": "pudi.locks",
    "register_time_generator": "pudi.timeline",
    "register_merger": "pudi.merge",
    "register_validator": "pudi.hooks",
    "report_progress": "pudi.context.progress",
    "scan_polars": "pudi.table.by_path",
    "exists": "pudi.table.by_path",
    "read": "pudi.table.by_path",
    "write": "pudi.table.by_path",
    "ingest": "pudi.ingest",
    "spark": "pudi.spark",
    "sql": "pudi.statement.local",
}


def __getattr__(name: str) -> Any:
    return load_export(__name__, _SOURCES, name)


def __dir__() -> list[str]:
    return sorted(globals().keys() | _SOURCES.keys())
