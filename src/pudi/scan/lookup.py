"""Reads of single records: a predicate in, the file groups that hold the records out, by the metadata table.

Filters on the record key use the record index; filters on a column with a secondary index use that index first
(RecordLevelIndexSupport, SecondaryIndexSupport). As in Hudi, the index knows one location for a record key: it does not
find duplicates that inserts without a key check created.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pudi.action import MetaClient
from pudi.action.mdt.index_defs import read_definitions
from pudi.action.table_keys import key_generator
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import Expr
from pudi.format.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pudi.metadata import MetadataTable, partitions_listed
from pudi.metadata.keys import secondary_prefixes, split_secondary_keys
from pudi.metadata.secondary import certain_texts, may_be_looked_up
from pudi.metadata.shards import FILE_ID, RecordShards
from pudi.metadata.table import map_parallel
from pudi.plan import ReadPlan
from pudi.plan.lookup import MOST_VALUES, asked_keys, asked_values
from pudi.schema import PARTITION_PATH, RECORD_KEY

_FIRST_OF_V2 = 9
"""Table version from which on secondary indexes are of version 2 where nothing else is said."""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Where the records are that a predicate asks for.

    Attributes:
        index: the index that was asked by the predicate's values.
        groups: partition path and file id of each file group that holds one.
    """

    index: str
    groups: frozenset[tuple[str, str]]


def look_up(plan: ReadPlan, meta: MetaClient, table: MetadataTable) -> LookupResult | None:
    """The file groups that hold the records which a read asks for by key or by an indexed value.

    Args:
        plan: a read of the table's newest state; no slices need be in it.
        meta: the table.
        table: its metadata table at that state.

    Returns:
        None where the predicate doesn't ask for records by key, or no index can say where they are.

    Raises:
        CorruptError: an index can't be read.
        NotFoundError: a file of an index is gone, cleaned meanwhile.
    """
    if plan.where is None or RECORD_INDEX not in table.partitions or plan.history is not None:
        return None
    index, keys = RECORD_INDEX, keys_asked(plan.where, meta, plan.schema)
    if keys is None:
        index, keys = _by_value(plan.where, meta, table, plan.schema)
    if keys is None:
        return None
    groups = _groups(plan, meta, table, keys)
    return None if groups is None else LookupResult(index, groups)


def keys_asked(where: Expr, meta: MetaClient, schema: pa.Schema) -> pa.Array | None:
    """The record keys that a predicate asks for; None where it asks for none."""
    named = None if RECORD_KEY not in schema.names else asked_values(where, RECORD_KEY)
    if named is not None:
        return pa.array(sorted(map(str, named)), pa.string())
    config = meta.config
    if not config.record_key_fields:
        return None
    rows = asked_keys(where, config.record_key_fields, schema)
    if rows is None:
        return None
    # below version 9 nothing says whether the name of a single column stands before its value
    spellings = (True,) if config.version >= _FIRST_OF_V2 else (True, False)
    try:
        found = [key_generator(config, names_single=each).record_keys(rows) for each in spellings]
    except (InvalidArgumentError, NotSupportedError):  # no key matches, or pudi can't evaluate the condition
        return None
    return pa.chunked_array([chunk for keys in found for chunk in keys.chunks], pa.string()).unique()


def _by_value(where: Expr, meta: MetaClient, table: MetadataTable, schema: pa.Schema) -> tuple[str, pa.Array | None]:
    """The keys of the records that have a value which a predicate asks for, and the index that says so."""
    names = [name for name in table.partitions if name.startswith(SECONDARY_INDEX_PREFIX)]
    definitions = read_definitions(meta) if names else {}
    for name in names:
        definition = definitions.get(name) or {}
        fields = definition.get("sourceFields")
        if not isinstance(fields, list) or len(fields) != 1 or fields[0] not in schema.names:
            continue
        values = asked_values(where, fields[0], may_be_looked_up)
        if values is None or len(values) > MOST_VALUES:
            continue
        texts = certain_texts(values, schema.field(fields[0]).type)
        if texts is None:
            continue
        version = str(definition.get("version") or ("V2" if meta.config.version >= _FIRST_OF_V2 else "V1"))
        if table.shards(name).is_empty or name in table.ever_invalidated:
            continue
        prefixes = secondary_prefixes(pa.array(texts, pa.string())).to_pylist()
        records = table.read(name, prefixes=prefixes, whole_key=version == "V1")
        return name, split_secondary_keys(records["key"].combine_chunks())[1].unique()
    return "", None


def _groups(
    plan: ReadPlan, meta: MetaClient, table: MetadataTable, keys: pa.Array
) -> frozenset[tuple[str, str]] | None:
    """The file groups that hold record keys, in partitions that may hold wanted rows; None where that isn't sure."""
    shards = table.shards(RECORD_INDEX)
    if shards.is_empty:  # Hudi's CREATE INDEX can take back what was built, and leaves it named as ready
        return None
    index = RecordShards.of(table.storage, shards.all, table.scope, partitioned=shards.partitioned)
    owners: Sequence[str | None] = [None]
    if index.partitioned:
        partitions = plan.prune_partitions(partitions_listed(table), meta.keys)
        if not index.ranges.keys() >= set(partitions):  # of what a partition without an index holds nothing is known
            return None
        owners = partitions
    asked: list[tuple[int, pa.Array]] = []
    for owner in owners:
        numbers = index.shards_of(keys, owner)
        asked += [
            (int(number), keys.filter(pa.array(numbers == number))) for number in np.unique(numbers) if number >= 0
        ]
    found = map_parallel(lambda each: index.find(*each).select([PARTITION_PATH, FILE_ID]).to_pylist(), asked)
    if sum(map(len, found)) < sum(len(each) for _, each in asked) and RECORD_INDEX in table.ever_invalidated:
        return None
    groups = {(row[PARTITION_PATH], row[FILE_ID]) for rows in found for row in rows}
    held = set(plan.prune_partitions({partition for partition, _ in groups}, meta.keys))
    return frozenset(group for group in groups if group[0] in held)
