"""Every setting of a writer that has an effect here, with Hudi's keys and defaults; a default of pudi's own says so.

Sources: `HoodieWriteConfig`, `HoodieIndexConfig`, `HoodieStorageConfig`, `HoodieLockConfig`, `HoodieCompactionConfig`,
`HoodieCleanConfig`, `StorageBasedLockConfig`, `DataSourceWriteOptions` of Apache Hudi 1.2.
"""

from __future__ import annotations

from functools import partial

from pudi.config.option import Option, Scope, Status

_write = partial(Option, scope=Scope.WRITE)
_flag = partial(_write, kind=bool)
_count = partial(_write, kind=int)

CLOCK_TOLERANCE = "pudi.write.clock.tolerance.ms"

_MIB = 1024 * 1024
_LOCKS = "org.apache.hudi.client.transaction.lock."

_PROVIDERS = ("FileSystemBasedLockProvider", "StorageBasedLockProvider", "InProcessLockProvider")


def _parallelism(operation: str) -> Option:
    return _count(
        key=f"hoodie.{operation}.shuffle.parallelism",
        doc="Tasks of this operation; the engine decides, by the files to write.",
        status=Status.HARMLESS,
        default=0,
        minimum=0,
    )


_OPERATION = (
    _write(
        key="hoodie.datasource.write.operation",
        doc="What `pudi.spark.write` does; a `Table` has a verb for each.",
        default="upsert",
        choices=("upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table",
                 "delete_partition"),
        unsupported=("bootstrap", "cluster", "compact", "upsert_prepped", "insert_prepped", "bulk_insert_prepped",
                     "delete_prepped"),
    ),
    _flag(
        key="hoodie.combine.before.insert",
        doc="Whether records of one insert that share a key are combined first.",
        default=False,
    ),
    _flag(
        key="hoodie.combine.before.upsert",
        doc="Whether records of one upsert that share a key are combined first. Without it the last one that arrives "
        "updates a file, and all of them are written where the key is new.",
        default=True,
    ),
    _flag(
        key="hoodie.combine.before.delete",
        doc="Whether keys that a delete names more than once are combined first; the result is the same.",
        default=True,
    ),
    _flag(
        key="hoodie.write.complex.keygen.new.encoding",
        doc="Whether a complex key of one column leaves out the column's name, in a table below version 9 without "
        "records; one with records says so itself.",
    ),
    _flag(
        key="hoodie.merge.allow.duplicate.on.inserts",
        doc="Whether an insert may add a key that its file group holds already.",
        default=True,
    ),
    _flag(
        key="hoodie.datasource.write.insert.drop.duplicates",
        doc="Whether an insert leaves out records whose key the table holds; an upsert becomes such an insert.",
        default=False,
    ),
    _write(
        key="hoodie.datasource.insert.dup.policy",
        doc="What an insert does with records whose key the table holds: adds them (none), leaves them out (drop) or "
        "is refused (fail).",
        default="none",
        choices=("none", "drop", "fail"),
    ),
    _write(
        key="hoodie.bulkinsert.sort.mode",
        doc="How the records of a bulk insert are sorted and brought to tasks: not at all, by partition path and key "
        "over all tasks or in each of them, or a partition's records to one task.",
        default="NONE",
        choices=("NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION",
                 "PARTITION_PATH_REPARTITION_AND_SORT"),
    ),
    _write(
        key="hoodie.datasource.overwrite.mode",
        doc="What `insert_overwrite` replaces: the partitions that records fall into (dynamic) or, where none are "
        "named, all of the table (static).",
        default="DYNAMIC",
        choices=("DYNAMIC", "STATIC"),
    ),
    _write(
        key="hoodie.static.overwrite.partition.paths",
        doc="Partition paths, separated by commas, that `insert_overwrite` replaces whatever the records.",
    ),
    _write(
        key="hoodie.datasource.write.partitions.to.delete",
        doc="Partition paths, separated by commas, that the operation delete_partition deletes; `*` stands for any "
        "text. Without it those that the records fall into.",
    ),
    _parallelism("upsert"),
    _parallelism("insert"),
    _count(
        key="hoodie.bulkinsert.shuffle.parallelism",
        doc="Spark tasks of a bulk insert; 0 lets Spark decide.",
        default=0,
        minimum=0,
    ),
    _parallelism("delete"),
)  # fmt: skip

