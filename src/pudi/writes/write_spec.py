"""Make the specification by which the engine writes one write's files."""

from __future__ import annotations

from dataclasses import replace

from pudi.client.inflight_builds import maintained_partitions
from pudi.client.settings import change_logging, combines, event_time_column, file_options, merging_of_deletes
from pudi.commit.liveness import early_detection
from pudi.indexes.column_stats.statistics import indexed_columns
from pudi.indexes.indexed_commit import PlannedWrite
from pudi.indexes.registry import by_kind
from pudi.plan import WriteSpec
from pudi.plan.write import SortMode
from pudi.schema import avro_to_arrow
from pudi.schema.changes import reconciled
from pudi.schema.internal import SchemaHistory
from pudi.writes.write_recipe import Placement, WriteAttempt


def write_spec(write: WriteAttempt, placed: Placement, requested: str) -> WriteSpec:
    """Return the specification of an attempt's files.

    Args:
        write: the attempt.
        placed: the places of its records.
        requested: requested time of its instant.
    """
    meta, options, schema = write.meta, write.write_options, write.schema_after
    history = _next_history(write, requested)
    planned = PlannedWrite(write.snapshot, requested, schema.columns, placed.index, history)
    staging = (each for kind, names in by_kind(maintained_partitions(meta)) for each in kind.staging(planned, names))
    return WriteSpec(
        instant=requested,
        operation=write.operation,
        schema=schema,
        rule=write.rule,
        index=placed.index,
        generated_keys=write.keys.generates,
        deduplicate=combines(write.operation, options),
        max_file_bytes=options.max_file_size,
        history=history,
        merges_inserts=not options.allow_duplicates,
        sort=SortMode(options.sort_mode),
        bulk_tasks=options.bulk_tasks,
        flagged=write.recipe.flagged,
        files=file_options(meta, options, schema.columns.names),
        logs=write.logs,
        stats=indexed_columns(meta, avro_to_arrow(schema.avro)),
        deleted=merging_of_deletes(write.snapshot, write.operation),
        staging=tuple(staging),
        changes=change_logging(meta, options, schema),
        event_time=event_time_column(meta, options, schema.columns),
        early=early_detection(write.snapshot, requested),
    )


def _next_history(write: WriteAttempt, requested: str) -> SchemaHistory | None:
    """The schemas by id as this commit leaves them, in a table that has such (saveInternalSchema)."""
    if write.history is None:
        return None
    current = write.history.current
    after = reconciled(current, write.schema_after.stored)
    return write.history if after == current else write.history.with_version(replace(after, version=int(requested)))
