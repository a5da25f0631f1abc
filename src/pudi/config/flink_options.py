"""Options of Hudi's Flink jobs whose names or meanings are Flink's own: refused, with the key that says it here.

Names that mean one of pudi's options are `job_keys` of it. Source: org.apache.hudi.configuration.FlinkOptions, and the
guide to ingestion by Flink of Apache Hudi 1.2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pudi.config.clustering_options import ClusteringOptions
from pudi.config.memory import MergeMemory
from pudi.config.option import Declare, Option, Scope, Status
from pudi.config.write_options import WriteOptions

_refused = Declare(Scope.WRITE, Status.UNSUPPORTED)
_refused_text = partial(_refused, default="")

_SPREAD = "leave it out: how work is spread out is the engine's business (for Spark, its own settings)"
_MEGABYTES = "it's in megabytes; say it in bytes by {}"
_CHANGES = "changes are read by `Table.changes` and `pudi.spark.stream_changes`: docs/changes.md and docs/streaming.md"
_NO_STATE = "indexes are in the table: choose one by hoodie.index.type"
_NO_SYNC = "use hoodie.datasource.hive_sync.* and hoodie.datasource.hive_sync.mode=hms: docs/catalogs.md"
_SORTED = "sort by hoodie.bulkinsert.sort.mode"

_ADVICE: dict[str, str] = {
    "changelog.enabled": "a table keeps one version of a record; log changes by hoodie.table.cdc.enabled",
    "clean.tasks": _SPREAD,
    "clustering.delta_commits": "use hoodie.clustering.inline.max.commits or hoodie.clustering.async.max.commits",
    "clustering.plan.strategy.small.file.limit": _MEGABYTES.format(ClusteringOptions.small_limit),
    "clustering.schedule.enabled": "use hoodie.clustering.schedule.inline",
    "clustering.tasks": _SPREAD,
    "compaction.max_memory": _MEGABYTES.format(MergeMemory.compaction),
    "compaction.operation.execute.async.enabled": _SPREAD,
    "compaction.schedule.enabled": "use hoodie.compact.schedule.inline",
    "compaction.tasks": _SPREAD,
    "compaction.timeout.seconds": "leave it out: whoever finds a runner without a heartbeat takes its plan over",
    "connector": "leave it out: it names Hudi in Flink's SQL",
    "hive_sync.*": _NO_SYNC,
    "index.bootstrap.enabled": _NO_STATE,
    "index.bootstrap.rocksdb.path": _NO_STATE,
    "index.global.enabled": "use one of the global types of hoodie.index.type",
    "index.partition.regex": _NO_STATE,
    "index.rli.*": _NO_STATE,
    "index.state.ttl": _NO_STATE,
    "kafka.offset.trace.*": "leave it out: an ingestion commits its offsets (docs/ingestion.md)",
    "lookup.*": "look records up by their keys with `Table.scan(keys=…)`",
    "metadata.compaction.async.enabled": "leave it out: writers compact the metadata table, see "
    "hoodie.metadata.compact.max.delta.commits",
    "partition.default_name": "leave it out: it's always __HIVE_DEFAULT_PARTITION__, as Hudi's",
    "properties.*": "give the option without `properties.`",
    "read.cdc.from.changelog": _CHANGES,
    "read.commits.limit": "use the argument max_commits of `pudi.spark.stream_changes`",
    "read.end-commit": "use the argument until of `Table.changes`, or hoodie.datasource.read.end.instanttime",
    "read.source-v2.enabled": _CHANGES,
    "read.splits.limit": "use the argument max_commits of `pudi.spark.stream_changes`",
    "read.start-commit": "use the argument since of `Table.changes`, or hoodie.datasource.read.begin.instanttime",
    "read.streaming.*": _CHANGES,
    "read.tasks": _SPREAD,
    "read.utc-timezone": "leave it out: timestamps are as the table stores them",
    "source.avro-schema": "leave it out: the data has its schema",
    "source.avro-schema.path": "leave it out: the data has its schema",
    "write.batch.size": _SPREAD,
    "write.bucket_assign.tasks": _SPREAD,
    "write.buffer.*": _SORTED,
    "write.bulk_insert.shuffle_input": _SORTED,
    "write.bulk_insert.sort_input": _SORTED,
    "write.bulk_insert.sort_input.by_record_key": _SORTED,
    "write.client.id": "leave it out: several writers need no names",
    "write.commit.ack.timeout": "leave it out: a write ends when its commit is complete",
    "write.ignore.failed": "leave it out: a write never leaves records out",
    "write.incremental.job.graph": _SPREAD,
    "write.index_bootstrap.tasks": _NO_STATE,
    "write.insert.cluster": "use hoodie.parquet.small.file.limit, 0 for no merging of small files",
    "write.log.max.size": _MEGABYTES.format(WriteOptions.log_max_size),
    "write.log_block.size": _MEGABYTES.format(WriteOptions.log_block_max_size),
    "write.memory.segment.page.size": _SPREAD,
    "write.merge.max_memory": _MEGABYTES.format(MergeMemory.limit),
    "write.parquet.block.size": _MEGABYTES.format(WriteOptions.block_size),
    "write.parquet.max.file.size": _MEGABYTES.format(WriteOptions.max_file_size),
    "write.parquet.page.size": _MEGABYTES.format(WriteOptions.page_size),
    "write.partition.format": "use hoodie.keygen.timebased.output.dateformat",
    "write.precombine": "use hoodie.combine.before.insert and hoodie.combine.before.upsert",
    "write.rate.limit": _SPREAD,
    "write.retry.interval.ms": "use hoodie.write.num.retries.on.conflict.failures",
    "write.retry.times": "use hoodie.write.num.retries.on.conflict.failures",
    "write.sort.memory": _SPREAD,
    "write.task.max.size": _SPREAD,
    "write.tasks": _SPREAD,
    "write.utc-timezone": "leave it out: timestamps are stored as they are",
}

FLINK_OPTIONS: tuple[Option[Any], ...] = tuple(
    _refused_text(key=key, doc="Of Hudi's Flink jobs.", instead=advice) for key, advice in _ADVICE.items()
)
