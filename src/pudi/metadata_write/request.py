"""An index as a user asks for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pudi.errors import InvalidArgumentError
from pudi.format.metadata_partitions import MetadataPartitionType
from pudi.metadata.index_spec import IndexSpec

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An index as a user asks for it.

    Attributes:
        kind: `record_index`, `column_stats`, `bloom_filters` or `secondary_index`.
        columns: the indexed columns.
        name: its name, if a table may have several of its kind.
        expr: the function whose values the index stores statistics or bloom filters of.
        settings: settings of the function by Hudi's names, such as `format`.
    """

    kind: str
    columns: tuple[str, ...] = ()
    name: str | None = None
    expr: str | None = None
    settings: Mapping[str, str] | None = None

    def over_one_column(self, kind: MetadataPartitionType, version: int, table: str) -> IndexSpec:
        """Return an index with a name of its own over one column.

        Args:
            kind: the type of its partition.
            version: the table's version.
            table: location of the table's root, for messages.

        Raises:
            InvalidArgumentError: the request names no column, several, or an impossible name.
        """
        if len(self.columns) != 1:
            raise InvalidArgumentError("such an index is over one column: name it", table=table)
        name = self.name or self.columns[0]
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(f"{name!r} can't be an index's name: letters, digits, _ . and -", table=table)
        return named_spec(kind, self.columns[0], name, version)


def named_spec(kind: MetadataPartitionType, column: str, name: str | None, version: int) -> IndexSpec:
    """Return an index over one column (HoodieTableMetadataUtil.getSecondaryOrExpressionIndexName).

    Args:
        kind: the type of its partition.
        column: the column.
        name: its name, with or without the prefix of the type; None for the column's name.
        version: the table's version.
    """
    name = name or column
    partition = name if name.startswith(kind.name) else f"{kind.name}{name}"
    return IndexSpec(kind, partition, (column,), version=kind.version(version))
