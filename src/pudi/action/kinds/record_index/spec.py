"""Both kinds of record index: over the whole table, and for each of its partitions by itself."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.action.mdt.index_defs import defined_index
from pudi.action.meta_client import MetaClient
from pudi.filegroup import FileSlice
from pudi.format.metadata_partitions import RECORD_INDEX, group_prefix, partition_type
from pudi.metadata.index_spec import IndexSpec

_PARTITIONED = "isPartitioned"


def record_index_spec(*, partitioned: bool) -> IndexSpec:
    """A record index, for each partition by itself or over the whole table."""
    options = {_PARTITIONED: "true" if partitioned else "false"}
    return IndexSpec(partition_type(RECORD_INDEX), RECORD_INDEX, options=options)


def says_partitioned(spec: IndexSpec) -> bool:
    """Whether an index's definition says that a key is one record in its partition."""
    return spec.options.get(_PARTITIONED, "false").lower() == "true"


def is_partitioned(meta: MetaClient, slices: Sequence[FileSlice]) -> bool:
    """Whether the table's record index is one by partition: by its file groups, or by its definition without any."""
    for each in slices:
        return each.file_id.removeprefix(group_prefix(RECORD_INDEX)).count("-") > 1
    return says_partitioned(defined_index(meta, RECORD_INDEX))
