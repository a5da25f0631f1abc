"""The options of a writer, with Hudi's keys and defaults; a default of pudi's own says so.

Sources: `HoodieWriteConfig`, `HoodieIndexConfig`, `HoodieStorageConfig`, `HoodieLockConfig`, `HoodieCompactionConfig`,
`HoodieCleanConfig`, `DataSourceWriteOptions` of Apache Hudi 1.2.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pudi.config.index_options import IndexOptions
from pudi.config.option import Declare, Option, Scope, names_in

BloomType: TypeAlias = Literal["SIMPLE", "DYNAMIC_V0"]

_MIB = 1024 * 1024
_LOCKS = "org.apache.hudi.client.transaction.lock."

_PROVIDERS = ("FileSystemBasedLockProvider", "StorageBasedLockProvider", "InProcessLockProvider")
_HFILE_CODECS = {"GZ": "gzip", "NONE": "none"}
_BLOOM_INDEXES = frozenset({"BLOOM", "GLOBAL_BLOOM"})

_option = Declare(Scope.WRITE)


class WriteOptions(IndexOptions):
    """Options of all write operations. Locks have a view of their own, `LockSettings`."""

    __slots__ = ()

    operation = _option(
        "hoodie.datasource.write.operation",
        "What `pudi.spark.write` does; a `Table` has a verb for each.",
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
        ),
    )
    combine_before_insert = _option(
        "hoodie.combine.before.insert",
        "Whether records of one insert that share a key are combined first.",
        default=False,
    )
    combine_before_upsert = _option(
        "hoodie.combine.before.upsert",
        "Whether records of one upsert that share a key are combined first. Without it the last one that arrives "
        "updates a file, and all of them are written where the key is new.",
        default=True,
    )
    combine_before_delete = _option(
        "hoodie.combine.before.delete",
        "Whether keys that a delete names more than once are combined first; the result is the same.",
        default=True,
    )
    complex_keygen_new_encoding = _option(
        "hoodie.write.complex.keygen.new.encoding",
        "Whether a complex key of one column leaves out the column's name, in a table below version 9 without "
        "records; one with records says so itself.",
        kind=bool,
    )
    allow_duplicates = _option(
        "hoodie.merge.allow.duplicate.on.inserts",
        "Whether an insert may add a key that its file group holds already.",
        default=True,
    )
    drop_duplicates = _option(
        "hoodie.datasource.write.insert.drop.duplicates",
        "Whether an insert leaves out records whose key the table holds; an upsert becomes such an insert.",
        default=False,
    )
    duplicate_policy = _option(
        "hoodie.datasource.insert.dup.policy",
        "What an insert does with records whose key the table holds: adds them (none), leaves them out (drop) or "
        "is refused (fail).",
        default="none",
        choices=("none", "drop", "fail"),
    )
    sort_mode = _option(
        "hoodie.bulkinsert.sort.mode",
        "How the records of a bulk insert are sorted and brought to tasks: not at all, by partition path and key "
        "over all tasks or in each of them, or a partition's records to one task.",
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
        "What `insert_overwrite` replaces: the partitions that records fall into (dynamic) or, where none are "
        "named, all of the table (static).",
        default="DYNAMIC",
        choices=("DYNAMIC", "STATIC"),
    )
    static_partition_paths = _option(
        "hoodie.static.overwrite.partition.paths",
        "Partition paths, separated by commas, that `insert_overwrite` replaces whatever the records.",
    )
    stream_identifier = _option(
        "hoodie.datasource.write.streaming.checkpoint.identifier",
        "Name of a streaming query among those that write one table: by it a batch that comes again is known.",
        default="default_single_writer",
    )
    partitions_to_delete = _option(
        "hoodie.datasource.write.partitions.to.delete",
        "Partition paths, separated by commas, that the operation delete_partition deletes; `*` stands for any "
        "text. Without it those that the records fall into.",
    )
    bulk_tasks = _option(
        "hoodie.bulkinsert.shuffle.parallelism",
        "Spark tasks of a bulk insert; 0 lets Spark decide.",
        default=0,
        minimum=0,
    )
    bloom_num_entries = _option(
        "hoodie.index.bloom.num_entries", "Keys that a bloom filter is made for.", default=60_000, minimum=1
    )
    bloom_fpp = _option(
        "hoodie.index.bloom.fpp",
        "Rate of false positives of a bloom filter that holds that many keys.",
        default=1e-9,
        minimum=1e-300,
    )
    bloom_max_entries = _option(
        "hoodie.bloom.index.filter.dynamic.max.entries",
        "Keys beyond which a dynamic bloom filter grows no more.",
        default=100_000,
        minimum=1,
    )
    bloom_type: Option[BloomType] = _option(
        "hoodie.bloom.index.filter.type",
        "Kind of bloom filter.",
        default="DYNAMIC_V0",
        choices=("DYNAMIC_V0", "SIMPLE"),
    )
    fill_missing = _option(
        "hoodie.write.set.null.for.missing.columns",
        "Whether columns that the data lacks become null; without it they are an error.",
        default=False,
    )
    log_block_format = _option(
        "hoodie.logfile.data.block.format",
        "How records are held in log files. Hudi's default is avro, pudi's is parquet, "
        "which it writes and reads several times as fast, and which Hudi reads as well; of both it's hfile where base "
        "files are HFiles.",
        choices=("parquet", "avro", "hfile"),
    )
    log_max_size = _option(
        "hoodie.logfile.max.size",
        "Bytes from which on a write begins another log file.",
        default=1024 * _MIB,
        minimum=1,
    )
    log_block_max_size = _option(
        "hoodie.logfile.data.block.max.size",
        "Bytes in memory of the records that one block of a log file holds.",
        default=256 * _MIB,
        minimum=1,
    )
    record_positions = _option(
        "hoodie.write.record.positions",
        "Whether log blocks say where their records are in the base file, where the index that found them knows.",
        default=True,
    )
    partial_updates = _option(
        "pudi.update.partial",
        "Whether `Table.update` writes only the columns that change and the ordering columns to a merge-on-read "
        "table's log files, from version 8 on. Hudi reads such log files, but in incremental queries; a record that "
        "comes late, with a lower ordering value, then fills the columns that the update didn't write, as with Hudi.",
        default=False,
    )
    small_file_candidates = _option(
        "hoodie.merge.small.file.group.candidates.limit",
        "How many small base files of a partition take inserts in one write to a merge-on-read table.",
        default=1,
        minimum=0,
    )
    small_file_limit = _option(
        "hoodie.parquet.small.file.limit",
        "Base files smaller than this many bytes are filled up by inserts; 0 or less fills none.",
        default=100 * _MIB,
    )
    max_file_size = _option(
        "hoodie.parquet.max.file.size", "Size in bytes that base files are planned for.", default=120 * _MIB, minimum=1
    )
    record_size_estimate = _option(
        "hoodie.copyonwrite.record.size.estimate",
        "Bytes of a record, as long as no commit tells.",
        default=1024,
        minimum=1,
    )
    compression_codec = _option(
        "hoodie.parquet.compression.codec",
        "Codec of base files. pudi's default is zstd: Hudi's, gzip, takes eight times as long to write.",
        default="zstd",
        choices=("zstd", "gzip", "snappy", "uncompressed"),
        unsupported=("lz4", "lz4_raw", "lzo", "brotli"),
    )
    block_size = _option("hoodie.parquet.block.size", "Size in bytes of a row group.", default=120 * _MIB, minimum=1)
    page_size = _option("hoodie.parquet.page.size", "Size in bytes of a page.", default=_MIB, minimum=1)
    dictionary_enabled = _option(
        "hoodie.parquet.dictionary.enabled", "Whether columns are dictionary-encoded where that pays.", default=True
    )
    hfile_compression = _option(
        "hoodie.hfile.compression.algorithm",
        "Codec of base files that are HFiles.",
        default="GZ",
        choices=("GZ", "NONE"),
        unsupported=("LZO", "SNAPPY", "LZ4", "BZIP2", "ZSTD"),
    )
    hfile_block_size = _option(
        "hoodie.hfile.block.size", "Bytes of a block of a base file that is an HFile.", default=_MIB, minimum=1
    )
    bloom_filter = _option(
        "hoodie.parquet.bloom.filter.enabled",
        "Whether base files carry a bloom filter of their keys. Hudi's default is true; pudi's is true with the "
        "bloom index only, since the filter costs as much as the write.",
        kind=bool,
    )
    lock_provider = _option(
        "hoodie.write.lock.provider",
        "What guards the timeline among writers, with or without its package; what fits the storage by default. On "
        "a local disk every writer of pudi also takes a file lock, so that InProcessLockProvider is safe there; in "
        "object stores it's refused, unless hoodie.write.concurrency.mode says that there's one writer.",
        choices=(*_PROVIDERS, *(_LOCKS + name for name in _PROVIDERS)),
        unsupported=(
            _LOCKS + "ZookeeperBasedLockProvider",
            _LOCKS + "ZookeeperBasedImplicitBasePathLockProvider",
            "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
            "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
        ),
        instead="leave it out, or use one of " + ", ".join(_PROVIDERS),
    )
    concurrency_mode = _option(
        "hoodie.write.concurrency.mode",
        "Whether one process writes the table (SINGLE_WRITER) or several may. Conflicts are always looked for. "
        "SINGLE_WRITER, given explicitly, allows InProcessLockProvider in an object store: whatever another process "
        "does beside a write then ends it with a ConflictError.",
        choices=("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL"),
        unsupported=("NON_BLOCKING_CONCURRENCY_CONTROL",),
    )
    conflict_retries = _option(
        "hoodie.write.num.retries.on.conflict.failures",
        "How often a write that lost to another writer is planned and written again, with growing pauses. Without "
        "it 5 times for update, merge, delete by predicate, insert and bulk_insert, and never for upsert, delete of "
        "records, overwrites and delete_partitions, whose input may have been computed from what changed meanwhile. "
        "Hudi's default is 0.",
        kind=int,
        minimum=0,
    )
    sync = _option(
        "pudi.write.sync",
        "Whether on local disks a commit is brought to the disk (fsync) before it's told as done, so that a loss of "
        "power can't take it or damage the table.",
        default=True,
    )
    clock_tolerance_ms = _option(
        "pudi.write.clock.tolerance.ms",
        "Milliseconds that this machine's clock may be apart from an object store's, by the time it gives to the "
        "requested file; a writer whose clock is further off is refused. 0 compares nothing, at one request less a "
        "write.",
        default=5 * 60 * 1000,
        minimum=0,
    )
    heartbeat_interval_ms = _option(
        "hoodie.client.heartbeat.interval_in_ms",
        "Milliseconds between two heartbeats of a writer.",
        default=60_000,
        minimum=1,
    )
    heartbeat_tolerable_misses = _option(
        "hoodie.client.heartbeat.tolerable.misses", "Heartbeats that a living writer may miss.", default=2, minimum=0
    )
    failed_writes_policy = _option(
        "hoodie.clean.failed.writes.policy",
        "When a dead writer's leavings are rolled back: before any write (EAGER), once its heartbeat is over "
        "(LAZY) or never. pudi's default is LAZY, safe with several writers; Hudi's is EAGER.",
        default="LAZY",
        choices=("EAGER", "LAZY", "NEVER"),
        job_keys=("hoodie.cleaner.policy.failed.writes",),
    )

    @property
    def duplicates(self) -> str:
        """What an insert does with keys that the table holds: none (it adds them), drop or fail."""
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
