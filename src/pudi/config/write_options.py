"""The typed view of a writer's options."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.config.resolve import Options

BLOOM = "BLOOM"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write, whatever the operation. Sizes are bytes, times milliseconds unless said otherwise.

    Attributes:
        operation: what `pudi.spark.write` does: upsert, insert, bulk_insert or delete.
        index_type: SIMPLE or BLOOM.
        combine_before_insert: whether records of one insert that share a key are combined first.
        combine_before_upsert: the same for an upsert.
        combine_before_delete: the same for the keys of a delete.
        allow_duplicate_on_inserts: whether an insert may add a key that its file group holds already.
        bulk_insert_sort_mode: NONE.
        upsert_parallelism: tasks of an upsert; 0 lets the engine decide.
        insert_parallelism: the same for an insert.
        bulk_insert_parallelism: the same for a bulk insert.
        delete_parallelism: the same for a delete.
        small_file_limit: base files below this size are filled up by inserts; 0 or less fills none.
        max_file_size: size that base files are planned for.
        record_size_estimate: size of a record, as long as no commit tells.
        compression_codec: zstd, gzip, snappy or uncompressed.
        block_size: size of a row group.
        page_size: size of a page.
        dictionary_enabled: whether columns may be dictionary-encoded.
        bloom_enabled: whether base files carry a bloom filter.
        bloom_num_entries: keys that a bloom filter is made for.
        bloom_fpp: its rate of false positives.
        bloom_max_entries: keys beyond which a dynamic filter grows no more.
        bloom_type: DYNAMIC_V0 or SIMPLE.
        lock_provider: Hudi's class name of a lock; None for what fits the storage.
        lock_wait_ms: time that one attempt waits for the lock.
        lock_retry_wait_ms: time between attempts.
        lock_retries: number of attempts.
        lock_path: folder of the lock file; None for Hudi's own.
        lock_expire_minutes: minutes after which a lock file is taken over; 0 for never.
        heartbeat_interval_ms: time between two heartbeats.
        heartbeat_tolerable_misses: heartbeats that a living writer may miss.
        failed_writes_policy: EAGER, LAZY or NEVER.
        max_clock_skew_ms: how far the clocks of two writers may differ.
    """

    operation: str
    index_type: str
    combine_before_insert: bool
    combine_before_upsert: bool
    combine_before_delete: bool
    allow_duplicate_on_inserts: bool
    bulk_insert_sort_mode: str
    upsert_parallelism: int
    insert_parallelism: int
    bulk_insert_parallelism: int
    delete_parallelism: int
    small_file_limit: int
    max_file_size: int
    record_size_estimate: int
    compression_codec: str
    block_size: int
    page_size: int
    dictionary_enabled: bool
    bloom_enabled: bool
    bloom_num_entries: int
    bloom_fpp: float
    bloom_max_entries: int
    bloom_type: str
    lock_provider: str | None
    lock_wait_ms: int
    lock_retry_wait_ms: int
    lock_retries: int
    lock_path: str | None
    lock_expire_minutes: int
    heartbeat_interval_ms: int
    heartbeat_tolerable_misses: int
    failed_writes_policy: str
    max_clock_skew_ms: int

    @property
    def heartbeat_expiry_ms(self) -> int:
        """Time without a heartbeat after which a writer counts as dead (`HoodieHeartbeatClient`)."""
        return self.heartbeat_interval_ms * self.heartbeat_tolerable_misses

    @classmethod
    def of(cls, options: Options) -> WriteOptions:
        """The typed view of resolved options; `Options()` gives the defaults."""
        index_type = options.text("hoodie.index.type")
        bloom_given = options.get("hoodie.parquet.bloom.filter.enabled")
        return cls(
            operation=options.text("hoodie.datasource.write.operation"),
            index_type=index_type,
            combine_before_insert=options.flag("hoodie.combine.before.insert"),
            combine_before_upsert=options.flag("hoodie.combine.before.upsert"),
            combine_before_delete=options.flag("hoodie.combine.before.delete"),
            allow_duplicate_on_inserts=options.flag("hoodie.merge.allow.duplicate.on.inserts"),
            bulk_insert_sort_mode=options.text("hoodie.bulkinsert.sort.mode"),
            upsert_parallelism=options.integer("hoodie.upsert.shuffle.parallelism"),
            insert_parallelism=options.integer("hoodie.insert.shuffle.parallelism"),
            bulk_insert_parallelism=options.integer("hoodie.bulkinsert.shuffle.parallelism"),
            delete_parallelism=options.integer("hoodie.delete.shuffle.parallelism"),
            small_file_limit=options.integer("hoodie.parquet.small.file.limit"),
            max_file_size=options.integer("hoodie.parquet.max.file.size"),
            record_size_estimate=options.integer("hoodie.copyonwrite.record.size.estimate"),
            compression_codec=options.text("hoodie.parquet.compression.codec"),
            block_size=options.integer("hoodie.parquet.block.size"),
            page_size=options.integer("hoodie.parquet.page.size"),
            dictionary_enabled=options.flag("hoodie.parquet.dictionary.enabled"),
            bloom_enabled=index_type == BLOOM if bloom_given is None else bool(bloom_given),
            bloom_num_entries=options.integer("hoodie.index.bloom.num_entries"),
            bloom_fpp=options.number("hoodie.index.bloom.fpp"),
            bloom_max_entries=options.integer("hoodie.bloom.index.filter.dynamic.max.entries"),
            bloom_type=options.text("hoodie.bloom.index.filter.type"),
            lock_provider=options.optional_text("hoodie.write.lock.provider"),
            lock_wait_ms=options.integer("hoodie.write.lock.wait_time_ms"),
            lock_retry_wait_ms=options.integer("hoodie.write.lock.wait_time_ms_between_retry"),
            lock_retries=options.integer("hoodie.write.lock.num_retries"),
            lock_path=options.optional_text("hoodie.write.lock.filesystem.path"),
            lock_expire_minutes=options.integer("hoodie.write.lock.filesystem.expire"),
            heartbeat_interval_ms=options.integer("hoodie.client.heartbeat.interval_in_ms"),
            heartbeat_tolerable_misses=options.integer("hoodie.client.heartbeat.tolerable.misses"),
            failed_writes_policy=options.text("hoodie.clean.failed.writes.policy"),
            max_clock_skew_ms=options.integer("hoodie.time.generator.max_expected_clock_skew_ms"),
        )