_INDEX = (
    _write(
        key="hoodie.index.type",
        doc="How a write finds the file of a key: in its partition by keys (SIMPLE) or by bloom filters first (BLOOM, "
        "which also writes them into base files), in the whole table (GLOBAL_SIMPLE, GLOBAL_BLOOM), by the metadata "
        "table's record index (RECORD_INDEX or GLOBAL_RECORD_LEVEL_INDEX in the whole table, RECORD_LEVEL_INDEX in its "
        "partition), or by the key's hash (BUCKET). A table whose files are buckets has BUCKET by itself.",
        default="SIMPLE",
        choices=("SIMPLE", "BLOOM", "BUCKET", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX",
                 "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"),
        unsupported=("INMEMORY", "HBASE", "FLINK_STATE"),
    ),
    _flag(
        key="hoodie.simple.index.update.partition.path",
        doc="Whether GLOBAL_SIMPLE moves a record that comes with another partition path there; else it's updated "
        "where it is.",
        default=True,
    ),
    _flag(
        key="hoodie.bloom.index.update.partition.path",
        doc="The same for GLOBAL_BLOOM.",
        default=True,
    ),
    _flag(
        key="hoodie.record.index.update.partition.path",
        doc="The same for RECORD_INDEX and GLOBAL_RECORD_LEVEL_INDEX.",
        default=False,
    ),
    _count(
        key="hoodie.bucket.index.num.buckets",
        doc="Buckets of each partition, for BUCKET. Fixed by the first write; later it's told by the files.",
        minimum=1,
    ),
    _write(
        key="hoodie.bucket.index.hash.field",
        doc="Columns of the record key that BUCKET hashes; all of them without it. Not to be changed later.",
    ),
    _write(
        key="hoodie.index.bucket.engine",
        doc="Kind of bucket index. CONSISTENT_HASHING, for merge-on-read tables, divides each partition by a ring of "
        "its own; buckets are not resized here, and replacing records is refused.",
        default="SIMPLE",
        choices=("SIMPLE", "CONSISTENT_HASHING"),
    ),
    _write(
        key="hoodie.bucket.index.partition.expressions",
        doc="Numbers of buckets by partition.",
        status=Status.UNSUPPORTED,
        instead="give one number for all, hoodie.bucket.index.num.buckets",
    ),
    _count(
        key="hoodie.index.bloom.num_entries",
        doc="Keys that a bloom filter is made for.",
        default=60_000,
        minimum=1,
    ),
    _write(
        key="hoodie.index.bloom.fpp",
        doc="Rate of false positives of a bloom filter that holds that many keys.",
        kind=float,
        default=1e-9,
        minimum=1e-300,
    ),
    _count(
        key="hoodie.bloom.index.filter.dynamic.max.entries",
        doc="Keys beyond which a dynamic bloom filter grows no more.",
        default=100_000,
        minimum=1,
    ),
    _write(
        key="hoodie.bloom.index.filter.type",
        doc="Kind of bloom filter.",
        default="DYNAMIC_V0",
        choices=("DYNAMIC_V0", "SIMPLE"),
    ),
)  # fmt: skip

_SCHEMA = (
    _flag(
        key="hoodie.write.set.null.for.missing.columns",
        doc="Whether columns that the data lacks become null; without it they are an error.",
        default=False,
    ),
)

_LOGS = (
    _write(
        key="hoodie.logfile.data.block.format",
        doc="How records are held in log files. Hudi's default is avro, pudi's is parquet, "
        "which it writes and reads several times as fast, and which Hudi reads as well; of both it's hfile where base "
        "files are HFiles.",
        choices=("parquet", "avro", "hfile"),
    ),
    _count(
        key="hoodie.logfile.max.size",
        doc="Bytes from which on a write begins another log file.",
        default=1024 * _MIB,
        minimum=1,
    ),
    _count(
        key="hoodie.logfile.data.block.max.size",
        doc="Bytes in memory of the records that one block of a log file holds.",
        default=256 * _MIB,
        minimum=1,
    ),
    Option(
        key="hoodie.write.record.positions",
        scope=Scope.WRITE,
        doc="Whether log blocks say where their records are in the base file, where the index that found them knows.",
        kind=bool,
        default=True,
    ),
    Option(
        key="pudi.update.partial",
        scope=Scope.WRITE,
        doc="Whether `Table.update` writes only the columns that change and the ordering columns to a merge-on-read "
        "table's log files, from version 8 on. Hudi reads such log files, but in incremental queries; a record that "
        "comes late, with a lower ordering value, then fills the columns that the update didn't write, as with Hudi.",
        kind=bool,
        default=False,
    ),
    _count(
        key="hoodie.merge.small.file.group.candidates.limit",
        doc="How many small base files of a partition take inserts in one write to a merge-on-read table.",
        default=1,
        minimum=0,
    ),
)

