"""The entries of a Hudi table in a catalog, to the property what Hudi's HiveSyncTool registers.

Types of columns stand in Hive's notation, and Spark's schema as JSON. Values of partitions are read from their paths.

Sources: HiveSchemaUtil, SparkSchemaUtils, SparkDataSourceTableUtils, HiveSyncTool, HMSDDLExecutor,
HoodieHiveSyncClient, HoodieInputFormatUtils, and the extractors MultiPartKeysValueExtractor,
HiveStylePartitionValueExtractor, SinglePartPartitionValueExtractor, SlashEncodedDayPartitionValueExtractor and
SlashEncodedHourPartitionValueExtractor.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from pudi.catalogs.catalog import (
    EXTERNAL,
    MANAGED,
    PROVIDER,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    TableFormat,
    TableName,
    Values,
)
from pudi.config import FormatOptions, SyncOptions, TableConfig
from pudi.config.option import Option, names_in, text_of
from pudi.config.sync_options import SyncStrategy
from pudi.config.table_options import MERGE_ON_READ, OtherTableOptions
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.record.partition_path import unescape
from pudi.schema import META_FIELDS, arrow_to_spark_json, avro_to_arrow, with_meta_fields


class Extractor(str, Enum):
    """Readers of values in a partition path, by the end of the name of Hudi's class."""

    FOLDERS = "MultiPartKeysValueExtractor"
    """A value in each folder, or after its `=`."""
    HIVE_STYLE = "HiveStylePartitionValueExtractor"
    """One value, after the `=` of one folder."""
    WHOLE = "SinglePartPartitionValueExtractor"
    """One value, the whole path with `-` between folders."""
    DAY = "SlashEncodedDayPartitionValueExtractor"
    """One value, `yyyy-MM-dd` of `yyyy/MM/dd`."""
    HOUR = "SlashEncodedHourPartitionValueExtractor"
    """One value, `yyyy-MM-dd-HH` of `yyyy/MM/dd/HH`."""
    NONE = "NonPartitionedExtractor"
    """No value."""


_PACKAGE = "org.apache.hudi.hive."
_DATE_FOLDERS = {Extractor.DAY: 3, Extractor.HOUR: 4}


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the values of partitions from their paths.

    Attributes:
        fields: the partition columns that are registered.
        extractor: how.
        hive_style: whether folders are named `column=value`.
        decodes: whether values are decoded where folders have URL encoding.
    """

    fields: tuple[str, ...]
    extractor: Extractor
    hive_style: bool
    decodes: bool = False

    @classmethod
    def of(
        cls, fields: tuple[str, ...], extractor_class: str | None, *, hive_style: bool, decodes: bool
    ) -> ValueReader:
        """Return the reader that options ask for; without a class by columns and folders, as Hudi infers one.

        Raises:
            NotSupportedError: a class that isn't one of Hudi's.
        """
        if extractor_class:
            try:
                extractor = Extractor(extractor_class.removeprefix(_PACKAGE))
            except ValueError:
                known = ", ".join(_PACKAGE + each.value for each in Extractor)
                raise NotSupportedError(
                    f"the partition value extractor {extractor_class} is none of Hudi's, and pudi never loads a "
                    f"class by name; use one of {known}"
                ) from None
        elif len(fields) == 1:
            extractor = Extractor.HIVE_STYLE if hive_style else Extractor.WHOLE
        else:
            extractor = Extractor.FOLDERS if fields else Extractor.NONE
        return cls(fields, extractor, hive_style, decodes)

    def values(self, path: str) -> Values:
        """Return a partition's values.

        Raises:
            InvalidArgumentError: the path doesn't have as many as there are columns, with what to do.
        """
        values = self._extracted(path)
        if len(values) != len(self.fields):
            raise self._refusal(path, f"which {self.extractor.value} reads as {len(values)} values")
        if not all(values):
            raise self._refusal(path, "which has an empty value")
        if self.decodes:
            values = tuple(decoded if (decoded := unescape(each)) is not None else each for each in values)
        return values

    def _extracted(self, path: str) -> Values:
        if self.extractor is Extractor.NONE or not self.fields:
            return ()
        if self.extractor is Extractor.WHOLE:
            return (path.replace("/", "-"),)
        if self.extractor is Extractor.HIVE_STYLE:
            name, equals, value = path.partition("=")
            if not equals or "/" in name:
                raise self._refusal(path, "which isn't of the form column=value")
            return (value,)
        folders = path.split("/")
        values = tuple(self._after_equals(folder) for folder in folders)
        if self.extractor is Extractor.FOLDERS:
            return values
        if len(values) != _DATE_FOLDERS[self.extractor] or not all(v.isascii() and v.isdigit() for v in values):
            raise self._refusal(path, f"which {self.extractor.value} can't read")
        return ("-".join(f"{int(v):0{width}}" for v, width in zip(values, (4, 2, 2, 2), strict=False)),)

    def _after_equals(self, folder: str) -> str:
        """Return the value of a folder. Hudi takes what follows a `=` even where the table's folders have no names."""
        return folder.partition("=")[2] if self.hive_style and "=" in folder else folder

    def _refusal(self, path: str, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"the partition {path!r} can't be registered under the columns {', '.join(self.fields) or '(none)'}: its "
            f"path, {why}; set {SyncOptions.partition_fields} and "
            f"{OtherTableOptions.partition_extractor.job_keys[0]} to what the folders say"
        )


