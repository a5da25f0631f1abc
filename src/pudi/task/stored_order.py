"""Find the ordering values of stored records by key."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFile, FileSlice, open_base_file
from pudi.merge import MergeMode, MergeRule, Versions, apply_updates, latest_per_key
from pudi.merge.versions import in_one
from pudi.plan import Merging, WriteSpec
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array, take
from pudi.task.append import BASE_ROW
from pudi.task.merged import MergedSlices
from pudi.task.table_rows import read_base_rows

_LOGGED = "_pudi_logged"
"""Column of stored records: whether they are only in log files."""


def with_stored_order(
    storage: Storage, spec: WriteSpec, file_slice: FileSlice, rows: pa.Table
) -> tuple[pa.Table, np.ndarray]:
    """Return deletes by key, each with the ordering value of the record that it deletes.

    Readers merge the versions in log files among themselves before they apply them to the base file. A delete without
    an ordering value loses to any later version, and a later version with a low ordering value loses to the base file's
    record: the deleted record would come back. A delete with the record's own value wins over both.

    Args:
        storage: the table's files.
        spec: the write; `deleted` determines how slices are read.
        file_slice: the slice of the records.
        rows: record keys, without duplicates; with `BASE_ROW` if their base rows are known.

    Returns:
        The rows whose key the slice holds, in their order, with the ordering columns; and a mask of those that only log
        files hold, so that they need no ordering value. A key that plain inserts stored several times has the greatest
        value.

    Raises:
        CorruptError: a file of the slice can't be read.
    """
    merging = spec.deleted
    assert merging is not None
    fields = list(merging.rule.ordering_schema(spec.schema.columns))
    keys = one_array(rows[RECORD_KEY])
    base = _in_base(storage, spec, merging, file_slice, fields, rows)
    stored = base.append_column(_LOGGED, pa.repeat(pa.scalar(False), base.num_rows))
    newer = _in_logs(storage, spec, merging, file_slice, keys)
    if newer is not None:
        merged = apply_updates(base, newer, RECORD_KEY, merging.rule)
        replacing = np.concatenate([merged.taken[merged.taken >= 0], merged.inserted])
        logged = pa.array(np.arange(len(replacing)) >= len(replacing) - len(merged.inserted))
        brought = take(merged.rows, replacing).select(base.column_names).append_column(_LOGGED, logged)
        staying = take(stored, merged.base_rows[merged.taken < 0])
        stored = pa.concat_tables([staying, brought], promote_options="permissive")
    by_order = MergeRule(MergeMode.EVENT_TIME, merging.rule.ordering_fields, binlog=merging.rule.binlog)
    stored = latest_per_key(stored, RECORD_KEY, by_order)
    partner = pc.index_in(keys, value_set=one_array(stored[RECORD_KEY]))
    is_stored = pc.is_valid(partner)
    known = take(stored, partner.filter(is_stored))
    return _with_columns(rows.filter(is_stored), known.select([f.name for f in fields])), np.asarray(known[_LOGGED])


def not_in_base(storage: Storage, spec: WriteSpec, file_slice: FileSlice, keys: pa.ChunkedArray) -> np.ndarray:
    """Return which records of a slice are only in its log files; errors as of `with_stored_order`."""
    merging = spec.deleted
    if merging is None or file_slice.base is None:
        return np.ones(len(keys), dtype=bool)
    if not file_slice.logs:
        return np.zeros(len(keys), dtype=bool)
    stored = _in_base(storage, spec, merging, file_slice, [], pa.table({RECORD_KEY: keys}))
    return np.asarray(pc.invert(pc.is_in(keys, value_set=one_array(stored[RECORD_KEY]))))


def _by_row(storage: Storage, spec: WriteSpec, base: BaseFile, fields: list[pa.Field], places: np.ndarray) -> pa.Table:
    """Return the ordering columns of some rows of a base file; reads only the row groups of these rows."""
    file = open_base_file(storage, base)
    ends = np.cumsum([file.group_rows(number) for number in range(file.num_groups)])
    group_of = np.searchsorted(ends, places, side="right")
    groups, read_as = np.unique(group_of, return_inverse=True)
    rows = read_base_rows(file, base, pa.schema(fields), spec.history, groups.tolist())
    sizes = np.array([file.group_rows(number) for number in groups])
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])  # offset of each row group in the rows that were read
    return take(rows, places - (ends[groups] - sizes)[read_as] + begins[read_as])


def _in_base(
    storage: Storage, spec: WriteSpec, merging: Merging, file_slice: FileSlice, fields: list[pa.Field], rows: pa.Table
) -> pa.Table:
    """Return key and ordering columns of the base records with one of some keys."""
    wanted = [RECORD_KEY, *(f.name for f in fields)]
    if file_slice.base is None:
        return pa.schema([pa.field(RECORD_KEY, pa.string()), *fields]).empty_table()
    if BASE_ROW in rows.column_names:
        places = np.asarray(rows[BASE_ROW])
        if len(places) and places.min() >= 0:
            values = _by_row(storage, spec, file_slice.base, fields, places)
            return pa.table([rows[RECORD_KEY], *values.columns], names=wanted)
    slices = MergedSlices(storage, merging, spec.schema.stored, spec.history)
    keys = one_array(rows[RECORD_KEY])
    parts = [part.rows for part in slices.parts(replace(file_slice, logs=()), wanted)]
    return pa.concat_tables([part.filter(pc.is_in(part[RECORD_KEY], value_set=keys)) for part in parts])


def _in_logs(
    storage: Storage, spec: WriteSpec, merging: Merging, file_slice: FileSlice, keys: pa.Array
) -> Versions | None:
    """Return the merged versions of some keys in a slice's log files; None if there are none."""
    schema = spec.schema.stored
    slices = MergedSlices(storage, merging, schema, spec.history)
    target = pa.schema([f for f in schema if f.name in merging.columns(spec.schema.columns)])
    found = []
    for versions, _ in slices.folded(file_slice, target) if file_slice.logs else ():
        found.append(versions.take(np.flatnonzero(pc.is_in(versions.rows[RECORD_KEY], value_set=keys))))
    return in_one(found) if found else None


def _with_columns(rows: pa.Table, values: pa.Table) -> pa.Table:
    for name in values.column_names:
        if name in rows.column_names:
            rows = rows.drop_columns([name])
        rows = rows.append_column(values.schema.field(name), values[name])
    return rows
