"""The definition of an index of the metadata table (HoodieIndexDefinition).

Source: HoodieIndexDefinition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pudi.errors import CorruptError
from pudi.format.metadata_partitions import MetadataPartitionType

_VERSIONS = {"V1": 1, "V2": 2}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index.

    Attributes:
        type: the partition type.
        partition: its partition of the metadata table, which is its full name.
        columns: the indexed columns; for column statistics, empty means the first columns.
        method: for an expression index, the stored values: `column_stats` or `bloom_filters`.
        function: for an expression index its function, such as `from_unixtime`; `identity` for a secondary index.
        options: settings by Hudi's names: `format` of an expression index, `isPartitioned` of a record index.
        version: 1, or 2.
    """

    type: MetadataPartitionType
    partition: str
    columns: tuple[str, ...] = ()
    method: str = ""
    function: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 1


def version_said(definition: Mapping[str, Any], partition: str, table: str | None) -> int | None:
    """Return the version in an index definition; None if it has none.

    Args:
        definition: the entry of `.hoodie/.index_defs/index.json`.
        partition: the index's partition of the metadata table.
        table: location of the table's root, for messages.

    Raises:
        CorruptError: this release doesn't know the version.
    """
    said = definition.get("version")
    if said is None:
        return None
    if not isinstance(said, str) or said not in _VERSIONS:
        raise CorruptError(f"the index {partition} is of an unknown version {said!r}", table=table)
    return _VERSIONS[said]
