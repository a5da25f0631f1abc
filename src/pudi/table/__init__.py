"""The verbs of a table: a few lines each, choosing the engine by the data and calling an action."""

from pudi.table.create import create
from pudi.table.table import Table

__all__ = ["Table", "create"]
