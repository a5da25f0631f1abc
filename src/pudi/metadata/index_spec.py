"""What an index of a table is: its partition of the metadata table, and what it's made of (HoodieIndexDefinition).

Source: FORMAT 7.2 and 7.5; MetadataPartitionType, HoodieIndexVersion.getCurrentVersion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pudi.errors import CorruptError
from pudi.format.metadata_partitions import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    EXPRESSION_INDEX_PREFIX,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)

_FIRST_OF_V2 = 9
"""The table version from which on statistics and secondary indexes are of version 2."""
_VERSIONS = {"V1": 1, "V2": 2}
_PARTITIONED = "isPartitioned"


class IndexKind(Enum):
    """Kinds of indexes, by the name of their partition, or what it begins with."""

    RECORD_INDEX = RECORD_INDEX
    COLUMN_STATS = COLUMN_STATS
    BLOOM_FILTERS = BLOOM_FILTERS
    SECONDARY_INDEX = SECONDARY_INDEX_PREFIX
    EXPRESSION_INDEX = EXPRESSION_INDEX_PREFIX

    @classmethod
    def of(cls, partition: str) -> IndexKind | None:
        """The kind of index that a partition of the metadata table is; None for others (files, partition_stats)."""
        for kind in cls:
            if partition == kind.value or (kind.is_named and partition.startswith(kind.value)):
                return kind
        return None

    @property
    def is_named(self) -> bool:
        """Whether a table may have several of the kind, each with a name."""
        return self in {IndexKind.SECONDARY_INDEX, IndexKind.EXPRESSION_INDEX}

    def version(self, table_version: int) -> int:
        """The version that an index of the kind gets in a table (HoodieIndexVersion.getCurrentVersion)."""
        return 2 if table_version >= _FIRST_OF_V2 and self in _WITH_V2 else 1


_WITH_V2 = {IndexKind.COLUMN_STATS, IndexKind.SECONDARY_INDEX, IndexKind.EXPRESSION_INDEX}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index.

    Attributes:
        kind: what it is.
        partition: its partition of the metadata table, which is its full name.
        columns: the columns that it's made of; for statistics of columns, none says: the first ones.
        method: of an expression index, what is kept of the expression: `column_stats` or `bloom_filters`.
        function: of an expression index, its function, such as `from_unixtime`; of a secondary index `identity`.
        options: settings by Hudi's names: `format` of an expression, `isPartitioned` of a record index.
        version: 1, or 2.
    """

    kind: IndexKind
    partition: str
    columns: tuple[str, ...] = ()
    method: str = ""
    function: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    @classmethod
    def of_definition(
        cls, partition: str, definition: Mapping[str, Any], table_version: int, table: str | None = None
    ) -> IndexSpec:
        """The index that an entry of `.hoodie/.index_defs/index.json` defines.

        Args:
            partition: the name that it's under.
            definition: the entry; empty for an index that needs none.
            table_version: version of the table, which decides where the entry doesn't say the index's.
            table: location of the table's root, for messages.

        Raises:
            CorruptError: it makes no sense.
        """
        kind = IndexKind.of(partition)
        columns, options = definition.get("sourceFields") or [], definition.get("indexOptions") or {}
        said = definition.get("version")
        if kind is None or not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise CorruptError(f"the definition of the index {partition} names no columns", table=table)
        if not isinstance(options, dict) or (said is not None and said not in _VERSIONS):
            raise CorruptError(f"the index {partition} is of an unknown version {said!r}", table=table)
        return cls(
            kind,
            partition,
            tuple(columns),
            str(definition.get("indexType") or "") if kind is IndexKind.EXPRESSION_INDEX else "",
            str(definition.get("indexFunction") or ""),
            {str(key): str(value) for key, value in options.items()},
            _VERSIONS[said] if said else kind.version(table_version),
        )

    def definition(self) -> dict[str, object] | None:
        """The entry of `.hoodie/.index_defs/index.json`; None for an index that has none."""
        if self.kind is IndexKind.BLOOM_FILTERS:
            return None
        own = self.partition if self.kind in {IndexKind.RECORD_INDEX, IndexKind.COLUMN_STATS} else ""
        return {
            "indexName": self.partition,
            "indexType": self.method or own or self.kind.value.rstrip("_"),
            "indexFunction": COLUMN_STATS if self.kind is IndexKind.COLUMN_STATS else self.function,
            "sourceFields": list(self.columns),
            "indexOptions": dict(self.options),
            "version": f"V{self.version}",
        }

    @property
    def is_partitioned(self) -> bool:
        """Whether it's a record index in which a key is one record in its partition."""
        return self.options.get(_PARTITIONED, "false").lower() == "true"


def record_index_spec(*, partitioned: bool) -> IndexSpec:
    """A record index, for each partition by itself or over the whole table."""
    options = {_PARTITIONED: "true" if partitioned else "false"}
    return IndexSpec(IndexKind.RECORD_INDEX, RECORD_INDEX, options=options)
