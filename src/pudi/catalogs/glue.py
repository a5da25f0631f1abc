"""AWS Glue's Data Catalog, through boto3.

Source: AWSGlueCatalogSyncClient of Apache Hudi, and Glue's quotas of items per request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final

from pudi.catalogs.catalog import (
    EXTERNAL,
    Catalog,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    TableFormat,
    TableName,
    Values,
    batches,
    with_s3_scheme,
)
from pudi.config import LockSettings, SyncOptions
from pudi.config.option import text_of
from pudi.config.sync_options import METADATA_LISTING
from pudi.context import Context
from pudi.errors import (
    NotFoundError,
    PudiError,
    RefusedError,
    SetupError,
    TableExistsError,
    UnavailableError,
    cause_text,
)

_MOST_ADDED: Final = 100
_MOST_ALTERED: Final = 100
_MOST_DROPPED: Final = 25
_MOST_READ: Final = 1000
_REQUESTS: Final = 8
"""Requests in parallel; more are throttled."""
_SEGMENTS: Final = 4
"""Parts in which all partitions are read, in parallel."""
_ATTEMPTS: Final = 8

_MISSING: Final = "EntityNotFoundException"
_EXISTS: Final = "AlreadyExistsException"
_PASSING: Final = {
    "ConcurrentModificationException",
    "InternalServiceException",
    "OperationTimeoutException",
    "RequestLimitExceeded",
    "ResourceNotReadyException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_TABLE_INPUT: Final = ("Description", "Owner", "Retention", "ViewOriginalText", "ViewExpandedText", "TargetTable")


class GlueCatalog(Catalog):
    """Tables in AWS Glue's Data Catalog.

    Credentials and region are those of the environment, unless options or the address give others.

    Args:
        region: AWS region; empty for that of the environment.
        options: keys and settings by Hudi's keys.
        context: threads.

    Raises:
        SetupError: the package boto3 is missing.
    """

    def __init__(
        self, region: str = "", options: Mapping[str, str] | None = None, context: Context | None = None
    ) -> None:
        if find_spec("boto3") is None:
            raise SetupError("AWS Glue needs the package boto3: pip install 'pudi[aws]'")
        self._region, self._context = region, context or Context()
        self._options = dict(options or {})
        self._skips_archive = self._option(SyncOptions.glue_skips_archive) == "true"
        self._made: Any = None

    @property
    def address(self) -> str:
        """The address: `glue:` and the region."""
        return f"glue:{self._region}"

    def has_database(self, name: str) -> bool:
        """Return whether there is a database of that name."""
        try:
            self._call("get_database", name, Name=name)
        except NotFoundError:
            return False
        return True

    def create_database(self, name: str) -> None:
        """Create a database; one that is there stays as it is."""
        with suppress(TableExistsError):
            self._call(
                "create_database",
                name,
                DatabaseInput={"Name": name, "Description": "automatically created by hoodie"},
            )

    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        pages = self._pages("get_tables", database, "TableList", DatabaseName=database)
        return sorted(each["Name"] for each in pages)

    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        """Return some tables by the names that were asked for; by one request where all are there."""
        found: dict[str, CatalogTable] = {}
        if len(names) > 1:
            with suppress(NotFoundError):
                pattern = "|".join(name.lower() for name in names)
                pages = self._pages("get_tables", database, "TableList", DatabaseName=database, Expression=pattern)
                by_name = {each["Name"]: each for each in pages}
                found = {name: _table(by_name[name.lower()]) for name in names if name.lower() in by_name}
        for name in names:
            if name not in found:
                with suppress(NotFoundError):
                    about = TableName(database, name)
                    answer = self._call("get_table", about, DatabaseName=database, Name=name.lower())
                    found[name] = _table(answer["Table"])
        return found

    def create_table(self, table: CatalogTable) -> None:
        """Create a table; its database must be there."""
        entry = _table_input(table, {})
        parameters = {METADATA_LISTING: self._option(SyncOptions.glue_lists_by_metadata).upper()}
        entry["Parameters"] = {**parameters, **entry["Parameters"]}
        self._call("create_table", table.name, DatabaseName=table.name.database, TableInput=entry)

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace location, columns, format and properties of a table."""
        known = table.entry
        if known is None:
            name = table.name
            known = self._call("get_table", name, DatabaseName=name.database, Name=name.table.lower())["Table"]
        self._call(
            "update_table",
            table.name,
            DatabaseName=table.name.database,
            TableInput=_table_input(table, known),
            SkipArchive=self._skips_archive,
        )
        if cascade:
            self.alter_partitions(table, self.partitions(table))

    def drop_table(self, name: TableName) -> bool:
        """Remove a table and its partitions; files stay. Return whether it was there."""
        try:
            self._call("delete_table", name, DatabaseName=name.database, Name=name.table.lower())
        except NotFoundError:
            return False
        return True

    def partitions(self, table: CatalogTable, values: Sequence[Values] | None = None) -> list[CatalogPartition]:
        """Return partitions; see `Catalog`."""
        if values is None:
            segments = [{"SegmentNumber": n, "TotalSegments": _SEGMENTS} for n in range(_SEGMENTS)]
            found = self._context.executor.map(lambda segment: self._segment(table, segment), segments, limit=_SEGMENTS)
        else:
            groups = list(batches(values, _MOST_READ))
            found = self._context.executor.map(lambda group: self._some(table, group), groups, limit=_REQUESTS)
        return list({each.values: each for group in found for each in group}.values())

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions; those that are there stay as they are."""
        shared = _descriptor(table)

        def add(group: Sequence[CatalogPartition]) -> None:
            entries = [_partition_input(each, shared) for each in group]
            answer = self._of_table("batch_create_partition", table.name, PartitionInputList=entries)
            self._refuse(answer, "batch_create_partition", table.name, besides=_EXISTS)

        self._in_batches(add, partitions, _MOST_ADDED)

    def alter_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Give partitions that are there a location, and the table's columns and format."""
        shared = _descriptor(table)

        def alter(group: Sequence[CatalogPartition]) -> None:
            entries = [
                {"PartitionValueList": list(each.values), "PartitionInput": _partition_input(each, shared)}
                for each in group
            ]
            answer = self._of_table("batch_update_partition", table.name, Entries=entries)
            self._refuse(answer, "batch_update_partition", table.name, besides=_MISSING)

        self._in_batches(alter, partitions, _MOST_ALTERED)

    def drop_partitions(self, table: CatalogTable, values: Sequence[Values]) -> None:
        """Remove partitions; those that aren't there are no error."""

        def drop(group: Sequence[Values]) -> None:
            entries = [{"Values": list(each)} for each in group]
            answer = self._of_table("batch_delete_partition", table.name, PartitionsToDelete=entries)
            self._refuse(answer, "batch_delete_partition", table.name, besides=_MISSING)

        self._in_batches(drop, values, _MOST_DROPPED)

    def _segment(self, table: CatalogTable, segment: Mapping[str, int]) -> list[CatalogPartition]:
        about, name = table.name, table.name.table.lower()
        settings = {"DatabaseName": about.database, "TableName": name, "Segment": segment, "ExcludeColumnSchema": True}
        return [_partition(each) for each in self._pages("get_partitions", about, "Partitions", **settings)]

    def _some(self, table: CatalogTable, values: Sequence[Values]) -> list[CatalogPartition]:
        wanted = [{"Values": list(each)} for each in values]
        found: list[CatalogPartition] = []
        while wanted:
            answer = self._of_table("batch_get_partition", table.name, PartitionsToGet=wanted)
            found += [_partition(each) for each in answer.get("Partitions", ())]
            left = answer.get("UnprocessedKeys") or []
            if len(left) == len(wanted):
                raise UnavailableError(f"{self} reads no partitions of the table {table.name} now; sync again later")
            wanted = left
        return found

    def _in_batches(self, call: Callable[[Sequence[Any]], None], items: Sequence[Any], size: int) -> None:
        self._context.executor.map(call, list(batches(items, size)), limit=_REQUESTS)

    def _of_table(self, method: str, name: TableName, **arguments: Any) -> dict[str, Any]:
        return self._call(method, name, DatabaseName=name.database, TableName=name.table.lower(), **arguments)

    def _pages(self, method: str, about: TableName | str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        more: dict[str, str] = {}
        while True:
            answer = self._call(method, about, **arguments, **more)
            found += answer.get(key, ())
            token = answer.get("NextToken")
            if not token:
                return found
            more = {"NextToken": token}

    def _refuse(self, answer: Mapping[str, Any], method: str, name: TableName, *, besides: str) -> None:
        """Raise the first error of single partitions, but for those that mean that there's nothing to do."""
        for each in answer.get("Errors") or ():
            detail = each.get("ErrorDetail") or each
            code = detail.get("ErrorCode", "")
            if code != besides:
                message = f"partition {each.get('PartitionValues') or each.get('PartitionValueList')}: "
                raise self._error(method, name, code, message + str(detail.get("ErrorMessage", "")))

    def _call(self, method: str, about: TableName | str, **arguments: Any) -> dict[str, Any]:
        client = self._client()
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        try:
            answer: dict[str, Any] = getattr(client, method)(**arguments)
        except ClientError as error:
            said = error.response.get("Error", {})
            raise self._error(method, about, said.get("Code", ""), said.get("Message", "")) from error
        except BotoCoreError as error:
            raise UnavailableError(
                f"{self} doesn't answer {method!r} of {about}: {cause_text(error)}; check credentials and region"
            ) from error
        return answer

    def _error(self, method: str, about: TableName | str, code: str, message: str) -> PudiError:
        what = f"table {about}" if isinstance(about, TableName) else f"database {about!r}"
        if code == _MISSING:
            return NotFoundError(f"{self}: there is no {what}, or no database of it: {message}")
        if code == _EXISTS:
            return TableExistsError(f"{self}: there is a {what} already: {message}")
        if code in _PASSING:
            return UnavailableError(f"{self} failed in {method!r} of the {what}: {code}: {message}; try again later")
        return RefusedError(
            f"{self} refused {method!r} of the {what}: {code}: {message}; what was registered before stands"
        )

    def _client(self) -> Any:
        if self._made is None:
            import boto3  # noqa: PLC0415 - optional
            from botocore.config import Config  # noqa: PLC0415 - optional

            keys = {
                "aws_access_key_id": self._options.get(LockSettings.aws_access_key.key),
                "aws_secret_access_key": self._options.get(LockSettings.aws_secret_key.key),
                "aws_session_token": self._options.get(LockSettings.aws_session_token.key),
                "endpoint_url": self._options.get(SyncOptions.glue_endpoint.key),
                "region_name": self._region or self._options.get(SyncOptions.glue_region.key),
            }
            config = Config(retries={"mode": "adaptive", "max_attempts": _ATTEMPTS}, max_pool_connections=_REQUESTS)
            given = {name: text for name, text in keys.items() if text}
            self._made = boto3.client("glue", config=config, **given)
        return self._made

    def _option(self, option: Any) -> str:
        return self._options.get(option.key, text_of(option.default)).lower()


def _table(entry: Mapping[str, Any]) -> CatalogTable:
    descriptor = entry.get("StorageDescriptor") or {}
    serde = descriptor.get("SerdeInfo") or {}
    return CatalogTable(
        TableName(entry["DatabaseName"], entry["Name"]),
        descriptor.get("Location", ""),
        _columns(descriptor.get("Columns")),
        _columns(entry.get("PartitionKeys")),
        TableFormat(
            descriptor.get("InputFormat", ""),
            descriptor.get("OutputFormat", ""),
            serde.get("SerializationLibrary", ""),
            dict(serde.get("Parameters") or {}),
        ),
        dict(entry.get("Parameters") or {}),
        entry.get("TableType") or EXTERNAL,
        entry.get("Owner", ""),
        dict(entry),
    )


def _columns(entries: Sequence[Mapping[str, str]] | None) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(each["Name"], each.get("Type", ""), each.get("Comment", "")) for each in entries or ())


