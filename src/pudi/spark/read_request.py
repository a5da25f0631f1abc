"""A read as options state it: those of `spark.read.format("pudi")`, which are Hudi's, in; a scan out.

Spark stores the schema that a Python data source states, and hands readers and writers of a catalog's table this
schema, but neither location nor options (tried with 4.3). So the options are put into the metadata of the first column.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pudi.client import MetaClient, TableSnapshot
from pudi.config import FormatOptions, Option, names_in, spelled
from pudi.config.arguments import path_given
from pudi.config.option import text_of
from pudi.errors import InvalidArgumentError, NotSupportedError, naming
from pudi.scan.change_batches import BatchLimits, newest_offset
from pudi.spark.builders import OptionBuilder
from pudi.spark.streaming.batches import ChangedRows, ChangesRequest
from pudi.table import Table

_PATH = "path"
_STORAGE = "storage."
"""Prefix of the keys of storage options."""
_CATALOG = frozenset({"owner", "location", "provider", "comment", "external", "is_managed_location", "collation"})
"""Properties of a catalog's table that Spark gives along (TableCatalog)."""
_CATALOG_OPTION = "option."
"""Prefix of the copies of options that a catalog's table keeps (TableCatalog.OPTION_PREFIX)."""
_KEY = "pudi"
"""Key of the options that a catalog's table keeps, in the metadata of its first column."""
_RAW_TYPE, _LONGEST = "__CHAR_VARCHAR_TYPE_STRING", "varchar(2147483647)"
"""Marks a text column as a varchar (CharVarcharUtils)."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Request of a read; picklable.

    Attributes:
        path: the table's root.
        view: the options of the read.
        options: the other options, of the table.
        storage_options: credentials and settings of the storage.
        in_catalog: whether Spark asks for the table of a catalog.
    """

    path: str
    view: FormatOptions
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = None
    in_catalog: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str], storage_options: Mapping[str, str] | None = None) -> ReadRequest:
        """Parse options.

        Args:
            given: the options, keys in any case; `storage.…` is an option of the storage.
            storage_options: further options of the storage.

        Raises:
            InvalidArgumentError: the path is missing, an option is unknown or has a wrong value, or two exclude each
                other.
        """
        values, others, storage = _divided(given)
        path = others.pop(_PATH, None)
        in_catalog = "provider" in others
        others = {key: value for key, value in others.items() if not _of_catalog(key)}
        if not path:
            raise InvalidArgumentError("format('pudi') needs a path: .load(path), or USING pudi LOCATION 'path' in SQL")
        view = FormatOptions(values)
        with naming(None, path):
            _check_query(view)
        both = {**(storage_options or {}), **storage}
        return cls(path, view, others, both or None, in_catalog)

    @property
    def table(self) -> Table:
        """The table."""
        return Table(self.path, options=self.options, storage_options=self.storage_options)

    @property
    def meta(self) -> MetaClient:
        """The table, as a stream looks at it."""
        return MetaClient.open(self.path, self.storage_options, self.options)

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that are asked for; None for all."""
        return None if self.view.columns is None else names_in(self.view.columns)

    @property
    def meta_fields(self) -> bool:
        """Whether the meta fields come with all columns."""
        return not self.in_catalog if self.view.meta_fields is None else self.view.meta_fields

    def scan(self, columns: Sequence[str] | None = None) -> ChangedRows:
        """The read; of changes without a beginning, which only streams have, none.

        Args:
            columns: in place of the columns that the options name.

        Raises:
            TableNotFoundError: there is no table.
            InvalidArgumentError: an unknown column, a wrong predicate or point in time.
        """
        table, view = self.table, self.view
        wanted = self.columns if columns is None else columns
        if view.query == "incremental":
            begin = newest_offset(TableSnapshot.load(self.meta)) if view.begin is None else view.begin
            return replace(self.changes, columns=wanted).scan_from(table, begin, view.end)
        optimized = view.query == "read_optimized" or (view.query == "snapshot" and view.as_read_optimized)
        meta = self.meta_fields
        return table.scan(wanted, view.where, as_of=view.as_of, read_optimized=optimized, meta_fields=meta)

    @property
    def changes(self) -> ChangesRequest:
        """Return the request of a stream for the table's changes."""
        changes_format = "cdc" if self.view.changes_format == "cdc" else "latest"
        lost = self.view.fail_on_data_loss
        return ChangesRequest(self.columns, self.view.where, changes_format, self.meta_fields, lost)

    @property
    def limits(self) -> BatchLimits:
        """Return the limits of a stream's batch."""
        return BatchLimits(records=self.view.max_rows, files=self.view.max_files, size=self.view.max_bytes)

    def for_batch(self) -> ReadRequest:
        """The request as a batch read's; raises InvalidArgumentError for an incremental query without a beginning."""
        if self.view.query == "incremental" and self.view.begin is None:
            raise InvalidArgumentError(
                f"an incremental query needs {FormatOptions.begin}; earliest is the first commit", table=self.path
            )
        return self

    def for_stream(self) -> ReadRequest:
        """The request as a stream's; raises NotSupportedError for options of other reads."""
        for option in (FormatOptions.as_of, FormatOptions.begin, FormatOptions.end):
            if option.key in self.view.given:
                raise NotSupportedError(
                    f"a stream takes no {option}: it begins at {FormatOptions.stream_start}", table=self.path
                )
        if self.view.query == "read_optimized" or self.view.as_read_optimized:
            raise NotSupportedError(f"a stream takes no {FormatOptions.query}=read_optimized", table=self.path)
        return self


