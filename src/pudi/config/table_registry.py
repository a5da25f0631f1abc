"""Every setting of the table: what `hoodie.properties` holds, and how a Hudi job's options name it.

Sources: `HoodieTableConfig`, `KeyGeneratorOptions`, `TimestampKeyGeneratorConfig` of Apache Hudi 1.2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pudi.config.option import Declare, Option, Scope, Status

_table = Declare(Scope.TABLE)
_flag = partial(_table, default=False)
_lacking = Declare(Scope.TABLE, Status.UNSUPPORTED)
_harmless = Declare(Scope.TABLE, Status.HARMLESS)

COPY_ON_WRITE = "COPY_ON_WRITE"
MERGE_ON_READ = "MERGE_ON_READ"
COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
DELETE_FIELD = "hoodie.record.merge.property.hoodie.payload.delete.field"
DELETE_MARKER = "hoodie.record.merge.property.hoodie.payload.delete.marker"

WRITABLE_KEY_GENERATORS = (
    "SIMPLE", "SIMPLE_AVRO", "COMPLEX", "COMPLEX_AVRO", "NON_PARTITION", "NON_PARTITION_AVRO",
    "TIMESTAMP", "TIMESTAMP_AVRO", "CUSTOM", "CUSTOM_AVRO",
)  # fmt: skip
OTHER_KEY_GENERATORS = (
    "GLOBAL_DELETE", "GLOBAL_DELETE_AVRO", "AUTO_RECORD", "AUTO_RECORD_AVRO", "HOODIE_TABLE_METADATA", "SPARK_SQL",
    "SPARK_SQL_UUID", "SPARK_SQL_MERGE_INTO", "USER_PROVIDED",
)  # fmt: skip

TABLE_VERSIONS = (6, 8, 9)
"""Versions of the table's format that this release reads and writes."""
NEWEST_VERSION = 9


def layout_of_version(version: int) -> int:
    """Layout of the timeline of tables of a version (TimelineLayoutVersion)."""
    return 1 if version < 8 else 2


_KEYGEN = "hoodie.keygen.timebased."
_OLD_KEYGEN = "hoodie.deltastreamer.keygen.timebased."


def _timebased(name: str, doc: str, default: str | None = None, choices: tuple[str, ...] = ()) -> Option[Any]:
    return _table(key=_KEYGEN + name, aliases=(_OLD_KEYGEN + name,), doc=doc, default=default, choices=choices)


_IDENTITY = (
    _table(
        key="hoodie.table.name",
        doc="Name of the table.",
        job_keys=("hoodie.datasource.write.table.name",),
    ),
    _table(key="hoodie.database.name", doc="Database that the table belongs to.", default=""),
    _table(
        key="hoodie.table.type",
        doc="How updates are kept: in rewritten base files, or in log files beside them.",
        default=COPY_ON_WRITE,
        choices=(COPY_ON_WRITE, MERGE_ON_READ),
        job_keys=("hoodie.datasource.write.table.type", "hoodie.datasource.write.storage.type"),
    ),
    _table(
        key="hoodie.table.version",
        doc="Version of the table's format, 6, 8 or 9; a table without it is of the newest. No table is upgraded.",
        default=NEWEST_VERSION,
        unsupported=("1", "2", "3", "4", "5", "7"),
        job_keys=("hoodie.write.table.version",),
        minimum=1,
        instead="take 6, 8 or 9, or leave it out",
    ),
    _table(key="hoodie.table.initial.version", doc="Version that the table was made with.", default=9, minimum=1),
    _table(
        key="hoodie.timeline.layout.version",
        doc="Version of the timeline's layout; follows from the table's version.",
        default=2,
        unsupported=("0",),
        minimum=0,
        instead="leave it out",
    ),
    _harmless(
        key="hoodie.table.checksum",
        doc="Checksum of the names of database and table; pudi computes it.",
    ),
    _table(
        key="hoodie.table.create.schema",
        doc="Avro schema that the table was made with; `pudi.create` takes it as its `schema`.",
    ),
)

