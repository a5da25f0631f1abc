"""What a commit changes in indexes that only files tell of: found out before the table's lock is taken."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.action.mdt.expression import StagedExpression, stage_expressions
from pudi.action.mdt.index_logs import StagedKeyChanges
from pudi.action.mdt.record_index import stage_keys
from pudi.action.mdt.secondary import stage_secondary
from pudi.action.meta_client import MetaClient
from pudi.config import Options
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pudi.index import Index
from pudi.task import Engine
from pudi.timeline import Instant, Timeline


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """What one commit changes.

    Attributes:
        keys: in indexes of records.
        expressions: in expression indexes.
    """

    keys: tuple[StagedKeyChanges, ...] = ()
    expressions: tuple[StagedExpression, ...] = ()


NOTHING_STAGED = StagedChanges()


def is_of_records(partition: str) -> bool:
    """Whether a partition of the metadata table has rows for single records."""
    return partition == RECORD_INDEX or partition.startswith(SECONDARY_INDEX_PREFIX)


def stage_changes(
    meta: MetaClient,
    engine: Engine,
    instant: Instant,
    written: CommitMetadata,
    timeline: Timeline,
    options: Options,
    index: Index,
) -> StagedChanges:
    """Find out what a commit changes in the record index, in secondary and in expression indexes.

    Args:
        meta: the table.
        engine: who does the work: no record passes this process.
        instant: the commit, not yet completed.
        written: what it did.
        timeline: as it was when the commit was planned.
        options: the writer's.
        index: the index that it was written by.
    """
    records = stage_keys(meta, engine, instant, written, timeline, index, options)
    secondary = stage_secondary(meta, engine, instant, written, timeline)
    expressions = stage_expressions(meta, engine, instant, written, timeline)
    return StagedChanges((*(() if records is None else (records,)), *secondary), expressions)
