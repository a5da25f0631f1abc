"""A table, opened: its properties, timeline, schema, settings and index, and what its commits say of its files.

It changes nothing but properties. Begin with `meta_client`.
"""

from pudi.client.meta_client import OPENING_OPTIONS, MetaClient, TableProperties
from pudi.client.result import CommitResult
from pudi.client.schema_history import read_history
from pudi.client.settings import merging_of
from pudi.client.snapshot import TableSnapshot

__all__ = [
    "OPENING_OPTIONS",
    "CommitResult",
    "MetaClient",
    "TableProperties",
    "TableSnapshot",
    "merging_of",
    "read_history",
]
