"""The metadata table's list of files and its statistics, compared with the folders and the files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pudi.action import MetaClient
from pudi.filegroup import BaseFile, FileSlice, StorageListing, open_base_file
from pudi.format import Action, parse_data_file
from pudi.metadata import COLUMN_STATS, MetadataTable, files_listed, ranges_of, stats_of_records
from pudi.metadata.keys import column_stats_keys
from pudi.metadata.records import FILES
from pudi.schema import with_meta_fields
from pudi.table.difference import Difference
from pudi.timeline import Timeline

_DELETING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})


def listing_differences(
    meta: MetaClient, table: MetadataTable, timeline: Timeline, slices: Sequence[FileSlice]
) -> Iterator[Difference]:
    """Files that are listed and aren't there, are there and aren't listed, or have another size.

    What writes that are pending, or died, left behind is in no list; nor need it be while a clean is under way that
    what it deletes is still there.

    Args:
        meta: the table.
        table: its metadata table.
        timeline: its timeline, loaded before.
        slices: its latest slices by its folders.
    """
    listed = files_listed(table)
    folders = StorageListing(meta.storage).all_files()
    for partition in sorted(folders.keys() - listed.keys()):
        yield Difference(FILES, partition, "the partition is not listed")
    needed = {path for each in slices for path in _paths(each)}
    done = {i.requested for i in timeline.instants if i.is_completed}
    cleaning = any(i.action in _DELETING and i.requested not in done for i in meta.store.load().instants)
    for partition in sorted(listed):
        there = {info.path: info.size for info in folders.get(partition, ()) if _is_data(info.path)}
        said = {info.path: info.size for info in listed[partition]}
        for path in sorted(said.keys() - there.keys()):
            if not cleaning:
                yield Difference(FILES, path, "the file is listed and not there")
        for path in sorted(there.keys() - said.keys()):
            if path in needed:
                yield Difference(FILES, path, "the file is not listed, readers lose its records")
        for path in sorted(said.keys() & there.keys()):
            if said[path] != there[path]:
                yield Difference(FILES, path, f"listed with {said[path]:,} bytes, it has {there[path]:,}")


def _is_data(path: str) -> bool:
    return parse_data_file(path.rpartition("/")[2]) is not None


def _paths(file_slice: FileSlice) -> list[str]:
    return [*([] if file_slice.base is None else [file_slice.base.path]), *(log.path for log in file_slice.logs)]


def statistics_differences(
    meta: MetaClient, table: MetadataTable, timeline: Timeline, slices: Sequence[FileSlice]
) -> Iterator[Difference]:
    """Columns of base files with values out of the range that is said of them, or with another number of nulls.

    A wider range is no difference, nor is a file without statistics: both only mean that it's read.
    """
    schema = with_meta_fields(meta.schema(timeline)) if meta.config.populate_meta_fields else meta.schema(timeline)
    records = table.read(COLUMN_STATS)
    bases = [each.base for each in slices if each.base is not None]
    names = pa.array([base.name.name for base in bases], pa.string())
    folders = pa.array([base.partition for base in bases], pa.string())
    for field in schema:
        if pa.types.is_nested(field.type) or not bases:
            continue
        keys = column_stats_keys(pa.repeat(field.name, len(bases)), folders, names)
        told = records.filter(pc.is_in(records["key"], value_set=keys)).combine_chunks()
        ranges = ranges_of(stats_of_records(told), field.type)
        places = pc.fill_null(pc.index_in(keys, value_set=told["key"].combine_chunks()), -1).to_pylist()
        for base, place in zip(bases, places, strict=True):
            if place >= 0 and ranges.known[place]:
                ends = ranges.least[place], ranges.greatest[place]
                wrong = _wrong(_column(meta, base, field), *ends, ranges.null_count[place].as_py())
                if wrong is not None:
                    yield Difference(COLUMN_STATS, base.path, f"column {field.name!r}: {wrong}")


def _column(meta: MetaClient, base: BaseFile, field: pa.Field) -> pa.ChunkedArray | None:
    """A column of a base file; None where the file hasn't got it in the type that the table has it in now."""
    file = open_base_file(meta.storage, base)
    place = file.schema.get_field_index(field.name)
    return file.read([field.name]).column(0) if place >= 0 and file.schema.field(place).type == field.type else None


def _wrong(values: pa.ChunkedArray | None, least: pa.Scalar, greatest: pa.Scalar, nulls: int | None) -> str | None:
    """What is wrong with what is said of some values; None where nothing is."""
    if values is None:
        return None
    if nulls is not None and nulls != values.null_count:
        return f"{nulls:,} nulls are said, {values.null_count:,} are there"
    numbers = values
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        if greatest.is_valid and math.isnan(greatest.as_py()):  # which is greater than all numbers
            greatest = pa.scalar(math.inf, values.type)
    ends = pc.min_max(numbers)
    if not ends["min"].is_valid:
        return None
    if not least.is_valid or not greatest.is_valid:
        return f"no value is said to be there, there are some from {ends['min']} to {ends['max']}"
    if pc.less(ends["min"], least).as_py() or pc.greater(ends["max"], greatest).as_py():
        return f"values from {least} to {greatest} are said, there are some from {ends['min']} to {ends['max']}"
    return None