_FIELDS = (
    _table(
        key="hoodie.table.recordkey.fields",
        doc="Columns that make the record key, separated by commas.",
        job_keys=("hoodie.datasource.write.recordkey.field",),
    ),
    _table(
        key="hoodie.table.partition.fields",
        doc="Columns that make the partition path, separated by commas; empty for none.",
        job_keys=("hoodie.datasource.write.partitionpath.field",),
    ),
    _table(
        key="hoodie.table.ordering.fields",
        doc="Columns that say which version of a record is newer, separated by commas.",
        aliases=("hoodie.table.precombine.field",),
        job_keys=("hoodie.datasource.write.precombine.field",),
    ),
    _table(
        key="hoodie.table.keygenerator.type",
        doc="How record key and partition path are made of their columns; inferred from the number of columns.",
        choices=WRITABLE_KEY_GENERATORS,
        unsupported=OTHER_KEY_GENERATORS,
        job_keys=("hoodie.datasource.write.keygenerator.type",),
    ),
    _table(
        key="hoodie.table.keygenerator.class",
        doc="The same by the name of Hudi's class; a key in a table of known generators, never code that is loaded.",
        job_keys=("hoodie.datasource.write.keygenerator.class",),
    ),
    _flag(
        key="hoodie.datasource.write.hive_style_partitioning",
        doc="Whether partition folders are named `column=value`.",
    ),
    _flag(
        key="hoodie.datasource.write.partitionpath.urlencode",
        doc="Whether characters that are special in paths are percent-encoded in partition folders.",
    ),
    _flag(
        key="hoodie.datasource.write.slash.separated.date.partitioning",
        doc="Whether a date partition is three folders, year, month and day.",
        unsupported=("true",),
    ),
    _flag(
        key="hoodie.datasource.write.drop.partition.columns",
        doc="Whether partition columns are left out of the data files.",
        unsupported=("true",),
    ),
    _table(
        key="hoodie.table.partition_extractor_class",
        doc="Hint for Hive sync: how partition values are read from a path; inferred.",
        job_keys=("hoodie.datasource.hive_sync.partition_extractor_class",),
    ),
    _timebased(
        "timestamp.type",
        "What the column of a folder named by time holds.",
        choices=("UNIX_TIMESTAMP", "DATE_STRING", "MIXED", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR"),
    ),
    _timebased(
        "timestamp.scalar.time.unit",
        "Unit of scalar timestamps.",
        "SECONDS",
        ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
    ),
    _timebased("input.dateformat", "Patterns (Joda-Time's) of dates given as text.", ""),
    _timebased("input.dateformat.list.delimiter.regex", "Separator between input patterns.", ","),
    _timebased("input.timezone", "Time zone of texts that don't say theirs; pudi makes tables with UTC."),
    _timebased("output.dateformat", "Pattern (Joda-Time's) of the partition path.", ""),
    _timebased("output.timezone", "Time zone of the partition path; pudi makes tables with UTC."),
    _timebased("timezone", "Time zone of both, before the other two."),
    _lacking(
        key="hoodie.keygen.datetime.parser.class",
        aliases=("hoodie.deltastreamer.keygen.datetime.parser.class",),
        doc="Parser of dates in the timestamp key generator.",
        default="org.apache.hudi.keygen.parser.HoodieDateTimeParser",
        instead="a class is never loaded by name",
    ),
)

_FILES = (
    _table(
        key="hoodie.table.base.file.format",
        doc="Format of base files. HFILE keeps records in the order of their keys, as the metadata table does; there "
        "are no column statistics of such files, and Hudi 1.2 doesn't read such tables from Spark.",
        default="PARQUET",
        choices=("PARQUET", "HFILE"),
        unsupported=("ORC", "LANCE"),
        aliases=("hoodie.table.ro.file.format",),
        job_keys=("hoodie.base.file.format",),
    ),
    _table(
        key="hoodie.table.log.file.format",
        doc="Format of log files.",
        default="HOODIE_LOG",
        choices=("HOODIE_LOG",),
        aliases=("hoodie.table.rt.file.format",),
    ),
    _flag(
        key="hoodie.table.multiple.base.file.formats.enable",
        doc="Whether base files of several formats may be mixed.",
        unsupported=("true",),
    ),
    _flag(
        key="hoodie.partition.metafile.use.base.format",
        doc="Whether a partition's metafile is a base file instead of properties.",
        unsupported=("true",),
    ),
    _flag(
        key="hoodie.populate.meta.fields",
        doc="Whether each record carries Hudi's five meta fields.",
        default=True,
        unsupported=("false",),
    ),
    _lacking(
        key="hoodie.table.storage.layout",
        aliases=("hoodie.storage.layout.type",),
        doc="How file groups are laid out in storage.",
        default="DEFAULT",
    ),
    _lacking(
        key="hoodie.table.format",
        doc="Format of the table's own metadata.",
        default="native",
    ),
    _lacking(
        key="hoodie.bootstrap.base.path",
        doc="Table of plain files that this one was bootstrapped from.",
    ),
    _flag(key="hoodie.bootstrap.index.enable", doc="Whether a bootstrapped table has an index.", default=True),
    _table(key="hoodie.bootstrap.index.class", doc="Index of a bootstrapped table, by class."),
    _table(key="hoodie.bootstrap.index.type", doc="Index of a bootstrapped table.", default="HFILE"),
)

_TIMELINE = (
    _table(key="hoodie.timeline.path", doc="Folder of the timeline.", default="timeline"),
    _table(key="hoodie.timeline.history.path", doc="Folder of the archived timeline.", default="history"),
    _table(key="hoodie.archivelog.folder", doc="Folder of the archive below version 8.", default="archived"),
    _table(
        key="hoodie.table.timeline.timezone",
        doc="Time zone of instant times; pudi makes tables in UTC, since local time goes back in autumn.",
        default="LOCAL",
        choices=("UTC", "LOCAL"),
    ),
)

_MERGING = (
    _table(
        key="hoodie.record.merge.mode",
        doc="Which version of a record wins; by event time with ordering fields, by commit time without.",
        choices=(COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, "CUSTOM"),
        job_keys=("hoodie.write.record.merge.mode",),
    ),
    _table(
        key="hoodie.record.merge.strategy.id",
        doc="The same by the id of a merge strategy: one of Hudi's, or that of a registered `pudi.RecordMerger`.",
        aliases=("hoodie.compaction.record.merger.strategy",),
        job_keys=("hoodie.write.record.merge.strategy.id", "hoodie.datasource.write.record.merger.strategy"),
    ),
    _table(
        key="hoodie.compaction.payload.class",
        doc="The same by the name of a payload class; a key in a table of known ones, never code that is loaded.",
        job_keys=("hoodie.datasource.write.payload.class",),
    ),
    _table(key="hoodie.table.legacy.payload.class", doc="Payload class that the table was made with."),
    _table(
        key="hoodie.table.partial.update.mode",
        doc="How a record that is partly filled is completed; tables of version 9 take it from the payload class too.",
        choices=("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
        unsupported=("KEEP_VALUES", "FILL_DEFAULTS"),
        instead="Hudi 1.2 has no such mode for whole tables",
    ),
    _table(
        key=DELETE_FIELD,
        doc="Column that marks a record as a delete, when it holds the marker; given when the table is made.",
        job_keys=("hoodie.payload.delete.field",),
    ),
    _table(
        key=DELETE_MARKER,
        doc="What that column holds, as text, when the record is a delete.",
        job_keys=("hoodie.payload.delete.marker",),
    ),
    _table(
        key="hoodie.record.merge.property.*",
        doc="A property handed to the merger; given when the table is made.",
    ),
)

_FEATURES = (
    _lacking(
        key="hoodie.table.metadata.partitions",
        doc="Partitions of the metadata table that readers may use.",
        default="",
        instead="hoodie.metadata.enable=true makes a metadata table",
    ),
    _lacking(
        key="hoodie.table.metadata.partitions.inflight",
        doc="Partitions of the metadata table that are being built.",
        default="",
        instead="hoodie.metadata.enable=true makes a metadata table",
    ),
    _table(key="hoodie.table.index.defs.path", doc="File of index definitions, relative to the table's root."),
    _table(key="hoodie.table.secondary.indexes.metadata", doc="Secondary indexes of old tables."),
    _flag(key="hoodie.table.cdc.enabled", doc="Whether writers log changes beside the data.", unsupported=("true",)),
    _table(
        key="hoodie.table.cdc.supplemental.logging.mode",
        doc="What such a change log holds.",
        default="DATA_BEFORE_AFTER",
        choices=("DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"),
    ),
)

TABLE_OPTIONS: tuple[Option[Any], ...] = (*_IDENTITY, *_FIELDS, *_FILES, *_TIMELINE, *_MERGING, *_FEATURES)
"""Every setting of the table, in the order of the option page."""
