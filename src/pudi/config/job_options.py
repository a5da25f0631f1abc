"""Other options of Hudi jobs, Flink's among them: those without effect in pudi, and those that it refuses by name.

Names that mean one of pudi's options are `job_keys` of it. Sources: the configuration classes of Apache Hudi 1.2's
write client and Spark data source, org.apache.hudi.configuration.FlinkOptions, and the guide to ingestion by Flink.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pudi.config.clustering_options import ClusteringOptions
from pudi.config.option import Declare, Option, Scope, Status
from pudi.config.read_options import MergeMemory
from pudi.config.write_options import WriteOptions

_harmless = Declare(Scope.WRITE, Status.HARMLESS)
_lacking = Declare(Scope.WRITE, Status.UNSUPPORTED)
_lacking_flag = partial(_lacking, default=False)

_NO_SUCH = "leave it out: Apache Hudi 1.2 has no option of that name"
_INGEST = "`pudi ingest` takes them as arguments: docs/ingestion.md"
_NO_CODE = "omit the option; pudi never loads a class by name"

_SYNC = (
    _harmless(key="hoodie.meta.sync.datahub.*", doc="Settings of DataHub sync, which pudi doesn't have."),
    _harmless(key="hoodie.gcp.bigquery.sync.*", doc="Settings of BigQuery sync, which pudi doesn't have."),
)

_SERVICES = (
    _lacking(key="hoodie.clustering.*", doc="Further settings of clustering.", instead=_NO_SUCH),
    _harmless(key="hoodie.layout.optimize.*", doc="Further settings of curves; pudi ranks all values."),
    _harmless(key="hoodie.compaction.*", doc="Further settings of compaction."),
    _harmless(key="hoodie.log.compaction.*", doc="Further settings of log compaction."),
    _lacking(key="hoodie.clean.*", doc="Further settings of cleaning.", instead=_NO_SUCH),
    _lacking(key="hoodie.cleaner.*", doc="Further settings of cleaning.", instead=_NO_SUCH),
    _harmless(key="hoodie.table.services.*", doc="Scheduling of table services."),
    _lacking(key="hoodie.partition.ttl.*", doc="Further settings of partition TTL.", instead=_NO_SUCH),
    _harmless(key="hoodie.metadata.*", doc="Further settings of the metadata table."),
    _harmless(key="hoodie.rollback.*", doc="Further settings of rollbacks; pudi always rolls back by markers."),
)

_MERGING = (
    _harmless(
        key="hoodie.payload.ordering.field",
        doc="Ordering field of old releases; pudi uses the table's ordering fields.",
    ),
    _lacking(key="hoodie.write.partial.update.schema", doc="Schema of partial updates.", default=""),
)

_SCHEMA = (
    _lacking(key="hoodie.write.schema", doc="Schema to write in.", instead="the data's schema is used"),
    _lacking_flag(key="hoodie.datasource.write.reconcile.schema", doc="Fill missing columns."),
    _lacking_flag(key="hoodie.datasource.write.schema.allow.auto.evolution.column.drop", doc="Drop columns."),
    _lacking(key="hoodie.avro.schema", doc="Schema of the writer.", instead="the data's schema is used"),
    _harmless(key="hoodie.avro.schema.*", doc="Whether schemas are validated; pudi always does."),
    _lacking_flag(key="hoodie.allow.operation.metadata.field", doc="A meta field with the operation."),
    _harmless(
        key="hoodie.write.complex.keygen.validation.enable",
        doc="Validation of complex keys below table version 9.",
        kind=bool,
    ),
)

_WRITING = (
    _lacking(key="hoodie.datasource.write.commitmeta.key.prefix", doc="Prefix of options in commits.", default="_"),
    _lacking(key="hoodie.index.class", doc="Index class.", default="", instead=_NO_CODE),
    _lacking(key="hoodie.bulkinsert.user.defined.partitioner.class", doc="Partitioner.", instead=_NO_CODE),
    _lacking(key="hoodie.bulkinsert.user.defined.partitioner.sort.columns", doc="Order of a bulk insert."),
    _lacking_flag(key="hoodie.bulkinsert.sort.suffix.record_key", doc="Order of a bulk insert."),
    _lacking(key="hoodie.storage.layout.partitioner.class", doc="Partitioner.", instead=_NO_CODE),
    _lacking(key="hoodie.metrics.reporter.class", doc="Reporter of metrics.", default="", instead=_NO_CODE),
    _lacking(key="hoodie.metrics.configs.properties", doc="More reporters of metrics.", default=""),
    _harmless(key="hoodie.precommit.validators.*", doc="Settings of validators that pudi doesn't have."),
    _harmless(key="hoodie.write.commit.callback.*", doc="Settings of callbacks that pudi doesn't have."),
    _lacking(key="hoodie.client.init.callback.classes", doc="Callback at start.", default="", instead=_NO_CODE),
    _lacking_flag(
        key="hoodie.errortable.enable", doc="Error table: failing records go to another table.", instead=_INGEST
    ),
    _harmless(key="hoodie.errortable.*", doc="Settings of the error table."),
    _lacking(key="hoodie.parquet.outputtimestamptype", doc="Parquet timestamps.", default="TIMESTAMP_MICROS"),
    _lacking_flag(key="hoodie.parquet.writelegacyformat.enabled", doc="Old Parquet decimals and lists."),
    _lacking_flag(key="hoodie.parquet.write.utc-timezone.enabled", doc="Timestamps in UTC.", default=True),
    _lacking(key="hoodie.streamer.*", doc="Settings of Hudi Streamer, a separate program.", instead=_INGEST),
    _lacking(key="hoodie.deltastreamer.*", doc="Settings of Hudi Streamer, a separate program.", instead=_INGEST),
    _harmless(key="hoodie.write.concurrency.*", doc="Periods of early conflict detection in Hudi's timeline server."),
    _harmless(key="hoodie.write.lock.*", doc="Retries of Hudi's lock manager; options of your own provider."),
    _harmless(key="hoodie.write.markers.type", doc="Type of markers; pudi writes one marker file per data file."),
)  # fmt: skip

_PARALLELISM = tuple(
    _harmless(
        key=f"hoodie.{operation}.shuffle.parallelism",
        doc="Number of tasks; pudi's engines choose it by the files to write.",
        default=0,
        minimum=0,
    )
    for operation in ("upsert", "insert", "delete")
)

_MACHINERY = tuple(
    _harmless(key=key, doc="Internals of Hudi's writer.")
    for key in (
        "hoodie.allow.empty.commit", "hoodie.auto.adjust.lock.configs", "hoodie.base.path",
        "hoodie.block.writes.on.speculative.execution", "hoodie.bloom.index.*", "hoodie.bucket.index.*",
        "hoodie.common.*", "hoodie.consistency.check.*", "hoodie.copyonwrite.*",
        "hoodie.datasource.write.row.writer.enable", "hoodie.datasource.write.streaming.*", "hoodie.embed.*",
        "hoodie.fail.*", "hoodie.file.listing.parallelism", "hoodie.filesystem.*", "hoodie.finalize.write.parallelism",
        "hoodie.global.index.*", "hoodie.global.simple.index.*", "hoodie.hfile.*",
        "hoodie.lance.*", "hoodie.logfile.*", "hoodie.markers.*", "hoodie.memory.*", "hoodie.merge.*",
        "hoodie.metrics.*", "hoodie.orc.block.size", "hoodie.orc.max.file.size",
        "hoodie.parquet.compression.ratio", "hoodie.parquet.field_id.write.enabled",
        "hoodie.record.index.*", "hoodie.record.size.*", "hoodie.release.resource.on.completion.enable",
        "hoodie.sensitive.config.keys", "hoodie.simple.index.*", "hoodie.skip.default.partition.validation",
        "hoodie.spark.sql.*", "hoodie.sql.*", "hoodie.write.application.id",
        "hoodie.write.buffer.*", "hoodie.write.executor.*", "hoodie.write.ignore.failed",
        "hoodie.write.merge.handle.*", "hoodie.write.status.storage.level",
        "hoodie.write.tagged.record.storage.level",
    )
)  # fmt: skip

_CLASSES = tuple(
    _lacking(key=key, doc="Class of Hudi's writer or storage.", instead=_NO_CODE)
    for key in (
        "hoodie.avro.write.support.class", "hoodie.compact.merge.handle.class", "hoodie.fileid.prefix.provider.class",
        "hoodie.io.factory.class", "hoodie.parquet.flink.rowdata.write.support.class",
        "hoodie.parquet.spark.row.write.support.class", "hoodie.parquet.write.config.injector.class",
        "hoodie.storage.class", "hoodie.write.concat.handle.class", "hoodie.writestatus.class",
    )
)  # fmt: skip

_SERVERS = (
    _lacking_flag(key="hoodie.metaserver.enabled", doc="Hudi's metaserver."),
    _harmless(key="hoodie.metaserver.*", doc="Settings of Hudi's metaserver, which pudi doesn't have."),
    _lacking_flag(key="hoodie.table.service.manager.enabled", doc="Hudi's service manager."),
    _harmless(key="hoodie.table.service.manager.*", doc="Settings of Hudi's service manager, which pudi doesn't have."),
    _lacking(key="hoodie.prewrite.validators", doc="Validators before a write.", default="", instead=_NO_CODE),
    _lacking(key="hoodie.write.rolling.metadata.keys", doc="Extra metadata that goes on in commits.", default=""),
    _lacking(key="hoodie.datasource.write.secondarykey.column", doc="Secondary key.", instead="CREATE INDEX"),
    _lacking(key="hoodie.index.name", doc="Name of an index.", instead="CREATE INDEX, or Table.create_index"),
    _lacking(key="hoodie.expression.index.function", doc="Expression.", instead="CREATE INDEX, or Table.create_index"),
    _lacking(key="hoodie.expression.index.type", doc="Kind of index.", instead="CREATE INDEX, or Table.create_index"),
)

_UNUSED = tuple(
    _harmless(key=key, doc=doc)
    for doc, keys in {
        "Settings of bootstrap, an operation that pudi doesn't have.": (
            "data.queries.only", "full.input.provider", "mode.selector", "mode.selector.regex",
            "mode.selector.regex.mode", "parallelism", "partitionpath.translator.class",
        ),
        "Internals of Hudi's writer and reader.": (
            "hoodie.bulkinsert.are.partitioner.records.sorted", "hoodie.bulkinsert.overwrite.operation.type",
            "hoodie.bulkinsert.schema.ddl", "hoodie.cdc.file.group.iterator.memory.spill.bytes",
            "hoodie.expression.index.range.metadata.storage.level", "hoodie.fileIndex.dataSkippingFailureMode",
            "hoodie.fs.atomic_creation.support", "hoodie.internal.schema", "hoodie.internal.sql.merge.into.writes",
            "hoodie.internal.write.schema.canonicalize", "hoodie.metricscompaction.log.blocks.on",
            "hoodie.optimistic.consistency.guard.sleep_time_ms", "hoodie.payload.combined.schema.validate",
            "hoodie.post.commit.failures.ignored", "hoodie.write.can.ignore.post.commit.failures",
            "hoodie.write.rolling.metadata.timeline.lookback.commits", "_.hoodie.allow.multi.write.on.same.instant",
            "_hoodie.metadata.ignore.spurious.deletes", "_hoodie.optimistic.consistency.guard.enable",
            "_hoodie.record.size.estimator.max.commits", "_hoodie.time.generator.reuse.enable",
        ),
        "Settings of catalogs, which pudi doesn't have.": ("hoodie.datasource.partition_extractor_class",),
        "Polaris's catalog in Spark; pudi registers tables there by pudi.polaris.*.": (
            "hoodie.spark.polaris.catalog.class",
        ),
    }.items()
    for key in (name if "hoodie." in name else f"hoodie.bootstrap.{name}" for name in keys)
)  # fmt: skip

JOB_OPTIONS: tuple[Option[Any], ...] = (
    *_SYNC,
    *_SERVICES,
    *_MERGING,
    *_SCHEMA,
    *_WRITING,
    *_PARALLELISM,
    *_MACHINERY,
    *_CLASSES,
    *_SERVERS,
    *_UNUSED,
)
"""All other known options of writers, in the order of the option page."""


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
