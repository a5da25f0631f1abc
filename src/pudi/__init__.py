"""Pudi: Apache Hudi tables in Python, on Arrow on one machine and on Spark through PySpark.

`pudi.create` makes a table, `pudi.Table` opens one; `pudi.spark` holds what Spark users reach for first.
"""

from pudi import spark
from pudi.action import CommitResult
from pudi.errors import (
    ConflictError,
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    SchemaError,
    SetupError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
)
from pudi.scan import Scan
from pudi.table import Table, create
from pudi.version import __version__

__all__ = [
    "CommitResult",
    "ConflictError",
    "CorruptError",
    "InvalidArgumentError",
    "NotFoundError",
    "NotSupportedError",
    "PudiError",
    "Scan",
    "SchemaError",
    "SetupError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "UnavailableError",
    "__version__",
    "create",
    "spark",
]