_HIVE = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time32("ms"): "int",
    pa.time64("us"): "bigint",
}


def hive_type(kind: pa.DataType, *, timestamps: bool) -> str:
    """Return the type of a column in Hive's notation, in lower case, as metastores store it.

    Args:
        kind: its type, one of pudi's.
        timestamps: whether a timestamp is a `timestamp`; otherwise it's a `bigint`.

    Raises:
        NotSupportedError: Hive has no such type.
    """
    if pa.types.is_timestamp(kind):
        return "timestamp" if timestamps else "bigint"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = (f"{field.name.lower()}:{hive_type(field.type, timestamps=timestamps)}" for field in kind)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_list(kind):
        return f"array<{hive_type(kind.value_type, timestamps=timestamps)}>"
    if pa.types.is_map(kind):
        return (
            f"map<{hive_type(kind.key_type, timestamps=timestamps)},{hive_type(kind.item_type, timestamps=timestamps)}>"
        )
    name = _HIVE.get(kind)
    if name is None:
        raise NotSupportedError(f"a column has type {kind}, which catalogs of Hive's kind don't have")
    return name


def spark_properties(
    schema: pa.Schema, partition_fields: Sequence[str], part_length: int, version: str
) -> dict[str, str]:
    """Return the properties by which Spark reads a registered table as Hudi's.

    Args:
        schema: the columns that are registered, in the table's order.
        partition_fields: partition columns, which come last; one that isn't a column is a text.
        part_length: number of characters of a part of the schema.
        version: Spark's release; empty for none.
    """
    first = [field for field in schema if field.name not in partition_fields]
    known = {field.name: field for field in schema}
    last = [known.get(name, pa.field(name, pa.string())) for name in partition_fields]
    text = _spaced(arrow_to_spark_json(pa.schema([*first, *last])))
    parts = [text[start : start + part_length] for start in range(0, len(text), part_length)]
    properties = {"spark.sql.sources.provider": "hudi"}
    if version:
        properties["spark.sql.create.version"] = version
    properties["spark.sql.sources.schema.numParts"] = str(len(parts))
    properties |= {f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)}
    if partition_fields:
        properties["spark.sql.sources.schema.numPartCols"] = str(len(partition_fields))
        properties |= {f"spark.sql.sources.schema.partCol.{n}": name for n, name in enumerate(partition_fields)}
    return properties


def _spaced(text: str) -> str:
    """Put the blanks where Hudi's text has them, so that a sync by Hudi finds nothing to change."""
    return text.replace('"type":"array","elementType"', '"type":"array", "elementType"').replace(
        '"type":"map","keyType"', '"type":"map", "keyType"'
    )


def column_comments(avro_json: str) -> Mapping[str, str]:
    """Return the comments of columns by name, from the `doc` of an Avro schema's fields.

    Raises:
        CorruptError: it's no Avro schema of a record.
    """
    try:
        fields = json.loads(avro_json)["fields"]
        return {field["name"]: field["doc"] for field in fields if field.get("doc")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"the table's Avro schema can't be read for comments: {error}") from error


HUDI_RELEASE: Final = "1.2.0"
"""The release of Hudi whose properties are registered."""

LAST_COMMIT: Final = "last_commit_time_sync"
LAST_COMPLETION: Final = "last_commit_completion_time_sync"
WRITER_VERSION: Final = "hudi_writer_version"

_READS: Final = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
_READS_LOGS: Final = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
_WRITES: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


