"""The typed view of a writer's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from pudi.config.resolve import Options

BloomType: TypeAlias = Literal["SIMPLE", "DYNAMIC_V0"]

_HFILE_CODECS = {"GZ": "gzip", "NONE": "none"}

_BLOOM_INDEXES = frozenset({"BLOOM", "GLOBAL_BLOOM"})


def names_of(options: Options, key: str) -> tuple[str, ...] | None:
    """The names that an option's text lists, separated by commas; None where it isn't given or names none."""
    text = options.optional_text(key) or ""
    return tuple(name for part in text.split(",") if (name := part.strip())) or None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write, whatever the operation. Sizes are bytes, times milliseconds unless said otherwise.

    Locks have a view of their own, `pudi.concurrency.LockSettings`.

    Attributes:
        operation: what `pudi.spark.write` does: upsert, insert, bulk_insert or delete.
        combine_before_insert: whether records of one insert that share a key are combined first.
        combine_before_upsert: whether records of one upsert that share a key are combined first.
        allow_duplicates: whether an insert may add a key that its file group holds already.
        drop_duplicates: whether upserts become inserts of new keys only.
        duplicates: what an insert does with keys that the table holds: none (it adds them), drop or fail.
        sort_mode: how the records of a bulk insert are sorted, by Hudi's name.
        bulk_tasks: Spark tasks of a bulk insert; 0 lets Spark decide.
        small_file_limit: base files below this size are filled up by inserts; 0 or less fills none.
        max_file_size: size that base files are planned for.
        record_size_estimate: size of a record, as long as no commit tells.
        compression_codec: zstd, gzip, snappy or uncompressed.
        block_size: size of a row group.
        page_size: size of a page.
        dictionary_enabled: whether columns may be dictionary encoded.
        bloom_enabled: whether base files carry a bloom filter.
        bloom_num_entries: keys that a bloom filter is made for.
        bloom_fpp: its rate of false positives.
        bloom_max_entries: keys beyond which a dynamic filter grows no more.
        bloom_type: DYNAMIC_V0 or SIMPLE.
        heartbeat_interval_ms: time between two heartbeats.
        heartbeat_tolerable_misses: heartbeats that a living writer may miss.
        fill_missing: whether columns that the data lacks become null.
        failed_writes_policy: EAGER, LAZY or NEVER.
        overwrite_mode: DYNAMIC or STATIC: what an overwrite without named partitions replaces.
        static_partitions: partitions that an overwrite replaces, None for none named.
        small_file_candidates: small base files of a partition that take inserts at most, in a merge-on-read table.
        log_block_format: avro, parquet or hfile: how records are held in log files; None for what fits base files.
        hfile_codec: codec of HFile base files, gzip or none.
        hfile_block_size: size of their blocks.
        log_max_size: size from which on another log file is begun.
        log_block_max_size: bytes in memory of the records of one block of a log file.
        record_positions: whether log blocks say where their records are in the base file.
        partial_updates: whether updates by predicate write changed columns only to log files.
        conflict_retries: how often a write that lost to another one is repeated; None for what fits the verb.
    """

    operation: str
    combine_before_insert: bool
    combine_before_upsert: bool
    allow_duplicates: bool
    drop_duplicates: bool
    duplicates: str
    sort_mode: str
    bulk_tasks: int
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
    bloom_type: BloomType
    heartbeat_interval_ms: int
    heartbeat_tolerable_misses: int
    failed_writes_policy: str
    fill_missing: bool
    overwrite_mode: str
    static_partitions: tuple[str, ...] | None
    small_file_candidates: int
    log_block_format: str | None
    hfile_codec: str
    hfile_block_size: int
    log_max_size: int
    log_block_max_size: int
    record_positions: bool
    partial_updates: bool
    conflict_retries: int | None

    @property
    def heartbeat_expiry_ms(self) -> int:
        """Time without a heartbeat after which a writer counts as dead (`HoodieHeartbeatClient`)."""
        return self.heartbeat_interval_ms * self.heartbeat_tolerable_misses

    @classmethod
    def of(cls, options: Options) -> WriteOptions:
        """The typed view of resolved options; `Options()` gives the defaults."""
        by_bloom = options.text("hoodie.index.type") in _BLOOM_INDEXES
        drop = options.flag("hoodie.datasource.write.insert.drop.duplicates")
        bloom_given = options.get("hoodie.parquet.bloom.filter.enabled")
        return cls(
            operation=options.text("hoodie.datasource.write.operation"),
            combine_before_insert=options.flag("hoodie.combine.before.insert"),
            combine_before_upsert=options.flag("hoodie.combine.before.upsert"),
            allow_duplicates=options.flag("hoodie.merge.allow.duplicate.on.inserts"),
            drop_duplicates=drop,
            duplicates="drop" if drop else options.text("hoodie.datasource.insert.dup.policy"),
            sort_mode=options.text("hoodie.bulkinsert.sort.mode"),
            bulk_tasks=options.integer("hoodie.bulkinsert.shuffle.parallelism"),
            small_file_limit=options.integer("hoodie.parquet.small.file.limit"),
            max_file_size=options.integer("hoodie.parquet.max.file.size"),
            record_size_estimate=options.integer("hoodie.copyonwrite.record.size.estimate"),
            compression_codec=options.text("hoodie.parquet.compression.codec"),
            block_size=options.integer("hoodie.parquet.block.size"),
            page_size=options.integer("hoodie.parquet.page.size"),
            dictionary_enabled=options.flag("hoodie.parquet.dictionary.enabled"),
            bloom_enabled=by_bloom if bloom_given is None else bool(bloom_given),
            bloom_num_entries=options.integer("hoodie.index.bloom.num_entries"),
            bloom_fpp=options.number("hoodie.index.bloom.fpp"),
            bloom_max_entries=options.integer("hoodie.bloom.index.filter.dynamic.max.entries"),
            bloom_type=cast(BloomType, options.text("hoodie.bloom.index.filter.type")),
            heartbeat_interval_ms=options.integer("hoodie.client.heartbeat.interval_in_ms"),
            heartbeat_tolerable_misses=options.integer("hoodie.client.heartbeat.tolerable.misses"),
            failed_writes_policy=options.text("hoodie.clean.failed.writes.policy"),
            fill_missing=options.flag("hoodie.write.set.null.for.missing.columns"),
            overwrite_mode=options.text("hoodie.datasource.overwrite.mode"),
            static_partitions=names_of(options, "hoodie.static.overwrite.partition.paths"),
            small_file_candidates=options.integer("hoodie.merge.small.file.group.candidates.limit"),
            log_block_format=options.optional_text("hoodie.logfile.data.block.format"),
            hfile_codec=_HFILE_CODECS[options.text("hoodie.hfile.compression.algorithm")],
            hfile_block_size=options.integer("hoodie.hfile.block.size"),
            log_max_size=options.integer("hoodie.logfile.max.size"),
            log_block_max_size=options.integer("hoodie.logfile.data.block.max.size"),
            record_positions=options.flag("hoodie.write.record.positions"),
            partial_updates=options.flag("pudi.update.partial"),
            conflict_retries=cast("int | None", options.get("hoodie.write.num.retries.on.conflict.failures")),
        )
