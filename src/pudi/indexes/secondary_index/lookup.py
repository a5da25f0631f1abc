"""Reads by the value of an indexed column: the record keys that have it (SecondaryIndexSupport)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from pudi.indexes.secondary_index.changes import hashes_whole_keys
from pudi.metadata import MetadataTable
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata.keys import secondary_prefixes, split_secondary_keys
from pudi.metadata.secondary import certain_texts, may_be_looked_up
from pudi.plan import ReadPlan
from pudi.plan.lookup import MOST_VALUES, values_read


def keys_of_values(plan: ReadPlan, indexes: Iterable[IndexSpec], table: MetadataTable) -> tuple[str, pa.Array | None]:
    """Return the keys of the records with the values that a read asks for, and the index that found them.

    Args:
        plan: the read.
        indexes: the table's secondary indexes.
        table: its metadata table.
    """
    schema = plan.schema
    for index in indexes:
        column = index.columns[0] if len(index.columns) == 1 else None
        if column is None or column not in schema.names:
            continue
        values = values_read(plan, column, may_be_looked_up)
        if values is None or len(values) > MOST_VALUES:
            continue
        texts = certain_texts(values, schema.field(column).type)
        name = index.partition
        if texts is None or table.shards(name).is_empty or name in table.ever_invalidated:
            continue
        prefixes = secondary_prefixes(pa.array(texts, pa.string())).to_pylist()
        records = table.read(name, prefixes=prefixes, whole_key=hashes_whole_keys(index))
        return name, split_secondary_keys(records["key"].combine_chunks())[1].unique()
    return "", None
