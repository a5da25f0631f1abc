"""Find records that a delete in log files removed and a later version brought back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, read_log_blocks
from pudi.format.log_block import BlockKind
from pudi.merge import MergeRule, Versions, apply_updates, fold
from pudi.plan import ReadPlan
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.schema.arrays import joined_arrays, one_array, take
from pudi.task.log_versions import LogVersions
from pudi.task.merged import MergedSlices

REVIVED = (
    "deleted in log files without an ordering value, and visible again: a later version has a lower "
    "ordering value than the deleted record in the base file, so readers return the base file's record; "
    "delete by key the records that should be gone"
)
"""The text of a finding about these keys."""


def revived_keys(storage: Storage, plan: ReadPlan, file_slice: FileSlice) -> pa.Array:
    """Return keys that a delete without an ordering value removed and a later, lower version restored.

    Args:
        storage: the table's files.
        plan: how slices are read.
        file_slice: the slice.

    Raises:
        CorruptError: a file of the slice can't be read.
    """
    merging, none = plan.merging, pa.array([], pa.string())
    if merging is None or not merging.rule.compares or file_slice.base is None or not file_slice.logs:
        return none
    blocks = read_log_blocks(storage, file_slice.logs, merging.scope, merging.memory.share // 4)
    if all(block.kind is not BlockKind.DELETE for block in blocks):
        return none
    names = merging.columns(plan.schema)
    target = pa.schema([field for field in plan.schema if field.name in names])
    found, buckets, _ = LogVersions(storage, merging, plan.history).collect(blocks, target)
    rule = replace(merging.rule, partial_update=None)  # ask for the winner only: mixing values is not needed
    if buckets is None:
        parts = [_once_deleted(found, rule)]
    else:
        with buckets:
            parts = [_once_deleted(runs, rule) for runs, _ in buckets.parts(pa.table({}))]
    newer = [versions for versions in parts if versions is not None]
    if not newer:
        return none
    slices = MergedSlices(storage, replace(merging, rule=rule), with_meta_fields(plan.schema), plan.history)
    found = [none]
    for part in slices.parts(
        replace(file_slice, logs=()), [RECORD_KEY, *(name for name in target.names if name != RECORD_KEY)]
    ):
        for versions in newer:
            base = part.rows.filter(pc.is_in(part.rows[RECORD_KEY], value_set=_keys(versions.rows)))
            merged = apply_updates(base, versions, RECORD_KEY, rule)
            found.append(_keys(take(base, merged.base_rows[merged.taken < 0])))
    return joined_arrays(found).unique()


def _once_deleted(runs: Sequence[Versions], rule: MergeRule) -> Versions | None:
    """Return the merged versions of keys with such a delete; None if there are none."""
    gone = [_keys(run.rows).filter(pa.array(run.unconditional)) for run in runs]
    keys = joined_arrays(gone).unique() if gone else pa.array([], pa.string())
    if not len(keys):
        return None
    kept = [run.take(np.flatnonzero(np.asarray(pc.is_in(_keys(run.rows), value_set=keys)))) for run in runs]
    return fold([run for run in kept if len(run)], RECORD_KEY, rule)


def _keys(rows: pa.Table) -> pa.Array:
    found = one_array(rows[RECORD_KEY])
    return pa.array([], pa.string()) if isinstance(found, pa.ChunkedArray) else found.cast(pa.string())
