"""The options of a table: what `hoodie.properties` holds, and how a Hudi job's options name it.

Sources: `HoodieTableConfig`, `KeyGeneratorOptions`, `TimestampKeyGeneratorConfig` of Apache Hudi 1.2.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, TypeAlias

from pudi.config.option import Declare, Option, OptionsView, Scope, Status

TimeZone: TypeAlias = Literal["LOCAL", "UTC"]

_option = Declare(Scope.TABLE)
_lacking = Declare(Scope.TABLE, Status.UNSUPPORTED)
_harmless = Declare(Scope.TABLE, Status.HARMLESS)

COPY_ON_WRITE = "COPY_ON_WRITE"
MERGE_ON_READ = "MERGE_ON_READ"
WRITABLE_KEY_GENERATORS = (
    "SIMPLE", "SIMPLE_AVRO", "COMPLEX", "COMPLEX_AVRO", "NON_PARTITION", "NON_PARTITION_AVRO",
    "TIMESTAMP", "TIMESTAMP_AVRO", "CUSTOM", "CUSTOM_AVRO",
)  # fmt: skip
OTHER_KEY_GENERATORS = (
    "GLOBAL_DELETE", "GLOBAL_DELETE_AVRO", "AUTO_RECORD", "AUTO_RECORD_AVRO", "HOODIE_TABLE_METADATA", "SPARK_SQL",
    "SPARK_SQL_UUID", "SPARK_SQL_MERGE_INTO", "USER_PROVIDED",
)  # fmt: skip


class MergeMode(str, Enum):
    """`hoodie.record.merge.mode` (RecordMergeMode)."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"

    def __str__(self) -> str:
        return self.value

    @property
    def compares(self) -> bool:
        """Whether ordering values decide, so that a table needs ordering fields."""
        return self is MergeMode.EVENT_TIME


class PartialUpdate(str, Enum):
    """Mode of completing a winning record from the losing one (PartialUpdateMode and its predecessors)."""

    KEEP_VALUES = "KEEP_VALUES"
    """Columns that a partial update lacks come from the other version; also without any mode."""
    FILL_DEFAULTS = "FILL_DEFAULTS"
    """Columns that a partial update lacks are null."""
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    """Null columns of the winner come from the loser."""
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    """Texts of the winner that hold a marker come from the loser."""

    def __str__(self) -> str:
        return self.value


TABLE_VERSIONS = (6, 8, 9)
"""Versions of the table's format that this release reads and writes."""
OLD_VERSIONS = (0, 1, 2, 3, 4, 5, 7)
"""Versions that it reads and upgrades: those of Hudi 0.5.1 to 0.13, and 7, of no release, of the layout of 6."""
NEWEST_VERSION = 9


def layout_of_version(version: int) -> int:
    """Layout of the timeline of tables of a version (TimelineLayoutVersion)."""
    return 1 if version < 8 else 2