_FILES = (
    _count(
        key="hoodie.parquet.small.file.limit",
        doc="Base files smaller than this many bytes are filled up by inserts; 0 or less fills none.",
        default=100 * _MIB,
    ),
    _count(
        key="hoodie.parquet.max.file.size",
        doc="Size in bytes that base files are planned for.",
        default=120 * _MIB,
        minimum=1,
    ),
    _count(
        key="hoodie.copyonwrite.record.size.estimate",
        doc="Bytes of a record, as long as no commit tells.",
        default=1024,
        minimum=1,
    ),
    _write(
        key="hoodie.parquet.compression.codec",
        doc="Codec of base files. pudi's default is zstd: Hudi's, gzip, takes eight times as long to write.",
        default="zstd",
        choices=("zstd", "gzip", "snappy", "uncompressed"),
        unsupported=("lz4", "lz4_raw", "lzo", "brotli"),
    ),
    _count(
        key="hoodie.parquet.block.size",
        doc="Size in bytes of a row group.",
        default=120 * _MIB,
        minimum=1,
    ),
    _count(key="hoodie.parquet.page.size", doc="Size in bytes of a page.", default=_MIB, minimum=1),
    _flag(
        key="hoodie.parquet.dictionary.enabled",
        doc="Whether columns are dictionary-encoded where that pays.",
        default=True,
    ),
    _write(
        key="hoodie.hfile.compression.algorithm",
        doc="Codec of base files that are HFiles.",
        default="GZ",
        choices=("GZ", "NONE"),
        unsupported=("LZO", "SNAPPY", "LZ4", "BZIP2", "ZSTD"),
    ),
    _count(
        key="hoodie.hfile.block.size",
        doc="Bytes of a block of a base file that is an HFile.",
        default=_MIB,
        minimum=1,
    ),
    _flag(
        key="hoodie.parquet.bloom.filter.enabled",
        doc="Whether base files carry a bloom filter of their keys. Hudi's default is true; pudi's is true with the "
        "bloom index only, since the filter costs as much as the write.",
    ),
)

_COMMIT = (
    _write(
        key="hoodie.write.lock.provider",
        doc="What guards the timeline among writers, with or without its package; what fits the storage by default. On "
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
    ),
    _write(
        key="hoodie.write.concurrency.mode",
        doc="Whether one process writes the table (SINGLE_WRITER) or several may. Conflicts are always looked for. "
        "SINGLE_WRITER, given explicitly, allows InProcessLockProvider in an object store: whatever another process "
        "does beside a write then ends it with a ConflictError.",
        choices=("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL"),
        unsupported=("NON_BLOCKING_CONCURRENCY_CONTROL",),
    ),
    _count(
        key="hoodie.write.num.retries.on.conflict.failures",
        doc="How often a write that lost to another writer is planned and written again, with growing pauses. Without "
        "it 5 times for update, merge, delete by predicate, insert and bulk_insert, and never for upsert, delete of "
        "records, overwrites and delete_partitions, whose input may have been computed from what changed meanwhile. "
        "Hudi's default is 0.",
        minimum=0,
    ),
    _count(
        key="hoodie.write.lock.wait_time_ms",
        doc="Milliseconds to wait for the lock.",
        default=60_000,
        minimum=0,
    ),
    _count(
        key="hoodie.write.lock.wait_time_ms_between_retry",
        doc="Milliseconds between two looks at a lock that another holds; the lock decides by default.",
        minimum=1,
    ),
    _write(
        key="hoodie.write.lock.filesystem.path",
        doc="Folder of the lock file, relative to the table's root; Hudi's own folder without it.",
    ),
    _count(
        key="hoodie.write.lock.filesystem.expire",
        doc="Minutes after which a lock file is taken over; 0 for never.",
        default=0,
        minimum=0,
    ),
    _count(
        key="hoodie.write.lock.storage.validity.timeout.secs",
        doc="Seconds that a storage-based lock is good for without renewal; at least ten renewals.",
        default=300,
        minimum=10,
    ),
    _count(
        key="hoodie.write.lock.storage.renew.interval.secs",
        doc="Seconds between two renewals of a storage-based lock.",
        default=30,
        minimum=1,
        job_keys=("hoodie.write.lock.storage.heartbeat.poll.secs",),
    ),
    _count(
        key=CLOCK_TOLERANCE,
        doc="Milliseconds that this machine's clock may be apart from an object store's, by the time it gives to the "
        "requested file; a writer whose clock is further off is refused. 0 compares nothing, at one request less a "
        "write.",
        default=5 * 60 * 1000,
        minimum=0,
    ),
    _count(
        key="hoodie.client.heartbeat.interval_in_ms",
        doc="Milliseconds between two heartbeats of a writer.",
        default=60_000,
        minimum=1,
    ),
    _count(
        key="hoodie.client.heartbeat.tolerable.misses",
        doc="Heartbeats that a living writer may miss.",
        default=2,
        minimum=0,
    ),
    _write(
        key="hoodie.clean.failed.writes.policy",
        doc="When a dead writer's leavings are rolled back: before any write (EAGER), once its heartbeat is over "
        "(LAZY) or never. pudi's default is LAZY, safe with several writers; Hudi's is EAGER.",
        default="LAZY",
        choices=("EAGER", "LAZY", "NEVER"),
        job_keys=("hoodie.cleaner.policy.failed.writes",),
    ),
)

WRITE_OPTIONS: tuple[Option, ...] = (*_OPERATION, *_INDEX, *_SCHEMA, *_FILES, *_LOGS, *_COMMIT)
"""Every setting of a writer that has an effect, in the order of the option page."""