@dataclass(frozen=True, slots=True)
class HudiTable:
    """A Hudi table as it's to be registered.

    Attributes:
        config: its properties.
        schema: its Avro schema as JSON, without meta fields.
        root: its location as it was opened: an absolute path or a URL.
        last_commit: requested time of the newest commit; None before the first.
        last_completion: the greatest completion time.
        spark_version: release of the Spark session that writes; empty for none.
    """

    config: TableConfig
    schema: str
    root: str
    last_commit: str | None = None
    last_completion: str | None = None
    spark_version: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """The entries of a table in a catalog, and how its partitions are registered.

    Attributes:
        tables: the tables, in the order in which they're registered.
        reader: reads partition values.
        location: URL below which the partitions lie.
    """

    tables: tuple[CatalogTable, ...]
    reader: ValueReader
    location: str

    @property
    def is_partitioned(self) -> bool:
        """Whether partitions are registered."""
        return bool(self.reader.fields)

    def partitions(self, paths: Iterable[str]) -> list[CatalogPartition]:
        """Return the entries of partitions that hold data, by their paths.

        Raises:
            InvalidArgumentError: a path doesn't have as many values as there are columns, or two have the same.
        """
        read, location = self.reader.values, self.location
        first: dict[Values, str] = {}
        for path in paths:
            values = read(path)
            if first.setdefault(values, path) != path:
                raise self.same_values(first[values], path)
        return [CatalogPartition(values, f"{location}/{path}") for values, path in first.items()]

    def same_values(self, path: str, other: str) -> InvalidArgumentError:
        """Return the error for two partitions that hold data and have the same values, so one entry in a catalog."""
        return InvalidArgumentError(
            f"the partitions {path!r} and {other!r} can't both be registered: {self.reader.extractor.value} reads the "
            f"value {'/'.join(self.reader.values(path))!r} from both paths; set {SyncOptions.partition_fields} and "
            f"{OtherTableOptions.partition_extractor.job_keys[0]} to what tells them apart, or write the records of "
            "one to the other and delete it",
            table=self.location,
        )


def registered_tables(
    table: HudiTable,
    options: SyncOptions,
    name: TableName | None = None,
    extractor: str | None = None,
    *,
    has_partitions: bool = True,
) -> Registration:
    """Return the entries of a table in a catalog.

    Args:
        table: the table.
        options: how it's registered.
        name: the name to register it by; None for that of the options, or the table's.
        extractor: the class that reads partition values; None for that of the table.
        has_partitions: whether entries have columns and partitions; without them a table is one plain entry.

    Raises:
        NotSupportedError: base files of another format, a column that catalogs have no type for, an unknown class, or
            an entry that a catalog without partitions doesn't have.
        CorruptError: its schema can't be read.
    """
    config = table.config
    if config.base_file_format.upper() != "PARQUET":
        raise NotSupportedError(
            f"a table with base files in {config.base_file_format} can't be registered yet; register it by "
            "Hudi's sync tool",
            table=table.root,
        )
    name = name or TableName(options.database, options.table or config.name)
    if not has_partitions:
        return _plain_registration(table, options, name)
    fields = config.partition_fields if options.partition_fields is None else names_in(options.partition_fields)
    schema = avro_to_arrow(table.schema)
    schema = schema if options.omits_meta_fields else with_meta_fields(schema)
    comments = column_comments(table.schema) if options.comments else {}
    properties = _table_properties(table, options, schema, fields)
    columns = tuple(
        CatalogColumn(f.name, hive_type(f.type, timestamps=options.timestamps), comments.get(f.name, ""))
        for f in schema
        if f.name not in fields
    )
    location = location_url(options.location or table.root)
    tables = tuple(
        CatalogTable(
            TableName(name.database, entry),
            location,
            columns,
            tuple(_partition_column(field, schema, options, comments) for field in fields),
            _format(options, options.location or table.root, reads_logs=reads_logs, read_optimized=read_optimized),
            properties,
            MANAGED if options.managed else EXTERNAL,
        )
        for entry, reads_logs, read_optimized in _entries(name.table, config, options)
    )
    extractor = extractor or config.raw.get(OtherTableOptions.partition_extractor.key)
    reader = ValueReader.of(
        fields, extractor, hive_style=config.hive_style, decodes=options.decodes_values and config.url_encode
    )
    return Registration(tables, reader, location)


