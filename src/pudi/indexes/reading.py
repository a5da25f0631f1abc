"""A scan's look-ups in indexes: which file slices it may skip, and where wanted records are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.client.meta_client import MetaClient
from pudi.client.table_keys import key_generator
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.metadata import MetadataTable
from pudi.plan import ReadPlan
from pudi.plan.lookup import key_values_in_predicate, values_in_predicate
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array

_FIRST_WITH_NAMES = 9
"""Table version from which on the properties say whether keys of one column hold the column's name."""


@dataclass(frozen=True, slots=True)
class IndexRead:
    """A read that asks indexes.

    Attributes:
        meta: the table.
        table: its metadata table.
        millis: columns whose statistics may be in milliseconds or in microseconds, or about nulls that stand in for
            what the path says.
    """

    meta: MetaClient
    table: MetadataTable
    millis: frozenset[str] = frozenset()

    def by_keys(self, partition: str, keys: pa.Array) -> pa.Table:
        """Read the records of a partition of the metadata table that have some keys."""
        return self.table.read(partition, keys=keys)

    def by_prefixes(self, partition: str, prefixes: Sequence[str]) -> pa.Table:
        """Read the records of a partition of the metadata table whose keys start with one of the prefixes."""
        return self.table.read(partition, prefixes=prefixes)


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The file groups of the records that a predicate asks for.

    Attributes:
        index: the index that was asked by the predicate's values.
        groups: partition path and file id of each file group; None if the index must not be used.
        unused: why it must not be used.
    """

    index: str
    groups: frozenset[tuple[str, str]] | None
    unused: str = ""


def keys_of_read(plan: ReadPlan, meta: MetaClient) -> pa.Array | None:
    """Return the record keys that all rows of a read have; None if these are unknown."""
    where, joined, schema = plan.where, plan.keys, plan.schema
    if joined is not None and RECORD_KEY in joined.rows.column_names:
        return one_array(joined.rows[RECORD_KEY]).unique()
    named = None if where is None or RECORD_KEY not in schema.names else values_in_predicate(where, RECORD_KEY)
    if named is not None:
        return pa.array(sorted(map(str, named)), pa.string())
    config = meta.config
    if not config.record_key_fields:
        return None
    rows = None if where is None else key_values_in_predicate(where, config.record_key_fields, schema)
    if joined is not None and set(config.record_key_fields) <= set(joined.rows.column_names):
        rows = joined.rows.select(list(config.record_key_fields))
    if rows is None:
        return None
    # below version 9 no property states whether a single-column key includes the column's name
    spellings = (True,) if config.version >= _FIRST_WITH_NAMES else (True, False)
    try:
        found = [key_generator(config, names_single=each).record_keys(rows) for each in spellings]
    except (InvalidArgumentError, NotSupportedError):  # no key matches, or pudi can't evaluate the condition
        return None
    return pa.chunked_array([chunk for keys in found for chunk in keys.chunks], pa.string()).unique()
