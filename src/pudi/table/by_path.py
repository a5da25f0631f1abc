"""Tables by their path, in one call: written, read, looked for, without a `Table` to hold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from pudi.catalogs import is_place
from pudi.client import CommitResult
from pudi.client.properties import read_properties
from pudi.config.arguments import names_given, path_given
from pudi.context import Context
from pudi.engine import is_spark_frame
from pudi.engine.local.records import to_arrow
from pudi.errors import CorruptError, InvalidArgumentError, TableExistsError, TableNotFoundError
from pudi.plan import Operation
from pudi.scan import Scan
from pudi.storage import open_storage
from pudi.table.catalogs import root_of
from pudi.table.create import check_engine, create, first_write
from pudi.table.table import Table, find_table

if TYPE_CHECKING:
    import polars as pl

_OPERATIONS = {
    "append": Operation.INSERT,
    "overwrite": Operation.INSERT_OVERWRITE_TABLE,
    "upsert": Operation.UPSERT,
    "error": Operation.BULK_INSERT,
    "ignore": Operation.BULK_INSERT,
}
"""The operation in a table that is there, by mode; `error` and `ignore` write to none."""


def write(
    path: str | os.PathLike[str],
    data: Any,
    *,
    mode: str = "append",
    record_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CommitResult | None:
    """Write data to a table, which is made with the data's columns if there is none.

    Args:
        path: the table's root, or the place in a catalog of a table that is there: `hive://host:9083/db.trips`.
        data: records: a Spark DataFrame, or anything that offers an Arrow stream.
        mode: `append` adds the records without looking for their keys, as `Table.insert`; `upsert` updates those whose
            key is there, as `Table.upsert`; `overwrite` replaces all records, and keeps the table's properties and
            history, as `Table.insert_overwrite_table`; `error` and `ignore` write only where no table is. The first
            write of a new table is a bulk insert in all modes but `upsert`.
        record_key: as of `pudi.create`; of a table that is there it must be the table's.
        partition_by: as `record_key`.
        ordering: as `record_key`.
        options: Hudi's option keys, as of `pudi.create` and `Table`.
        storage_options: credentials and settings of the storage.

    Returns:
        What was done; None if there were no records, and where `ignore` finds a table.

    Raises:
        TableExistsError: there is a table, and the mode is `error`.
        TableNotFoundError: there is no table at a place in a catalog.
        InvalidArgumentError: an unknown mode, record key, partition or ordering columns that aren't the table's, an
            `upsert` that would make a table without a record key; null keys, a wrong option.
        SchemaError: a column is missing, unknown, or of a type that Hudi tables can't hold.
        NotSupportedError: the table can't be written by this release.
        ConflictError: other writers won; nothing of this write is visible.
    """
    root = path_given(path)
    if mode not in _OPERATIONS:
        raise InvalidArgumentError(f"mode={mode!r}: it is one of {', '.join(_OPERATIONS)}", table=root)
    roles: dict[str, Any] = {
        "record_key": names_given(record_key, "record_key", root),
        "partition_by": names_given(partition_by, "partition_by", root),
        "ordering": names_given(ordering, "ordering", root),
    }
    table, operation = find_table(root, options, storage_options), _OPERATIONS[mode]
    if table is None:
        if is_place(root):
            raise TableNotFoundError(
                "there is no table of that name in the catalog; make it by pudi.catalog(…).create_table(name, path, "
                "data)",
                table=root,
            )
        if mode == "upsert" and not roles["record_key"]:
            raise InvalidArgumentError(
                "mode='upsert' finds records by their key: give record_key for a new table", table=root
            )
        check_engine(data, root)
        data = data if is_spark_frame(data) else to_arrow(data, root)
        table = create(root, data, **roles, options=options, storage_options=storage_options)
        with first_write(table):
            return table.write(data, operation if mode == "upsert" else Operation.BULK_INSERT)
    if mode == "error":
        raise TableExistsError("there is a table already; use mode append, overwrite, upsert or ignore", table=root)
    if mode == "ignore":
        return None
    _check_roles(table, roles)
    return table.write(data, operation)


def _check_roles(table: Table, roles: Mapping[str, Sequence[str]]) -> None:
    """Refuse columns of a role that aren't those of a table that is there."""
    config = table.config
    known = {
        "record_key": config.record_key_fields,
        "partition_by": config.partition_fields,
        "ordering": config.ordering_fields,
    }
    for role, given in roles.items():
        if given and tuple(name.split(":", 1)[0] for name in given) != known[role]:
            raise InvalidArgumentError(
                f"{role} is {', '.join(given)}, the table's is {', '.join(known[role]) or 'none'}, and can't be "
                "changed; leave it out, or write to another path",
                table=table.path,
            )


def read(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    as_of: str | date | None = None,
    read_optimized: bool = False,
    meta_fields: bool = False,
    limit: int | None = None,
    keys: Any = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Scan:
    """Return a scan of a table as it is, or as it was: `Table(path).scan(…)`, without meta fields unless asked for.

    Args:
        path: the table's root, or its place in a catalog, as of `Table`.
        columns: as of `Table.scan`, as the other arguments up to `keys`.
        where: a SQL predicate.
        as_of: the moment to read the table at.
        read_optimized: base files only.
        meta_fields: whether the meta fields come with all columns.
        limit: how many rows come back at most.
        keys: the small side of a join.
        options: the table's options.
        storage_options: credentials and settings of the storage.

    Raises:
        TableNotFoundError: there is no table.
        PudiError: as `Table` and `Table.scan` raise it.
    """
    table = Table(path, options, storage_options)
    return table.scan(
        columns,
        where,
        as_of=as_of,
        read_optimized=read_optimized,
        meta_fields=meta_fields,
        limit=limit,
        keys=keys,
    )


def exists(path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> bool:
    """Return whether there is a Hudi table, of any kind and version.

    Args:
        path: its root, or its place in a catalog, as of `Table`.
        storage_options: credentials and settings of the storage.

    Raises:
        RefusedError: the storage refuses to say, for lack of rights.
        UnavailableError: the storage or the catalog doesn't answer.
        InvalidArgumentError: the path isn't one.
    """
    try:
        read_properties(open_storage(root_of(path_given(path), {}), storage_options), Context())
    except TableNotFoundError:
        return False
    except CorruptError:  # of a table that is there
        return True
    return True


def scan_polars(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    as_of: str | date | None = None,
    read_optimized: bool = False,
    meta_fields: bool = False,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pl.LazyFrame:
    """Return a polars LazyFrame of a table as it is, or as it was.

    Columns, filters and `head` of its queries skip partitions, files and row groups; see `Scan.to_polars`.

    Args:
        path: the table's root, as of `Table`.
        columns: as of `Table.scan`, as the other arguments up to `meta_fields`.
        where: a SQL predicate.
        as_of: the moment to read the table at.
        read_optimized: base files only.
        meta_fields: whether the meta fields come with all columns.
        options: the table's options.
        storage_options: credentials and settings of the storage.

    Raises:
        TableNotFoundError: there is no table.
        SetupError: polars isn't installed.
        PudiError: as `Table` and `Table.scan` raise it.
    """
    table = Table(path, options, storage_options)
    scan = table.scan(columns, where, as_of=as_of, read_optimized=read_optimized, meta_fields=meta_fields)
    return scan.to_polars(lazy=True)
