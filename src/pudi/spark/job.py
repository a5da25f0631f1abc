"""One write as a Hudi job says it: a frame, a path, an option map and a save mode in, a commit out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from pudi.client import CommitResult
from pudi.commit.conditions import SoleProgress
from pudi.config import Options, TableConfig, WriteOptions, names_in, resolve
from pudi.config.arguments import text_given
from pudi.engine import is_spark_frame
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError, TableExistsError, TableNotFoundError
from pudi.filegroup.listing import check_none_below
from pudi.format import HOODIE_DIR, PROPERTIES, PROPERTIES_BACKUP
from pudi.plan import Operation
from pudi.record import matching_paths
from pudi.schema import RECORD_KEY, normalise, spark_struct_to_arrow, without_meta_fields
from pudi.storage import canonical_root, delete_folder, open_storage
from pudi.table import Table, create
from pudi.table.base import client_of
from pudi.table.create import check_engine, first_write
from pudi.table.table import find_table
from pudi.writes.prerequisites import check_services_around


class SaveMode(str, Enum):
    """Behaviour of a write to an existing table (Spark's SaveMode, as HoodieSparkSqlWriter interprets it)."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"

    @classmethod
    def parse(cls, text: str) -> SaveMode:
        """The mode of a name as Spark spells it.

        Raises:
            InvalidArgumentError: the mode does not exist.
        """
        given = text_given(text, "mode").lower()
        name = {"errorifexists": "error", "default": "error"}.get(given, given)
        try:
            return cls(name)
        except ValueError:
            raise InvalidArgumentError(f"mode {text!r}: it is append, overwrite, ignore or error") from None


@dataclass(frozen=True, slots=True)
class WriteJob:
    """A write to a table that may not be there yet.

    Args:
        path: the table's root.
        options: Hudi's option keys.
        storage_options: credentials and settings of the storage.
    """

    path: str
    options: Mapping[str, str]
    storage_options: Mapping[str, str] | None = None

    def run(
        self,
        frame: Any,
        mode: SaveMode,
        extra_metadata: Mapping[str, str] | None = None,
        since: str | None = None,
        progress: SoleProgress | None = None,
    ) -> CommitResult | None:
        """Write a DataFrame by the operation that the options name, `upsert` by default.

        Args:
            frame: the records.
            mode: what to do when there is a table.
            extra_metadata: more to say in the commit.
            since: refuse the write if its target changed after this instant; None to skip the check.
            progress: the query that the write is a batch of; None if it's none.

        Raises:
            InvalidArgumentError: an option or the mode is wrong, or the data doesn't fit.
            TableExistsError: there is a table, and the mode is `error`.
            TableNotFoundError: there is no table to delete from.
            NotSupportedError: an option asks for what this release lacks.
        """
        if not is_spark_frame(frame):
            raise InvalidArgumentError(
                f"pudi.spark takes a Spark DataFrame, not a {type(frame).__name__}: use the verbs of pudi.Table",
                table=self.path,
            )
        return self._run(frame, mode, extra_metadata, since, progress)

    def append(
        self,
        rows: pa.Table,
        extra_metadata: Mapping[str, str] | None = None,
        progress: SoleProgress | None = None,
    ) -> CommitResult | None:
        """Write rows that are in memory, by the local engine; otherwise as `run` in mode append."""
        return self._run(rows, SaveMode.APPEND, extra_metadata, None, progress)

    def ensure_table(self, schema: pa.Schema) -> Table:
        """Return the table; create it by the options if it doesn't exist.

        Args:
            schema: its columns then.
        """
        return self.table() or self._create(schema, resolve(self.options, table=self.path))

    def check_columns(self, names: Sequence[str]) -> None:
        """Check before a query starts that its rows have the columns that the options name for a new table.

        Args:
            names: the columns of the rows.

        Raises:
            SchemaError: one is missing.
        """
        if self.table() is not None:
            return
        resolved = resolve(self.options, table=self.path)
        for option in (TableConfig.record_key, TableConfig.partition_by, TableConfig.ordering):
            for name in names_in(resolved[option]):
                if re.split("[.:]", name)[0] not in names:  # a field of a struct, or with the kind of its partition
                    raise SchemaError(
                        f"{option.job_keys[0]} names {name!r}, which is not among {', '.join(names)}", table=self.path
                    )

    def _run(
        self,
        frame: Any,
        mode: SaveMode,
        extra_metadata: Mapping[str, str] | None,
        since: str | None,
        progress: SoleProgress | None,
    ) -> CommitResult | None:
        resolved = resolve(self.options, table=self.path)
        operation = Operation[resolved[WriteOptions.operation].upper()]
        deletes = operation in {Operation.DELETE, Operation.DELETE_PARTITION}
        if deletes and mode is not SaveMode.APPEND:
            raise InvalidArgumentError("append is the only mode for a delete", table=self.path)
        if since is not None and mode is not SaveMode.APPEND:
            raise InvalidArgumentError("append is the only mode for if_unchanged_since", table=self.path)
        table = self.table()
        if table is not None and mode is SaveMode.ERROR:
            raise TableExistsError("there is a table already; use mode append or overwrite", table=self.path)
        if table is not None and mode is SaveMode.IGNORE:
            return None
        replaces = mode is SaveMode.OVERWRITE and operation is not Operation.INSERT_OVERWRITE_TABLE
        operation = self._by_key(operation, resolved, None if replaces else table, frame)
        if table is None or replaces:
            check_engine(frame, self.path)
        if replaces:
            if table is not None:
                check_services_around(client_of(table), resolved)
            self._clear(frame)
            table = None
        if table is None:
            if deletes or since is not None:
                what = "to delete from" if deletes else f"that could be unchanged since {since}"
                raise TableNotFoundError(f"there is no table {what}", table=self.path)
            table = self._create(_schema_of(frame), resolved)
            with first_write(table):
                return table._write(frame, operation, None, extra_metadata, since, progress)
        if operation is Operation.DELETE_PARTITION:
            named = self._partitions(frame, table, resolved)
            return table.delete_partitions(named, if_unchanged_since=since, extra_metadata=extra_metadata)
        return table._write(frame, operation, None, extra_metadata, since, progress)

    def _partitions(self, frame: Any, table: Table, resolved: Options) -> list[str]:
        """The partitions that options name, `*` standing for any text, or those that the records fall into."""
        wanted = names_in(resolved[WriteOptions.partitions_to_delete])
        if not wanted:
            return table.partitions_of(frame)
        return matching_paths(wanted, table.partitions())

    def table(self) -> Table | None:
        """Return the table; None without one."""
        return find_table(self.path, self.options, self.storage_options)

    def _by_key(self, operation: Operation, resolved: Options, table: Table | None, frame: Any) -> Operation:
        """The operation, where there are record keys to do it by; the default becomes an insert without them.

        A table without a record key takes rows that were read from it, with the keys that Hudi generated.

        Raises:
            NotSupportedError: it was asked for, and the table has no record key.
        """
        keys = names_in(resolved[TableConfig.record_key]) if table is None else table.config.record_key_fields
        if keys or operation not in {Operation.UPSERT, Operation.DELETE}:
            return operation
        if table is not None and RECORD_KEY in _names_of(frame):
            return operation
        if resolved.explicit(WriteOptions.operation) is None:
            return Operation.INSERT  # as Hudi does
        raise NotSupportedError(
            f"{operation.value.lower()} needs record keys: give {TableConfig.record_key.job_keys[0]}, or write "
            "by insert or bulk_insert, which generate keys where there are none",
            table=self.path,
        )

    def _create(self, schema: pa.Schema, resolved: Options) -> Table:
        return create(
            self.path,
            without_meta_fields(schema),
            record_key=names_in(resolved[TableConfig.record_key]),
            partition_by=names_in(resolved[TableConfig.partition_by]),
            ordering=names_in(resolved[TableConfig.ordering]),
            table_type=resolved[TableConfig.table_type],
            name=resolved[TableConfig.table_name],
            options=self.options,
            storage_options=self.storage_options,
        )

    def _clear(self, frame: Any) -> None:
        """Delete everything at the path, as Hudi does before it recreates the table.

        Raises:
            InvalidArgumentError: the frame reads from there.
        """
        normalise(spark_struct_to_arrow(frame.schema.json()))  # an impossible schema must not cost the old table
        storage = open_storage(self.path, self.storage_options)
        if next(iter(storage.list(HOODIE_DIR)), None) is None:
            return  # no table, nor what an overwrite left that was cut short: other files are not ours to delete
        below = urlsplit(canonical_root(storage.root)).path.rstrip("/") + "/"
        if any(unquote(urlsplit(uri).path).startswith(below) for uri in frame.inputFiles()):
            raise InvalidArgumentError("the data is read from the table that it would overwrite", table=self.path)
        check_none_below(storage)
        storage.delete([PROPERTIES, PROPERTIES_BACKUP])  # first: half a table must not be read as one
        delete_folder(storage, "")


def _schema_of(data: Any) -> pa.Schema:
    return data.schema if isinstance(data, pa.Table) else spark_struct_to_arrow(data.schema.json())


def _names_of(data: Any) -> list[str]:
    return list(data.column_names if isinstance(data, pa.Table) else data.columns)