def _plain_registration(table: HudiTable, options: SyncOptions, name: TableName) -> Registration:
    """Return the one entry of a table in a catalog that keeps neither columns nor partitions."""
    reads_base_files = table.config.table_type == MERGE_ON_READ and options.strategy == SyncStrategy.READ_OPTIMIZED
    for is_given, option, value in (
        (reads_base_files, SyncOptions.strategy, SyncStrategy.READ_OPTIMIZED.value),
        (options.managed, SyncOptions.managed, "true"),
    ):
        if is_given:
            raise NotSupportedError(
                f"{option}={value}: the catalog of {name} has one entry for a table, an external one that reads all of "
                "it; leave the option out",
                table=table.root,
            )
    location = location_url(options.location or table.root)
    entry = CatalogTable(name, location, (), properties={**options.more_properties, PROVIDER: "hudi"})
    return Registration((entry,), ValueReader((), Extractor.NONE, hive_style=False), location)


def options_of(entry: CatalogTable, name: str, entries: Collection[str]) -> dict[str, str]:
    """Return the sync options by which an entry was registered: another sync by them leaves it as it is.

    Args:
        entry: the entry.
        name: the name of its table, without `_ro` and `_rt`.
        entries: the names of all entries of that table.
    """
    columns = [*entry.columns, *entry.partition_columns]
    reads_logs = entry.format.input_format == _READS_LOGS
    has_views = f"{name}_rt" in entries
    optimized = SyncStrategy.READ_OPTIMIZED if entry.format.input_format else SyncStrategy.ALL
    strategy = SyncStrategy.SNAPSHOT if reads_logs else optimized
    found: dict[Option[Any], str | bool] = {
        SyncOptions.timestamps: any("timestamp" in each.type for each in columns),
        SyncOptions.omits_meta_fields: all(each.name.lower() != META_FIELDS[0] for each in columns),
        SyncOptions.managed: entry.kind == MANAGED,
        SyncOptions.as_datasource: PROVIDER in entry.properties,
        SyncOptions.strategy: (SyncStrategy.ALL if has_views else strategy).value,
        SyncOptions.skips_ro_suffix: has_views and f"{name}_ro" not in entries,
        SyncOptions.plain_snapshot: name in entries,
    }
    return {option.key: text_of(value) for option, value in found.items()}


def location_url(root: str) -> str:
    """Return a location as a URL: a path on this machine gets its scheme."""
    return f"file:{root}" if root.startswith("/") else root


def sync_properties(table: HudiTable) -> dict[str, str]:
    """Return the properties that say how far a table was registered, and by what."""
    times = {LAST_COMMIT: table.last_commit, LAST_COMPLETION: table.last_completion}
    return {WRITER_VERSION: HUDI_RELEASE, **{key: time for key, time in times.items() if time is not None}}


def _entries(name: str, config: TableConfig, options: SyncOptions) -> list[tuple[str, bool, bool]]:
    """Return name, whether log files are read, and whether Spark reads base files alone, of each entry."""
    if config.table_type != MERGE_ON_READ:
        return [(name, False, False)]
    strategy = SyncStrategy(options.strategy)
    if strategy is not SyncStrategy.ALL:
        optimized = strategy is SyncStrategy.READ_OPTIMIZED
        return [(name, not optimized, optimized)]
    entries = [(name if options.skips_ro_suffix else f"{name}_ro", False, True), (f"{name}_rt", True, False)]
    if options.plain_snapshot and not options.skips_ro_suffix:
        entries.append((name, True, False))
    return entries


def _table_properties(
    table: HudiTable, options: SyncOptions, schema: pa.Schema, fields: tuple[str, ...]
) -> dict[str, str]:
    properties = {} if options.managed else {"EXTERNAL": "TRUE"}
    properties |= options.more_properties
    if options.as_datasource:
        version = options.spark_version or table.spark_version
        properties |= spark_properties(schema, fields, options.schema_part_length, version)
    return properties


def _partition_column(name: str, schema: pa.Schema, options: SyncOptions, comments: Mapping[str, str]) -> CatalogColumn:
    """Return a partition column; one that the table doesn't have is a text, as in Hudi."""
    at = schema.get_field_index(name)
    kind = hive_type(schema.field(at).type, timestamps=options.timestamps) if at >= 0 else "string"
    return CatalogColumn(name, kind, comments.get(name, ""))


def _format(options: SyncOptions, path: str, *, reads_logs: bool, read_optimized: bool) -> TableFormat:
    properties = {**options.more_serde_properties, "path": path, "serialization.format": "1"}
    if options.as_datasource:
        properties[FormatOptions.as_read_optimized.key] = str(read_optimized).lower()
    return TableFormat(_READS_LOGS if reads_logs else _READS, _WRITES, _SERDE, properties)