class TableOptions(OptionsView):
    """Properties of a table. `TableConfig` parses them when a table is opened."""

    __slots__ = ()

    table_name = _option(
        "hoodie.table.name",
        "Name of the table.",
        job_keys=("hoodie.datasource.write.table.name",),
    )
    database = _option("hoodie.database.name", "Database that the table belongs to.", default="")
    table_type = _option(
        "hoodie.table.type",
        "How updates are stored: in rewritten base files, or in log files.",
        default=COPY_ON_WRITE,
        choices=(COPY_ON_WRITE, MERGE_ON_READ),
        job_keys=("hoodie.datasource.write.table.type", "hoodie.datasource.write.storage.type", "table.type"),
    )
    version = _option(
        "hoodie.table.version",
        "Table version: 6, 8 or 9. A new table gets the newest; `Table.upgrade` changes it.",
        default=NEWEST_VERSION,
        unsupported=("0", "1", "2", "3", "4", "5", "7"),
        job_keys=("hoodie.write.table.version",),
        minimum=0,
        instead="use 6, 8 or 9, or omit the option",
    )
    first_version = _option(
        "hoodie.table.initial.version", "Version that the table was created with.", default=9, minimum=1
    )
    layout_version = _option(
        "hoodie.timeline.layout.version",
        "Version of the timeline layout; follows from the table version.",
        default=2,
        unsupported=("0",),
        minimum=0,
        instead="omit the option",
    )
    create_schema = _option(
        "hoodie.table.create.schema",
        "Avro schema that the table was created with; `pudi.create` takes it as `schema`.",
    )
    record_key = _option(
        "hoodie.table.recordkey.fields",
        "Columns of the record key, separated by commas.",
        job_keys=("hoodie.datasource.write.recordkey.field",),
    )
    partition_by = _option(
        "hoodie.table.partition.fields",
        "Columns of the partition path, separated by commas; empty for none.",
        job_keys=("hoodie.datasource.write.partitionpath.field",),
    )
    ordering = _option(
        "hoodie.table.ordering.fields",
        "Ordering fields, separated by commas: they decide which version of a record is newer.",
        aliases=("hoodie.table.precombine.field",),
        job_keys=(
            "hoodie.datasource.write.precombine.field",
            "ordering.fields",
            "precombine.field",
            "write.precombine.field",
        ),
    )
    key_generator = _option(
        "hoodie.table.keygenerator.type",
        "Key generator: how record key and partition path are made. Inferred from the number of columns by default.",
        choices=WRITABLE_KEY_GENERATORS,
        unsupported=OTHER_KEY_GENERATORS,
        job_keys=("hoodie.datasource.write.keygenerator.type",),
    )
    key_generator_class = _option(
        "hoodie.table.keygenerator.class",
        "The key generator by the name of Hudi's class. pudi only looks the name up in a list; it never loads a class.",
        job_keys=("hoodie.datasource.write.keygenerator.class",),
    )
    hive_style = _option(
        "hoodie.datasource.write.hive_style_partitioning",
        "Whether partition folders are named `column=value`.",
        default=False,
    )
    url_encode = _option(
        "hoodie.datasource.write.partitionpath.urlencode",
        "Whether characters that are special in paths are percent-encoded in partition folders.",
        default=False,
    )
    slash_separated_dates = _option(
        "hoodie.datasource.write.slash.separated.date.partitioning",
        "Whether a date partition is three folders, year, month and day.",
        default=False,
        unsupported=("true",),
    )
    drop_partition_columns = _option(
        "hoodie.datasource.write.drop.partition.columns",
        "Whether data files omit the partition columns; readers take them from paths, as text.",
        default=False,
    )
    base_file_format = _option(
        "hoodie.table.base.file.format",
        "Format of base files. HFILE sorts records by key, as the metadata table does. HFiles and ORC files have no "
        "column statistics, and Hudi 1.2 can't read tables of them from Spark.",
        default="PARQUET",
        choices=("PARQUET", "ORC", "HFILE"),
        unsupported=("LANCE",),
        aliases=("hoodie.table.ro.file.format",),
        job_keys=("hoodie.base.file.format",),
    )
    multiple_base_file_formats = _option(
        "hoodie.table.multiple.base.file.formats.enable",
        "Whether the table may have base files of several formats.",
        default=False,
        unsupported=("true",),
    )
    partition_metafile_use_base_format = _option(
        "hoodie.partition.metafile.use.base.format",
        "Whether a partition's metafile is a base file instead of properties.",
        default=False,
        unsupported=("true",),
    )
    populate_meta_fields = _option(
        "hoodie.populate.meta.fields",
        "Whether each record carries Hudi's five meta fields.",
        default=True,
    )
    layout_type = _lacking(
        "hoodie.table.storage.layout",
        "How file groups are laid out in storage.",
        default="DEFAULT",
        aliases=("hoodie.storage.layout.type",),
    )
    table_format = _lacking("hoodie.table.format", "Format of the table's own metadata.", default="native")
    bootstrap_base_path = _lacking(
        "hoodie.bootstrap.base.path", "Path of the table of plain files that this table was bootstrapped from."
    )
    timeline_path = _option("hoodie.timeline.path", "Folder of the timeline.", default="timeline")
    history_path = _option("hoodie.timeline.history.path", "Folder of the archived timeline.", default="history")
    archive_path = _option("hoodie.archivelog.folder", "Folder of the archive below version 8.", default="archived")
    timezone: Option[TimeZone] = _option(
        "hoodie.table.timeline.timezone",
        "Time zone of instant times. pudi creates tables in UTC, since local time goes back in autumn.",
        default="LOCAL",
        choices=("UTC", "LOCAL"),
    )
    record_merge_mode = _option(
        "hoodie.record.merge.mode",
        "Which version of a record wins. The default is event time if the table has ordering fields, otherwise commit "
        "time.",
        choices=tuple(mode.value for mode in MergeMode),
        job_keys=("hoodie.write.record.merge.mode",),
    )
    merge_strategy_id = _option(
        "hoodie.record.merge.strategy.id",
        "The merge mode by the id of a merge strategy: one of Hudi's, or that of a registered `pudi.RecordMerger`.",
        aliases=("hoodie.compaction.record.merger.strategy",),
        job_keys=(
            "hoodie.write.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
            "record.merger.strategy",
        ),
    )
    compaction_payload_class = _option(
        "hoodie.compaction.payload.class",
        "The merge mode by the name of a payload class. pudi only looks the name up in a list; it never loads a class.",
        job_keys=("hoodie.datasource.write.payload.class", "payload.class", "write.payload.class"),
    )
    legacy_payload_class = _option(
        "hoodie.table.legacy.payload.class", "Payload class that the table was created with."
    )
    partial_update_mode = _option(
        "hoodie.table.partial.update.mode",
        "How missing values of the winning version are filled. In tables of version 9 it also follows from the "
        "payload class.",
        choices=("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
        unsupported=("KEEP_VALUES", "FILL_DEFAULTS"),
        instead="use IGNORE_DEFAULTS or FILL_UNAVAILABLE; Hudi 1.2 has no others for whole tables",
    )
    unavailable_value = _option(
        "hoodie.write.partial.update.unavailable.value",
        "The text that stands for the stored value in partial updates of mode FILL_UNAVAILABLE; kept as a property for "
        "the merger. Without effect in other modes.",
    )
    ready_partitions = _lacking(
        "hoodie.table.metadata.partitions",
        "Partitions of the metadata table that readers may use.",
        default="",
        instead="set hoodie.metadata.enable=true",
    )
    inflight_partitions = _lacking(
        "hoodie.table.metadata.partitions.inflight",
        "Partitions of the metadata table that are being built.",
        default="",
        instead="set hoodie.metadata.enable=true",
    )
    rebuild_partitions = _lacking(
        "pudi.rebuild.partitions",
        "Partitions of the metadata table that a restore, a rollback or a repair deleted to rebuild them, and has not "
        "rebuilt yet. If its process died, the next write of pudi does it.",
        default="",
        instead="call Table.repair",
    )
    repeated_keys = _lacking(
        "pudi.record.index.repeated.keys",
        "Whether pudi has put a record key into a second file group, of which the record index knows one. Reads don't "
        "use the index then. Dropping or rebuilding it removes the property.",
        default=False,
        instead="it follows from what is written",
    )
    cdc_enabled = _option(
        "hoodie.table.cdc.enabled",
        "Whether writers log changes in addition to the data (change data capture).",
        default=False,
        job_keys=("cdc.enabled",),
    )
    cdc_logging_mode = _option(
        "hoodie.table.cdc.supplemental.logging.mode",
        "What writers log of a change: operation and key, also the record before, or the record before and after.",
        default="DATA_BEFORE_AFTER",
        choices=("DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"),
        job_keys=("cdc.supplemental.logging.mode",),
    )
    logical_timestamps = _option(
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
        "Whether partition paths show timestamps as `2026-01-02 03:04:05.0`, as Hudi's DataFrame writer does with this "
        "option, or as `2026-01-02 03:04:05`, as Hudi's SQL does. pudi stores it in the properties of a new table.",
        default=False,
    )


class TimebasedOptions(OptionsView):
    """Options of folders that are named by time."""

    __slots__ = ()

    kind = _option(
        "hoodie.keygen.timebased.timestamp.type",
        "Type of the partition column for the timestamp key generator.",
        choices=("UNIX_TIMESTAMP", "DATE_STRING", "MIXED", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR"),
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.type",),
    )
    unit = _option(
        "hoodie.keygen.timebased.timestamp.scalar.time.unit",
        "Unit of scalar timestamps.",
        default="SECONDS",
        choices=("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.scalar.time.unit",),
    )
    input_format = _option(
        "hoodie.keygen.timebased.input.dateformat",
        "Joda-Time patterns of dates given as text.",
        default="",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat",),
    )
    input_delimiter = _option(
        "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex",
        "Separator between input patterns.",
        default=",",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat.list.delimiter.regex",),
    )
    input_zone = _option(
        "hoodie.keygen.timebased.input.timezone",
        "Time zone of texts without one; pudi creates tables with UTC.",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.timezone",),
    )
    output_format = _option(
        "hoodie.keygen.timebased.output.dateformat",
        "Joda-Time pattern of the partition path.",
        default="",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.dateformat",),
    )
    output_zone = _option(
        "hoodie.keygen.timebased.output.timezone",
        "Time zone of the partition path; pudi creates tables with UTC.",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.timezone",),
    )
    zone = _option(
        "hoodie.keygen.timebased.timezone",
        "Time zone of both input and output; overrides the other two.",
        aliases=("hoodie.deltastreamer.keygen.timebased.timezone",),
    )


class OtherTableOptions(OptionsView):
    """Other properties of a table; any value of them can be opened."""

    __slots__ = ()

    datetime_parser = _lacking(
        "hoodie.keygen.datetime.parser.class",
        "Parser of dates in the timestamp key generator.",
        default="org.apache.hudi.keygen.parser.HoodieDateTimeParser",
        aliases=("hoodie.deltastreamer.keygen.datetime.parser.class",),
        instead="omit the option; pudi never loads a class by name",
    )
    checksum = _harmless("hoodie.table.checksum", "Checksum of database name and table name; pudi computes it.")
    partition_extractor = _option(
        "hoodie.table.partition_extractor_class",
        "Hint for Hive sync: how to read partition values from a path. Inferred by default.",
        job_keys=("hoodie.datasource.hive_sync.partition_extractor_class",),
    )
    log_file_format = _option(
        "hoodie.table.log.file.format",
        "Format of log files.",
        default="HOODIE_LOG",
        choices=("HOODIE_LOG",),
        aliases=("hoodie.table.rt.file.format",),
    )
    bootstrap_index = _option(
        "hoodie.bootstrap.index.enable", "Whether a bootstrapped table has an index.", default=True
    )
    bootstrap_index_class = _option("hoodie.bootstrap.index.class", "Index of a bootstrapped table, by class.")
    bootstrap_index_type = _option("hoodie.bootstrap.index.type", "Index of a bootstrapped table.", default="HFILE")
    delete_field = _option(
        "hoodie.record.merge.property.hoodie.payload.delete.field",
        "Column that marks a record as a delete when it holds the delete marker; set when the table is created.",
        job_keys=("hoodie.payload.delete.field",),
    )
    delete_marker = _option(
        "hoodie.record.merge.property.hoodie.payload.delete.marker",
        "The delete marker: the value of that column, as text, in a delete.",
        job_keys=("hoodie.payload.delete.marker",),
    )
    merge_property = _option(
        "hoodie.record.merge.property.*", "A property for the merger; set when the table is created."
    )
    index_definitions = _option(
        "hoodie.table.index.defs.path", "File of index definitions, relative to the table's root."
    )
    secondary_indexes = _option("hoodie.table.secondary.indexes.metadata", "Secondary indexes of old tables.")


TABLE_OPTIONS: tuple[Option[Any], ...] = (
    *TableOptions.declared,
    *TimebasedOptions.declared,
    *OtherTableOptions.declared,
)
"""Every setting of the table, in the order of the option page."""