def _table_input(table: CatalogTable, known: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {name: known[name] for name in _TABLE_INPUT if known.get(name) is not None}
    if table.owner and "Owner" not in entry:
        entry["Owner"] = table.owner
    return {
        **entry,
        "Name": table.name.table.lower(),
        "StorageDescriptor": {**(known.get("StorageDescriptor") or {}), **_descriptor(table)},
        "PartitionKeys": _column_inputs(table.partition_columns),
        "TableType": EXTERNAL if known == {} else table.kind,
        "Parameters": dict(table.properties),
    }


def _descriptor(table: CatalogTable) -> dict[str, Any]:
    form = table.format
    return {
        "Columns": _column_inputs(table.columns),
        "Location": with_s3_scheme(table.location),
        "InputFormat": form.input_format,
        "OutputFormat": form.output_format,
        "SerdeInfo": {"SerializationLibrary": form.serde, "Parameters": dict(form.serde_properties)},
    }


def _column_inputs(columns: Sequence[CatalogColumn]) -> list[dict[str, str]]:
    return [{"Name": each.name.lower(), "Type": each.type, "Comment": each.comment} for each in columns]


def _partition_input(partition: CatalogPartition, shared: Mapping[str, Any]) -> dict[str, Any]:
    location = with_s3_scheme(partition.location)
    return {"Values": list(partition.values), "StorageDescriptor": {**shared, "Location": location}}


def _partition(entry: Mapping[str, Any]) -> CatalogPartition:
    return CatalogPartition(tuple(entry["Values"]), (entry.get("StorageDescriptor") or {}).get("Location", ""))
