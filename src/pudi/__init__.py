"""Pudi: Apache Hudi tables in Python, on Arrow on one machine and on Spark through PySpark.

`pudi.create` makes a table, `pudi.Table` opens one; `pudi.spark` holds what Spark users reach for first.
"""

from pudi import spark
from pudi.action import CommitResult
from pudi.errors import (
    ConflictError,
    CorruptError,
    InvalidArgumentError,
    MergerError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    SchemaError,
    SetupError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
)
from pudi.merge import MergeContext, RecordMerger, register_merger
from pudi.scan import Scan
from pudi.table import Table, create
from pudi.version import __version__

__all__ = [
    "CommitResult",
    "ConflictError",
    "CorruptError",
    "InvalidArgumentError",
    "MergeContext",
    "MergerError",
    "NotFoundError",
    "NotSupportedError",
    "PudiError",
    "RecordMerger",
    "Scan",
    "SchemaError",
    "SetupError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "UnavailableError",
    "__version__",
    "create",
    "register_merger",
    "spark",
]
