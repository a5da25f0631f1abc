"""Create a table: check the request, write the properties, which creates the table, and build its indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from posixpath import basename

import pyarrow as pa

from pudi.client import MetaClient, TableProperties
from pudi.client.find_index import check_index_options
from pudi.client.properties import check_no_table, create_properties
from pudi.config import TableConfig, check_readable, check_writable, resolve
from pudi.config.new_table import NewTable
from pudi.context import Context, Storage
from pudi.errors import (
    CorruptError,
    InvalidArgumentError,
    NotSupportedError,
    RefusedError,
    SchemaError,
    TableExistsError,
)
from pudi.filegroup.listing import is_table_root
from pudi.format import nested_root
from pudi.indexing.build_by_options import build_for_new
from pudi.merge import check_delete_marker, unordered
from pudi.merge.deletes import check_given_columns
from pudi.record import check_key_types
from pudi.schema import META_FIELDS, arrow_to_avro, normalise, root_of
from pudi.schema.writing import may_promote
from pudi.storage import executor_of, local_path, open_storage, system_error, whole_place
from pudi.writes.prerequisites import check_services_around


def check_apart(storage: Storage, storage_options: Mapping[str, str] | None, context: Context) -> None:
    """Refuse a root inside of another table of Hudi, Delta or Iceberg, or above one.

    Each would take the other's files for its own, or for orphans.

    Args:
        storage: the root of a table to be.
        storage_options: the user's.
        context: clock and chance.

    Raises:
        InvalidArgumentError: there is another table.
    """
    top, folder = whole_place(storage.root)
    above = [folder[:end] for end in [0, *(at for at, char in enumerate(folder) if char == "/")]] if folder else []
    around = open_storage(top, storage_options, context=context)
    for other in executor_of(around).map(partial(_table_at, around), above):
        if other is not None:
            raise InvalidArgumentError(
                f"this is inside of another table, at {top.rstrip('/')}/{other}: each would take the other's files for "
                "its own; choose a path beside it",
                table=storage.root,
            )
    for info in storage.list():
        below = nested_root(info.path)
        if below is not None:
            raise InvalidArgumentError(
                f"there is another table below, at {below}: each would take the other's files for its own; choose "
                "another path",
                table=storage.root,
            )


def _table_at(storage: Storage, folder: str) -> str | None:
    """Return the folder if it is the root of a table; None too where the caller has no rights to look."""
    try:
        return folder if is_table_root(storage, folder) else None
    except (RefusedError, InvalidArgumentError, CorruptError):
        return None


TABLE_TYPES = {
    "cow": "COPY_ON_WRITE",
    "mor": "MERGE_ON_READ",
    "COPY_ON_WRITE": "COPY_ON_WRITE",
    "MERGE_ON_READ": "MERGE_ON_READ",
}
"""Types of tables by the values of `table_type`."""


def create_table(
    path: str,
    schema: pa.Schema,
    *,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    ordering: Sequence[str],
    table_type: str,
    name: str | None,
    options: Mapping[str, str],
    storage_options: Mapping[str, str] | None,
    context: Context | None = None,
) -> MetaClient:
    """Make a new table without commits; see `pudi.create`.

    Raises:
        TableExistsError: there is a table already.
        SchemaError: a column has a type that Hudi tables can't hold, or a name is missing or reserved.
        InvalidArgumentError: settings contradict each other.
        NotSupportedError: a table of that kind can't be written by this release.
    """
    context = context or Context()
    storage = open_storage(path, storage_options, context=context)
    if table_type not in TABLE_TYPES:
        raise InvalidArgumentError(f"table_type={table_type!r}: it is 'cow' or 'mor'", table=storage.root)
    columns = normalise(schema)
    _check_columns(
        columns, {"record_key": record_key, "partition_by": partition_by, "ordering": ordering}, storage.root
    )
    table_name = name or basename(storage.root.rstrip("/"))
    resolved = resolve(options, table=storage.root)

    def config_of(columns: pa.Schema) -> TableConfig:
        new = NewTable(
            name=table_name,
            create_schema=arrow_to_avro(columns, table_name),
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=TABLE_TYPES[table_type],
        )
        return TableConfig.new(new, resolved, table=storage.root)

    config = config_of(columns)
    check_readable(config, storage.root)
    if config.drop_partition_columns:
        columns = _with_text_partitions(columns, config.partition_fields, storage.root)
        config = config_of(columns)
    check_writable(config, storage.root, resolved)
    check_index_options(config, resolved, storage.root)
    meta = MetaClient.of(storage, TableProperties(config), options, context)
    check_key_types(meta.keys, columns, table=storage.root)
    _check_ordering(columns, config.ordering_fields, storage.root)
    check_delete_marker(config.delete_marker, columns, table=storage.root)
    check_no_table(storage)
    _check_no_timeline(meta)
    check_apart(storage, storage_options, context)
    check_services_around(meta, resolved)
    _make_timeline_folder(meta)
    create_properties(meta.storage, config.to_properties(), context)
    build_for_new(meta, resolved)
    return meta


def _with_text_partitions(columns: pa.Schema, partitions: Sequence[str], table: str) -> pa.Schema:
    """Return a table's columns with the partition columns behind the others, as readers get them from paths.

    Raises:
        NotSupportedError: a column's values aren't what the text of its folder says.
    """
    for name in partitions:
        kind = columns.field(name).type
        if kind != pa.string() and not (may_promote(kind, pa.string()) and kind != pa.binary()):
            raise NotSupportedError(
                f"{TableConfig.drop_partition_columns}=true with partition column {name!r} of type {kind}: readers get "
                "the text of its folder, and Hudi can't write again what it is; make it a column of text, integers or "
                "dates",
                table=table,
            )
    others = [field for field in columns if field.name not in partitions]
    return pa.schema([*others, *(pa.field(name, pa.string()) for name in partitions)])


def _check_no_timeline(meta: MetaClient) -> None:
    """Refuse a folder with commits but no properties: a new table would adopt the files of the old one."""
    files, _ = meta.storage.list_dir(meta.store.folder)
    if files:
        raise TableExistsError(
            f"there is no hoodie.properties here, but a timeline of {len(files)} files: a table that lost its "
            "properties; restore hoodie.properties, or take another path",
            table=meta.storage.root,
            path=meta.store.folder,
        )


def _make_timeline_folder(meta: MetaClient) -> None:
    """Create the timeline folder on file systems: Hudi can't open a table without it (ActiveTimelineV2)."""
    folder = local_path(meta.storage, meta.store.folder)
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            root = meta.storage.root
            raise system_error(error, "the table's folder can't be made", table=root, path=meta.store.folder) from error
        meta.storage.sync([meta.store.folder])


def _check_columns(schema: pa.Schema, roles: Mapping[str, Sequence[str]], table: str) -> None:
    reserved = [name for name in schema.names if name in META_FIELDS]
    if reserved:
        raise SchemaError(f"column {reserved[0]} is a meta field of Hudi's; leave it out of the schema", table=table)
    check_given_columns(schema, (), table)
    if len(set(schema.names)) != len(schema.names):
        raise SchemaError("a column name comes twice in the schema", table=table)
    if not schema.names:
        raise SchemaError("the schema has no columns", table=table)
    for role, names in roles.items():
        for name in names:
            column = name.split(":", 1)[0] if role == "partition_by" else name
            if root_of(column) not in schema.names:
                raise SchemaError(f"{role} names {name!r}, which is not among {', '.join(schema.names)}", table=table)


def _check_ordering(schema: pa.Schema, ordering: Sequence[str], table: str) -> None:
    """Refuse ordering fields that don't exist or have no order, including those that a payload class implies."""
    fault = next(unordered(ordering, schema), None)
    if fault is not None:
        raise SchemaError(f"ordering names {fault}", table=table)
