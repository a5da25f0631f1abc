"""Refuse changes of columns that a role of the column forbids, or that Hudi could not read."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from pudi.client.inflight_builds import maintained_partitions
from pudi.client.meta_client import MetaClient
from pudi.errors import NotSupportedError, SchemaError
from pudi.format.metadata_partitions import EXPRESSION_INDEX_PREFIX, SECONDARY_INDEX_PREFIX
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.index_defs import defined_index
from pudi.record import field_of
from pudi.schema import field_at
from pudi.schema.internal import InternalSchema


def check_nameable(schema: pa.Schema, root: str) -> None:
    """Refuse columns whose type Hudi can't read in a schema by ids.

    Args:
        schema: the table's columns after the change.
        root: the table's root.

    Raises:
        NotSupportedError: a column, or a part of one, holds timestamps without a time zone.
    """
    for field in schema:
        if _holds_local_time(field.type):
            raise NotSupportedError(
                f"column {field.name!r} holds timestamps without a time zone: Hudi 1.2 can't read the name of that "
                "type in a schema by ids, and could no longer read the table; write the data into a new table",
                table=root,
            )


def _holds_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_holds_local_time(kind.field(number).type) for number in range(kind.num_fields))


def _is_text(kind: pa.DataType) -> bool:
    return bool(kind in {pa.string(), pa.binary()} or pa.types.is_date(kind))


def check_indexed(meta: MetaClient, before: InternalSchema, after: InternalSchema) -> None:
    """Refuse to change columns of secondary and expression indexes, which know their values under the column's name.

    Args:
        meta: the table.
        before: the schema before the change.
        after: the schema after it.

    Raises:
        SchemaError: the column of an index changes.
    """
    old, new = before.arrow(), after.arrow()
    for partition in maintained_partitions(meta):
        if not partition.startswith((SECONDARY_INDEX_PREFIX, EXPRESSION_INDEX_PREFIX)):
            continue
        for name in defined_index(meta, partition).columns:
            kind = leaf_type(old, name)
            if kind is not None and kind != leaf_type(new, name):
                raise SchemaError(
                    f"the index {partition} is of column {name!r}: drop the index, change the column, and create the "
                    "index again",
                    table=meta.storage.root,
                )


def check_roles(meta: MetaClient, before: InternalSchema, after: InternalSchema) -> None:
    """Refuse to drop or rename key, partition and ordering columns, and type changes that alter keys or order.

    Args:
        meta: the table.
        before: the schema before the change.
        after: the schema after it.

    Raises:
        SchemaError: the change is one of these.
    """
    config = meta.config
    fixed: Collection[str] = {*config.record_key_fields, *config.partition_fields}
    old, new = before.arrow(), after.arrow()
    for name in {*fixed, *config.ordering_fields}:
        if field_at(old, name) is None:
            continue  # the properties of some tables name an ordering field that no record has
        try:
            kinds = field_of(old, name).type, field_of(new, name).type
        except SchemaError as error:
            raise SchemaError(
                f"column {name!r} is a key, partition or ordering column: it can be neither renamed nor dropped",
                table=meta.storage.root,
            ) from error
        numbers = name not in fixed and not any(map(_is_text, kinds))
        if not numbers and not kinds[0].equals(kinds[1]) and not all(pa.types.is_integer(kind) for kind in kinds):
            raise SchemaError(
                f"column {name!r} is a key, partition or ordering column; as {kinds[1]} instead of {kinds[0]} the same "
                "values would make other keys or another order",
                table=meta.storage.root,
            )
