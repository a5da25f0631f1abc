"""What else a Hudi job's option map holds: settings of a writer that have nothing to act on here, or that pudi lacks.

Sources: the configuration classes of Apache Hudi 1.2's write client and Spark data source.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pudi.config.option import Declare, Option, Scope, Status

_harmless = Declare(Scope.WRITE, Status.HARMLESS)
_ignored = Declare(Scope.WRITE, Status.IGNORED)
_lacking = Declare(Scope.WRITE, Status.UNSUPPORTED)
_lacking_flag = partial(_lacking, default=False)

_NO_CLEANING = "Old file slices stay, since there is no cleaning yet; have Apache Hudi clean the table."
_NO_SERVICES = "table services come in a later release; call Hudi's for now"
_NO_SYNC = "register the table in the catalog with Apache Hudi's sync tool"
_NO_CODE = "a class is never loaded by its name"

_SYNC = (
    _lacking_flag(key="hoodie.datasource.hive_sync.enable", doc="Sync to Hive.", instead=_NO_SYNC),
    _lacking_flag(key="hoodie.datasource.meta.sync.enable", doc="Sync to a catalog.", instead=_NO_SYNC),
    _harmless(key="hoodie.datasource.hive_sync.*", doc="How a table is synced to Hive; nothing is."),
    _harmless(key="hoodie.datasource.meta.sync.*", doc="How a table is synced; nothing is."),
    _harmless(key="hoodie.datasource.meta_sync.*", doc="How a table is synced; nothing is."),
    _harmless(key="hoodie.meta.sync.*", doc="How a table is synced; nothing is."),
    _harmless(key="hoodie.meta_sync.*", doc="How a table is synced; nothing is."),
)

_SERVICES = (
    _lacking_flag(key="hoodie.clustering.inline", doc="Cluster after a write.", instead=_NO_SERVICES),
    _lacking_flag(key="hoodie.clustering.schedule.inline", doc="Plan clustering.", instead=_NO_SERVICES),
    _lacking_flag(key="hoodie.clustering.async.enabled", doc="Cluster beside writes.", instead=_NO_SERVICES),
    _harmless(key="hoodie.clustering.*", doc="How tables are clustered; there is no clustering yet."),
    _harmless(key="hoodie.layout.optimize.*", doc="How clustering orders records."),
    _harmless(key="hoodie.compaction.*", doc="How merge-on-read tables are compacted."),
    _harmless(key="hoodie.log.compaction.*", doc="How log files are compacted."),
    _harmless(key="hoodie.datasource.compaction.async.enable", doc="Compact beside a stream.", kind=bool),
    _ignored(key="hoodie.clean.automatic", doc=_NO_CLEANING, kind=bool),
    _ignored(key="hoodie.clean.async", doc=_NO_CLEANING, kind=bool, aliases=("hoodie.clean.async.enabled",)),
    _ignored(key="hoodie.clean.*", doc=_NO_CLEANING),
    _ignored(key="hoodie.cleaner.*", doc=_NO_CLEANING),
    _harmless(key="hoodie.archive.*", doc="When the table's own timeline is archived; it isn't yet."),
    _harmless(key="hoodie.commits.archival.batch", doc="Instants archived at once.", kind=int),
    _harmless(key="hoodie.timeline.compaction.*", doc="How the archived timeline is compacted."),
    _harmless(key="hoodie.timeline.manifest.retained.versions", doc="Manifests that archiving keeps.", kind=int),
    _harmless(key="hoodie.table.services.*", doc="How services are planned."),
    _lacking_flag(key="hoodie.partition.ttl.inline", doc="Drop old partitions.", instead=_NO_SERVICES),
    _harmless(key="hoodie.partition.ttl.*", doc="When partitions are dropped."),
    _harmless(key="hoodie.metadata.*", doc="What the metadata table holds, and how it's kept."),
    _harmless(key="hoodie.rollback.*", doc="How failed writes are rolled back; always by markers."),
)

_MERGING = (
    _harmless(key="hoodie.payload.event.time.field", doc="Event time of a commit's statistics."),
    _harmless(key="hoodie.payload.ordering.field", doc="Ordering field of old releases; the table's own counts."),
    _lacking(
        key="hoodie.write.record.merge.custom.implementation.classes",
        doc="Merger classes.",
        job_keys=("hoodie.datasource.write.record.merger.impls", "hoodie.datasource.write.merger.impls"),
        instead=_NO_CODE,
    ),
    _lacking_flag(key="hoodie.write.track.event.time.watermark", doc="Event time in commits."),
    _lacking(key="hoodie.write.partial.update.schema", doc="Schema of partial updates.", default=""),
)

_SCHEMA = (
    _lacking(key="hoodie.write.schema", doc="Schema to write in.", instead="the data's schema is used"),
    _lacking_flag(key="hoodie.datasource.write.reconcile.schema", doc="Fill missing columns."),
    _lacking_flag(key="hoodie.datasource.write.schema.allow.auto.evolution.column.drop", doc="Drop columns."),
    _harmless(key="hoodie.avro.schema.*", doc="Whether schemas are compared; they always are."),
    _lacking_flag(key="hoodie.allow.operation.metadata.field", doc="A meta field with the operation."),
    _harmless(key="hoodie.write.complex.keygen.validation.enable", doc="Check below version 9.", kind=bool),
    _lacking_flag(
        key="hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
        doc="Timestamps in keys as text.",
    ),
)

_WRITING = (
    _lacking(key="hoodie.datasource.write.commitmeta.key.prefix", doc="Options kept in commits.", default="_"),
    _lacking(key="hoodie.index.class", doc="Index class.", default="", instead=_NO_CODE),
    _lacking(key="hoodie.bulkinsert.user.defined.partitioner.class", doc="Partitioner.", instead=_NO_CODE),
    _lacking(key="hoodie.bulkinsert.user.defined.partitioner.sort.columns", doc="Order of a bulk insert."),
    _lacking_flag(key="hoodie.bulkinsert.sort.suffix.record_key", doc="Order of a bulk insert."),
    _lacking(key="hoodie.storage.layout.partitioner.class", doc="Partitioner.", instead=_NO_CODE),
    _lacking(key="hoodie.precommit.validators", doc="Checks before a commit.", default="", instead=_NO_CODE),
    _harmless(key="hoodie.precommit.validators.*", doc="Checks before a commit."),
    _lacking_flag(key="hoodie.write.commit.callback.on", doc="Call back after a commit."),
    _harmless(key="hoodie.write.commit.callback.*", doc="Whom to call back."),
    _lacking(key="hoodie.client.init.callback.classes", doc="Call back at start.", default="", instead=_NO_CODE),
    _lacking_flag(key="hoodie.errortable.enable", doc="Failing records into a table."),
    _harmless(key="hoodie.errortable.*", doc="Table of failing records."),
    _lacking(key="hoodie.parquet.outputtimestamptype", doc="Parquet timestamps.", default="TIMESTAMP_MICROS"),
    _lacking_flag(key="hoodie.parquet.writelegacyformat.enabled", doc="Old Parquet decimals and lists."),
    _lacking_flag(key="hoodie.parquet.write.utc-timezone.enabled", doc="Timestamps in UTC.", default=True),
    _lacking(key="hoodie.streamer.*", doc="Hudi Streamer, a program of Hudi's own."),
    _lacking(key="hoodie.deltastreamer.*", doc="Hudi Streamer, a program of Hudi's own."),
    _harmless(key="hoodie.write.concurrency.*", doc="How conflicts are found early."),
    _harmless(key="hoodie.write.lock.*", doc="Retries and services of other lock providers."),
    _harmless(key="hoodie.write.markers.type", doc="How files of a write are marked; one marker file each."),
)  # fmt: skip

AUTO_UPGRADE = _harmless("hoodie.write.auto.upgrade", "Whether Hudi's writers bring a table to their own version.")

_PARALLELISM = tuple(
    _harmless(
        key=f"hoodie.{operation}.shuffle.parallelism",
        doc="Tasks of this operation; the engine decides, by the files to write.",
        default=0,
        minimum=0,
    )
    for operation in ("upsert", "insert", "delete")
)

_MACHINERY = tuple(
    _harmless(key=key, doc="Inner workings of Hudi's own writer.")
    for key in (
        "hoodie.allow.empty.commit", "hoodie.auto.adjust.lock.configs", "hoodie.base.path",
        "hoodie.block.writes.on.speculative.execution", "hoodie.bloom.index.*", "hoodie.bucket.index.*",
        "hoodie.common.*", "hoodie.consistency.check.*", "hoodie.copyonwrite.*",
        "hoodie.datasource.write.row.writer.enable", "hoodie.datasource.write.streaming.*", "hoodie.embed.*",
        "hoodie.fail.*", "hoodie.file.listing.parallelism", "hoodie.filesystem.*", "hoodie.finalize.write.parallelism",
        "hoodie.global.index.*", "hoodie.global.simple.index.*", "hoodie.hfile.*",
        "hoodie.lance.*", "hoodie.logfile.*", "hoodie.markers.*", "hoodie.memory.*", "hoodie.merge.*",
        "hoodie.metrics.*", "hoodie.orc.*", "hoodie.parquet.compression.ratio", "hoodie.parquet.field_id.write.enabled",
        "hoodie.record.index.*", "hoodie.record.size.*", "hoodie.release.resource.on.completion.enable",
        "hoodie.sensitive.config.keys", "hoodie.simple.index.*", "hoodie.skip.default.partition.validation",
        "hoodie.spark.sql.*", "hoodie.sql.*", "hoodie.time.generator.*", "hoodie.write.application.id",
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
    AUTO_UPGRADE,
    *_PARALLELISM,
    *_MACHINERY,
)
"""Every further setting of a writer that is known, in the order of the option page."""
