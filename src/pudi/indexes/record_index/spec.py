"""Both kinds of record index: global, and per partition."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.client.meta_client import MetaClient
from pudi.filegroup import FileSlice
from pudi.format.metadata_partitions import RECORD_INDEX, group_prefix, partition_type
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata_write.index_defs import defined_index

_PARTITIONED = "isPartitioned"


def record_index_spec(*, partitioned: bool) -> IndexSpec:
    """Return the definition of a record index, per partition or global."""
    options = {_PARTITIONED: "true" if partitioned else "false"}
    return IndexSpec(partition_type(RECORD_INDEX), RECORD_INDEX, options=options)


def is_defined_by_partition(spec: IndexSpec) -> bool:
    """Return whether an index's definition states that it is per partition."""
    return spec.options.get(_PARTITIONED, "false").lower() == "true"


def is_partitioned(meta: MetaClient, slices: Sequence[FileSlice]) -> bool:
    """Return whether the table's record index is per partition: by its file groups or, without any, its definition."""
    for each in slices:
        return each.file_id.removeprefix(group_prefix(RECORD_INDEX)).count("-") > 1
    return is_defined_by_partition(defined_index(meta, RECORD_INDEX))