class FrameReader(OptionBuilder):
    """Collects what to read and how; `load` does it. Mirrors `pyspark.sql.DataFrameReader`.

    Args:
        spark: a session, classic or Connect.
        storage_options: credentials and settings of the storage.
    """

    _does = "pudi.spark.read reads"

    def __init__(self, spark: Any, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(storage_options)
        self._spark = spark

    def load(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The rows as a lazy DataFrame, read by Spark's own Parquet reader.

        Args:
            path: the table's root; option `path` where None.

        Raises:
            TableNotFoundError: there is no table.
            InvalidArgumentError: an option is wrong.
            NotSupportedError: an option asks for what this release lacks.
        """
        given = self._options if path is None else {**self._options, _PATH: path_given(path)}
        return ReadRequest.of(given, self._storage_options).for_batch().scan().to_spark(self._spark)


def read(spark: Any, *, storage_options: Mapping[str, str] | None = None) -> FrameReader:
    """Begin to read a Hudi table, on Spark 3.5 and 4: `pudi.spark.read(spark).options(**hudi).load(path)`.

    It takes the options of `spark.read.format("hudi")`, and gives what `Table.scan(…).to_spark(spark)` does.

    Args:
        spark: a session, classic or Connect.
        storage_options: credentials and settings of the storage.
    """
    return FrameReader(spark, storage_options)


def _divided(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Options of the read, parsed and by their keys; others as given; and those of the storage."""
    by_key: dict[str, Option[Any]] = {key: option for option in FormatOptions.declared for key in option.keys}
    values: dict[str, Any] = {}
    others: dict[str, str] = {}
    storage: dict[str, str] = {}
    for raw, text in given.items():
        key = spelled(raw)
        option = by_key.get(key)
        if option is not None:
            value = option.parse(text, key=key)
            if values.setdefault(option.key, value) != value:
                raise InvalidArgumentError(f"option {option.key} is given twice, with two values")
        elif key.startswith(_STORAGE):
            storage[key.removeprefix(_STORAGE)] = text
        else:
            others[key] = text
    return values, others, storage


def _of_catalog(key: str) -> bool:
    return key in _CATALOG or key.startswith(_CATALOG_OPTION)


def _check_query(view: FormatOptions) -> None:
    incremental = view.query == "incremental"
    if incremental and view.as_of is not None:
        raise InvalidArgumentError(
            f"{FormatOptions.as_of} is no option of an incremental query: use {FormatOptions.end}"
        )
    if not incremental and (view.begin is not None or view.end is not None):
        raise InvalidArgumentError(
            f"{FormatOptions.begin} and {FormatOptions.end} are options of an incremental query: set "
            f"{FormatOptions.query}=incremental"
        )


def with_options(fields: list[dict[str, Any]], given: Mapping[str, str]) -> None:
    """Put the options of a catalog's table into the metadata of its columns.

    An INSERT hands the metadata over only if its query's types aren't the table's very types. So the first text column
    is declared a varchar of any length, which no query has.

    Args:
        fields: the columns, as Spark's JSON schema has them; they're changed.
        given: the options.
    """
    fields[0]["metadata"] = {**fields[0].get("metadata", {}), _KEY: json.dumps(given)}
    text = next((field for field in fields if field["type"] == "string"), None)
    if text is not None:
        text["metadata"] = {**text.get("metadata", {}), _RAW_TYPE: _LONGEST}


def options_of(given: Mapping[str, str], schema: Any) -> dict[str, str]:
    """Return options as given, over those that the schema of a catalog's table keeps.

    Raises:
        InvalidArgumentError: no location is known.
    """
    kept = next((field.metadata[_KEY] for field in schema.fields if _KEY in (field.metadata or {})), None)
    both = {**({} if kept is None else json.loads(kept)), **given}
    if not both.get("path"):
        raise InvalidArgumentError(
            "Spark doesn't tell a Python data source where this table is. If it's a table of the catalog: create it "
            "without columns for a Hudi table that exists, CREATE TABLE name USING pudi LOCATION 'path' (not AS "
            "SELECT, not by saveAsTable); or state the path, INSERT INTO name WITH (path='path') …, SELECT … FROM "
            "name WITH (path='path'). Otherwise give it to .load(path) or .save(path)"
        )
    return both


def kept_options(given: Mapping[str, str], request: ReadRequest) -> dict[str, str]:
    """Return the options that a catalog's table keeps."""
    storage = {key: text for key, text in given.items() if key.startswith("storage.")}
    view = {key: text_of(value) for key, value in request.view.given.items()}
    meta_fields = {FormatOptions.meta_fields.key: text_of(request.meta_fields)}
    return {"path": request.path, **request.options, **view, **storage, **meta_fields}
