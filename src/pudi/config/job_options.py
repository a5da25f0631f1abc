"""Other options of Hudi jobs: those that have no effect in pudi, and those that pudi doesn't support.

Sources: the configuration classes of Apache Hudi 1.2's write client and Spark data source.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pudi.config.option import Declare, Option, Scope, Status

_harmless = Declare(Scope.WRITE, Status.HARMLESS)
_lacking = Declare(Scope.WRITE, Status.UNSUPPORTED)
_lacking_flag = partial(_lacking, default=False)

_NO_SUCH = "leave it out: Apache Hudi 1.2 has no option of that name"
_NO_SYNC = "register the table with Apache Hudi's sync tool"
_INGEST = "`pudi ingest` takes them as arguments: docs/ingestion.md"
_NO_CODE = "omit the option; pudi never loads a class by name"

_SYNC = (
    _lacking_flag(key="hoodie.datasource.hive_sync.enable", doc="Sync to Hive.", instead=_NO_SYNC),
    _lacking_flag(key="hoodie.datasource.meta.sync.enable", doc="Sync to a catalog.", instead=_NO_SYNC),
    _harmless(key="hoodie.datasource.hive_sync.*", doc="Settings of Hive sync, which pudi doesn't have."),
    _harmless(key="hoodie.datasource.meta.sync.*", doc="Settings of catalog sync, which pudi doesn't have."),
    _harmless(key="hoodie.datasource.meta_sync.*", doc="Settings of catalog sync, which pudi doesn't have."),
    _harmless(key="hoodie.meta.sync.*", doc="Settings of catalog sync, which pudi doesn't have."),
    _harmless(key="hoodie.meta_sync.*", doc="Settings of catalog sync, which pudi doesn't have."),
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
    _harmless(key="hoodie.avro.schema.*", doc="Whether schemas are validated; pudi always does."),
    _lacking_flag(key="hoodie.allow.operation.metadata.field", doc="A meta field with the operation."),
    _harmless(
        key="hoodie.write.complex.keygen.validation.enable",
        doc="Validation of complex keys below table version 9.",
        kind=bool,
    ),
    _lacking_flag(
        key="hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
        doc="Timestamps as text in record keys.",
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

JOB_OPTIONS: tuple[Option[Any], ...] = (
    *_SYNC,
    *_SERVICES,
    *_MERGING,
    *_SCHEMA,
    *_WRITING,
    *_PARALLELISM,
    *_MACHINERY,
)
"""All other known options of writers, in the order of the option page."""
