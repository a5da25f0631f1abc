"""Options of readers, and of the memory that merging takes.

`Table.scan` takes arguments instead of most of them, and errors about these options name the argument.

Sources: `DataSourceReadOptions`, `HoodieReaderConfig`, `HoodieMemoryConfig` of Apache Hudi 1.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pudi.config.option import Declare, Option, OptionsView, Scope, Status

_LIMIT = "hoodie.memory.merge.max.size"
_MOST = 512 << 20
"""Maximum bytes of one column per array, since offsets have 31 bits."""

_option = Declare(Scope.READ)
_argument = Declare(Scope.READ, Status.UNSUPPORTED)
_of_format = Declare(Scope.READ, Status.FORMAT)
_harmless = Declare(Scope.READ, Status.HARMLESS)


class ReadOptions(OptionsView):
    """The options that scans read."""

    __slots__ = ()

    data_skipping = _option(
        "hoodie.enable.data.skipping",
        "Whether to skip files by statistics in the metadata table. Statistics in the files are always used.",
        default=True,
        job_keys=("read.data.skipping.enabled",),
    )
    by_position = _option(
        "hoodie.merge.use.record.positions",
        "Whether reads match log records with base rows by row number, if all log blocks of a slice have row numbers "
        "for its base file. Otherwise they match by key.",
        default=True,
    )


class FormatOptions(OptionsView):
    """Options of `spark.read.format("pudi")` and `pudi.spark.read(spark)`."""

    __slots__ = ()

    columns = _of_format("columns", "The columns to read, separated by commas.", instead="use table.scan(columns=…)")
    where = _of_format(
        "where", "A SQL predicate; it skips files as `Table.scan` does.", instead="use table.scan(where=…)"
    )
    as_of = _of_format(
        "as.of.instant", "Instant to travel back to.", aliases=("as_of",), instead="use table.scan(as_of=…)"
    )
    meta_fields = _of_format(
        "meta_fields",
        "Whether the meta fields come with all columns. By default they do, but not in tables of a catalog.",
        kind=bool,
        instead="use table.scan(meta_fields=…)",
    )
    query = _of_format(
        "hoodie.datasource.query.type",
        "Query type: snapshot, read optimized or incremental.",
        default="snapshot",
        choices=("snapshot", "read_optimized", "incremental"),
        aliases=("hoodie.datasource.view.type",),
        instead="use table.scan(read_optimized=True) or table.changes(since=…)",
    )
    as_read_optimized = _of_format(
        "hoodie.query.as.ro.table",
        "Whether a snapshot query reads the base files alone. A property of tables in catalogs, and in SQL of a second "
        "name of a table: CREATE TABLE name USING hudi TBLPROPERTIES (…) LOCATION '…'.",
        default=False,
        instead="use table.scan(read_optimized=True)",
    )
    changes_format = _of_format(
        "hoodie.datasource.query.incremental.format",
        "Result format of an incremental query.",
        default="latest_state",
        choices=("latest_state", "cdc"),
        instead="use table.changes(format=…)",
    )
    begin = _of_format(
        "hoodie.datasource.read.begin.instanttime",
        "Start of an incremental query, exclusive: a completion time, below table version 8 a requested one. "
        "`earliest`, or zeros, stands for the first commit.",
        instead="use table.changes(since=…)",
    )
    end = _of_format(
        "hoodie.datasource.read.end.instanttime",
        "End of an incremental query, inclusive.",
        instead="use table.changes(until=…)",
    )
    stream_start = _of_format(
        "hoodie.datasource.streaming.startOffset",
        "Where a new streaming query begins: `earliest` (the whole table first), `latest`, or a completion time.",
        default="earliest",
        instead="use pudi.spark.stream_changes(since=…)",
    )
    max_rows = _of_format(
        "maxRowsPerTrigger",
        "Maximum number of records that a batch's commits bring; its first commit may bring more. From Spark 4.2 on.",
        kind=int,
        minimum=1,
        instead="use pudi.spark.stream_changes(max_records=…)",
    )
    max_files = _of_format(
        "maxFilesPerTrigger",
        "Maximum number of files that a batch's commits wrote; its first commit may have more. From Spark 4.2 on.",
        kind=int,
        minimum=1,
        instead="use pudi.spark.stream_changes(max_commits=…)",
    )
    max_bytes = _of_format(
        "maxBytesPerTrigger",
        "Maximum number of bytes that a batch's commits wrote; its first commit may have more. From Spark 4.2 on.",
        kind=int,
        minimum=1,
        instead="use pudi.spark.stream_changes(max_commits=…)",
    )
    fail_on_data_loss = _of_format(
        "failOnDataLoss",
        "Whether a streaming query fails if the cleaner has removed what a batch reads.",
        default=True,
        instead="use pudi.spark.stream_changes(fail_on_data_loss=…)",
    )


READ_OPTIONS: tuple[Option[Any], ...] = (
    *ReadOptions.declared,
    *FormatOptions.declared,
    _argument(
        key="hoodie.datasource.read.paths",
        doc="Files of the table to read.",
        instead="use table.scan(where=…) on a partition column",
    ),
    _argument(
        key="hoodie.datasource.read.incr.path.glob",
        doc="Paths that an incremental query reads.",
        default="",
        instead="use table.changes(where=…)",
    ),
    _argument(
        key="hoodie.datasource.read.incr.filters",
        doc="Filters of an incremental query.",
        default="",
        instead="use table.changes(where=…)",
    ),
    _argument(
        key="hoodie.datasource.read.extract.partition.values.from.path",
        doc="Whether partition columns are read from the path instead of the files.",
        default=False,
    ),
    _argument(
        key="hoodie.datasource.merge.type",
        doc="Whether reads merge log records into base files.",
        default="payload_combine",
        instead="use table.scan(read_optimized=True)",
    ),
    _harmless(
        key="hoodie.schema.on.read.enable",
        doc="Whether columns are matched by ids; pudi always does so in a table with schema on read.",
        kind=bool,
    ),
    _harmless(key="hoodie.datasource.read.*", doc="How Hudi's Spark relation reads."),
    _harmless(key="hoodie.file.index.*", doc="How Hudi lists files in Spark."),
    _harmless(key="hoodie.file.group.reader.enabled", doc="Which of Hudi's readers is used.", kind=bool),
    _harmless(key="hoodie.hfile.block.cache.*", doc="Cache of Hudi's HFile reader."),
    _harmless(key="hoodie.read.*", doc="How Hudi's reader handles holes in a timeline and large objects."),
)
"""Every setting of a reader, in the order of the option page."""


class MergeMemory(OptionsView):
    """Memory that merging one slice may take; picklable."""

    __slots__ = ()

    limit = _option(
        _LIMIT,
        "Bytes of memory for merging one file slice, in addition to its largest log block and row group. Larger "
        "merges use a temporary file. Each thread or Spark task merges one slice at a time. 256 KiB is the least in "
        "effect; Hudi takes any number, and so does pudi.",
        default=1 << 30,
    )
    compaction = _option(
        "hoodie.memory.compaction.max.size",
        f"Bytes of memory for merging one file slice in a compaction; {_LIMIT} by default.",
        kind=int,
    )
    spillable_map_path = _option(
        "hoodie.memory.spillable.map.path",
        "Folder for temporary files of merges, on each machine; the system's temporary folder by default.",
    )

    @property
    def share(self) -> int:
        """Bytes of records in memory: merging holds up to four copies of them, or of parts of them."""
        return max(1 << 16, min(self.limit // 4, _MOST))

    @property
    def folder(self) -> str | None:
        """Return the folder for records beyond that memory; None for the system's temporary folder."""
        return self.spillable_map_path or None

    @property
    def of_compaction(self) -> MergeMemory:
        """The same for a compaction."""
        return self if self.compaction is None else replace(self, given={**self.given, _LIMIT: self.compaction})
