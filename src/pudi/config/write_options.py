"""The options of a writer, with Hudi's keys and defaults; a default of pudi's own says so.

Sources: `HoodieWriteConfig`, `HoodieIndexConfig`, `HoodieStorageConfig`, `HoodieLockConfig`, `HoodieCompactionConfig`,
`HoodieCleanConfig`, `DataSourceWriteOptions` of Apache Hudi 1.2.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pudi.config.index_options import IndexOptions
from pudi.config.option import Declare, Option, Scope, names_in

BloomType: TypeAlias = Literal["SIMPLE", "DYNAMIC_V0"]

NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"
"""The value of hoodie.write.concurrency.mode with which writers of one bucket don't conflict."""

_MIB = 1024 * 1024
_HFILE_CODECS = {"GZ": "gzip", "NONE": "none"}
_BLOOM_INDEXES = frozenset({"BLOOM", "GLOBAL_BLOOM"})

_option = Declare(Scope.WRITE)


class WriteOptions(IndexOptions):
    """Options of all write operations. Locks have a view of their own, `LockSettings`."""

    __slots__ = ()

    operation = _option(
        "hoodie.datasource.write.operation",
        "Operation of `pudi.spark.write`; `pudi.Table` has a verb for each.",
        default="upsert",
        choices=(
            "upsert",
            "insert",
            "bulk_insert",
            "delete",
            "insert_overwrite",
            "insert_overwrite_table",
            "delete_partition",
        ),
        unsupported=(
            "bootstrap",
            "cluster",
            "compact",
            "upsert_prepped",
            "insert_prepped",
            "bulk_insert_prepped",
            "delete_prepped",
            "alter_schema",
        ),
        job_keys=("write.operation",),
    )
    combine_before_insert = _option(
        "hoodie.combine.before.insert",
        "Whether an insert first combines input records with the same key.",
        default=False,
    )
    combine_before_upsert = _option(
        "hoodie.combine.before.upsert",
        "Whether an upsert first combines input records with the same key. If false, the last one updates an existing "
        "record, and all of them are inserted if the key is new.",
        default=True,
    )
    combine_before_delete = _option(
        "hoodie.combine.before.delete",
        "Whether a delete first removes duplicate keys from its input; the result is the same.",
        default=True,
    )
    auto_upgrade = _option(
        "hoodie.write.auto.upgrade",
        "Whether a write first upgrades a table of an earlier version to `hoodie.write.table.version`, by default the "
        "newest. Hudi does so unless an option forbids it; pudi changes no table's version unasked.",
        default=False,
    )
    complex_keygen_new_encoding = _option(
        "hoodie.write.complex.keygen.new.encoding",
        "Whether a complex key of one column omits the column's name. Applies below table version 9 to tables without "
        "records; otherwise the existing keys decide.",
        kind=bool,
    )
    allow_duplicates = _option(
        "hoodie.merge.allow.duplicate.on.inserts",
        "Whether an insert may add a record whose key its file group holds already.",
        default=True,
    )
    drop_duplicates = _option(
        "hoodie.datasource.write.insert.drop.duplicates",
        "Whether an insert drops records whose key exists in the table. Turns an upsert into such an insert.",
        default=False,
    )
    duplicate_policy = _option(
        "hoodie.datasource.insert.dup.policy",
        "What an insert does with records whose key exists in the table: add them (none), drop them (drop), or raise "
        "an error (fail).",
        default="none",
        choices=("none", "drop", "fail"),
    )
    sort_mode = _option(
        "hoodie.bulkinsert.sort.mode",
        "Sort order of a bulk insert: none, by partition path and key across all tasks or within each task, or all "
        "records of a partition in one task.",
        default="NONE",
        choices=(
            "NONE",
            "GLOBAL_SORT",
            "PARTITION_SORT",
            "PARTITION_PATH_REPARTITION",
            "PARTITION_PATH_REPARTITION_AND_SORT",
        ),
    )
    overwrite_mode = _option(
        "hoodie.datasource.overwrite.mode",
        "What `insert_overwrite` replaces: the partitions of the input records (DYNAMIC), or the partitions that the "
        "call names, or else the whole table (STATIC).",
        default="DYNAMIC",
        choices=("DYNAMIC", "STATIC"),
        job_keys=("write.partition.overwrite.mode",),
    )
    static_partition_paths = _option(
        "hoodie.static.overwrite.partition.paths",
        "Partition paths, separated by commas, that `insert_overwrite` replaces regardless of the input records.",
    )
    stream_identifier = _option(
        "hoodie.datasource.write.streaming.checkpoint.identifier",
        "Id of a streaming query. It must be unique among the queries that write the table; pudi uses it to skip a "
        "repeated batch.",
        default="default_single_writer",
    )
    stream_query = _option(
        "pudi.streaming.query.id",
        "Id of the streaming query that writes, which must stay the same as long as its checkpoint does. By default "
        "the id that Spark keeps in the checkpoint. pudi refuses batches of another query under the same identifier.",
    )
    format_bytes = _option(
        "pudi.format.write.max.bytes",
        'Bytes of Arrow data that one write, or one batch of a stream, by `format("pudi")` takes at most: they pass '
        "through a Python process on the driver.",
        default=256 << 20,
        minimum=1,
    )
    partitions_to_delete = _option(
        "hoodie.datasource.write.partitions.to.delete",
        "Partition paths, separated by commas, that the operation delete_partition deletes; `*` matches any text. By "
        "default the partitions of the input records.",
    )
    bulk_tasks = _option(
        "hoodie.bulkinsert.shuffle.parallelism",
        "Spark tasks of a bulk insert; 0 lets Spark decide.",
        default=0,
        minimum=0,
    )
    bloom_num_entries = _option(
        "hoodie.index.bloom.num_entries", "Number of keys that a bloom filter is sized for.", default=60_000, minimum=1
    )
    bloom_fpp = _option(
        "hoodie.index.bloom.fpp",
        "False positive rate of a bloom filter with that number of keys.",
        default=1e-9,
        minimum=1e-300,
    )
    bloom_max_entries = _option(
        "hoodie.bloom.index.filter.dynamic.max.entries",
        "Number of keys up to which a dynamic bloom filter grows.",
        default=100_000,
        minimum=1,
    )
    bloom_type: Option[BloomType] = _option(
        "hoodie.bloom.index.filter.type",
        "Type of bloom filter.",
        default="DYNAMIC_V0",
        choices=("DYNAMIC_V0", "SIMPLE"),
    )
    fill_missing = _option(
        "hoodie.write.set.null.for.missing.columns",
        "Whether columns that the data lacks become null. If false, a missing column is an error.",
        default=False,
    )
    log_block_format = _option(
        "hoodie.logfile.data.block.format",
        "Format of data blocks in log files. The default is hfile if base files are HFiles. Otherwise Hudi's default "
        "is avro and pudi's is parquet, which is several times as fast and which Hudi reads as well.",
        choices=("parquet", "avro", "hfile"),
    )
    log_max_size = _option(
        "hoodie.logfile.max.size",
        "Size in bytes at which a write starts another log file.",
        default=1024 * _MIB,
        minimum=1,
    )
    log_block_max_size = _option(
        "hoodie.logfile.data.block.max.size",
        "Maximum size in memory, in bytes, of the records in one log block.",
        default=256 * _MIB,
        minimum=1,
    )
    record_positions = _option(
        "hoodie.write.record.positions",
        "Whether log blocks store the row numbers of their records in the base file, if the index returns them.",
        default=True,
    )
    partial_updates = _option(
        "pudi.update.partial",
        "Whether `Table.update` on a merge-on-read table writes partial updates: log files with only the changed "
        "columns and the ordering fields. From table version 8 on. Hudi reads them, except in incremental queries. As "
        "in Hudi, a late record with a lower ordering value then fills the columns that the update didn't write.",
        default=False,
    )
    merge_several_matches = _option(
        "pudi.merge.several.matches",
        "Which of several source rows with one record key counts in a merge into a table without ordering fields: "
        "none, so that it's an error where they match a row, or the last one, as in Hudi. With ordering fields the "
        "greatest value counts. A merge that only inserts keeps all rows.",
        default="error",
        choices=("error", "last"),
    )
    small_file_candidates = _option(
        "hoodie.merge.small.file.group.candidates.limit",
        "Maximum number of small base files per partition that take inserts in one write to a merge-on-read table.",
        default=1,
        minimum=0,
    )
    small_file_limit = _option(
        "hoodie.parquet.small.file.limit",
        "Inserts fill up base files smaller than this size in bytes; 0 or less disables it.",
        default=100 * _MIB,
    )
    max_file_size = _option(
        "hoodie.parquet.max.file.size", "Target size of base files in bytes.", default=120 * _MIB, minimum=1
    )
    record_size_estimate = _option(
        "hoodie.copyonwrite.record.size.estimate",
        "Estimated size of a record in bytes, until a commit gives a better estimate.",
        default=1024,
        minimum=1,
    )
    compression_codec = _option(
        "hoodie.parquet.compression.codec",
        "Codec of base files. pudi's default is zstd; Hudi's, gzip, takes eight times as long to write.",
        default="zstd",
        choices=("zstd", "gzip", "snappy", "uncompressed"),
        unsupported=("lz4", "lz4_raw", "lzo", "brotli"),
    )
    block_size = _option("hoodie.parquet.block.size", "Size in bytes of a row group.", default=120 * _MIB, minimum=1)
    page_size = _option("hoodie.parquet.page.size", "Size in bytes of a page.", default=_MIB, minimum=1)
    dictionary_enabled = _option(
        "hoodie.parquet.dictionary.enabled",
        "Whether to dictionary-encode columns where it reduces the size.",
        default=True,
    )
    hfile_compression = _option(
        "hoodie.hfile.compression.algorithm",
        "Codec of HFile base files.",
        default="GZ",
        choices=("GZ", "NONE"),
        unsupported=("LZO", "SNAPPY", "LZ4", "BZIP2", "ZSTD"),
    )
    hfile_block_size = _option(
        "hoodie.hfile.block.size", "Block size of HFile base files in bytes.", default=_MIB, minimum=1
    )
    orc_codec = _option(
        "hoodie.orc.compression.codec",
        "Codec of ORC base files.",
        default="ZLIB",
        choices=("ZLIB", "SNAPPY", "LZ4", "ZSTD", "NONE"),
        unsupported=("LZO",),
    )
    orc_stripe_size = _option(
        "hoodie.orc.stripe.size", "Size in bytes of a stripe of ORC base files.", default=64 * _MIB, minimum=1
    )
    bloom_filter = _option(
        "hoodie.parquet.bloom.filter.enabled",
        "Whether base files contain a bloom filter of their keys. Hudi's default is true. pudi's is true only with "
        "the bloom index, since making the filter takes as long as the write.",
        kind=bool,
    )
    lock_provider = _option(
        "hoodie.write.lock.provider",
        "Lock provider: one of Hudi's classes, with or without its package (see [several "
        "writers](concurrency.md#locks)), or a name given to `pudi.register_lock_provider`. pudi only "
        "looks a name up in a list. The default depends on the storage. On a local disk InProcessLockProvider "
        "stands for a file lock, so it is safe there. On object stores it is refused, unless "
        " hoodie.write.concurrency.mode is set to SINGLE_WRITER.",
    )
    concurrency_mode = _option(
        "hoodie.write.concurrency.mode",
        "Whether one process (SINGLE_WRITER) or several write the table. pudi checks for conflicts in each mode. "
        "SINGLE_WRITER, if set explicitly, allows InProcessLockProvider on object stores; a write then fails with "
        "ConflictError if another process changed the table. With NON_BLOCKING_CONCURRENCY_CONTROL upserts, inserts "
        "and deletes of several writers go into the same buckets of a merge-on-read table, see [writers that don't "
        "block each other](concurrency.md#writers-that-dont-block-each-other).",
        choices=("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL", NON_BLOCKING),
    )
    conflict_retries = _option(
        "hoodie.write.num.retries.on.conflict.failures",
        "How often pudi plans and writes again after a conflict, after a short random pause. The default is 5 for "
        "update, merge, delete by predicate, insert and bulk_insert. It is 0 for upsert, delete of records, overwrites "
        "and delete_partitions, since their input may have been computed from the changed records. Hudi's default is "
        "0.",
        kind=int,
        minimum=0,
    )
    sync = _option(
        "pudi.write.sync",
        "Whether a commit on a local disk is flushed (fsync) before the call returns, so that it survives a loss of "
        "power.",
        default=True,
    )
    clock_tolerance_ms = _option(
        "pudi.write.clock.tolerance.ms",
        "Maximum difference in milliseconds between this machine's clock and an object store's. pudi compares it with "
        "the modification time of the requested file and refuses to write if it is larger. 0 skips the check and "
        "saves one request per write.",
        default=5 * 60 * 1000,
        minimum=0,
    )
    merger_classes = _option(
        "hoodie.write.record.merge.custom.implementation.classes",
        "Mergers that a writer may use, separated by commas: names of Hudi's own, which do what the table's merge mode "
        "or payload class says, and `module.Class` of mergers registered by `pudi.register_merger`. The table says "
        "which one merges.",
        job_keys=(
            "hoodie.datasource.write.record.merger.impls",
            "hoodie.datasource.write.merger.impls",
            "record.merger.impls",
        ),
    )
    tracks_event_time = _option(
        "hoodie.write.track.event.time.watermark",
        "Whether commits state the least and the greatest event time of the written records, in tables with event-time "
        "ordering; `Table.history` shows it, and metrics of latency and freshness need it.",
        default=False,
    )
    event_time_field = _option(
        "hoodie.payload.event.time.field",
        "The column of event times: timestamps, or numbers or text of 10 digits (seconds since the epoch) or 13 "
        "(milliseconds). Other values don't count.",
        job_keys=("eventtime.field",),
    )
    heartbeat_interval_ms = _option(
        "hoodie.client.heartbeat.interval_in_ms",
        "Milliseconds between two heartbeats of a writer.",
        default=60_000,
        minimum=1,
    )
    heartbeat_tolerable_misses = _option(
        "hoodie.client.heartbeat.tolerable.misses",
        "Number of heartbeats that a living writer may miss.",
        default=2,
        minimum=0,
    )
    failed_writes_policy = _option(
        "hoodie.clean.failed.writes.policy",
        "When failed writes are rolled back: before every write (EAGER), after the writer's heartbeat expired (LAZY), "
        "or never (NEVER). pudi's default is LAZY, which is safe with several writers; Hudi's is EAGER.",
        default="LAZY",
        choices=("EAGER", "LAZY", "NEVER"),
        job_keys=("hoodie.cleaner.policy.failed.writes",),
    )
    keeps_rolled_back = _option(
        "hoodie.rollback.instant.backup.enabled",
        "Whether rollbacks and restores first copy the timeline files of what they roll back, to look into it later.",
        default=False,
    )
    rolled_back_folder = _option(
        "hoodie.rollback.instant.backup.dir",
        "Folder of these copies, below `.hoodie`. Hudi takes absolute locations too.",
        default=".rollback_backup",
    )

    @property
    def duplicates(self) -> str:
        """Return the treatment of inserted keys that the table holds: none (they are added), drop or fail."""
        return "drop" if self.drop_duplicates else self.duplicate_policy

    @property
    def static_partitions(self) -> tuple[str, ...] | None:
        """Partitions that an overwrite replaces; None where none are named."""
        return names_in(self.static_partition_paths) or None

    @property
    def bloom_enabled(self) -> bool:
        """Whether base files carry a bloom filter: with an index that reads them, unless the option says."""
        return self.index_type in _BLOOM_INDEXES if self.bloom_filter is None else self.bloom_filter

    @property
    def hfile_codec(self) -> str:
        """Codec of HFile base files, gzip or none."""
        return _HFILE_CODECS[self.hfile_compression]

    @property
    def heartbeat_expiry_ms(self) -> int:
        """Time without a heartbeat after which a writer counts as dead (`HoodieHeartbeatClient`)."""
        return self.heartbeat_interval_ms * self.heartbeat_tolerable_misses
