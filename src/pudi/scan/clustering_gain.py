"""Measure what the last clustering gained: the overlap, in its columns, of the files before and after it.

Everything comes from column statistics: those of the metadata table, or else of a bounded number of footers. What they
don't tell is left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import MetaClient, TableSnapshot
from pudi.config import ClusteringOptions, names_in
from pudi.context import FileInfo
from pudi.errors import CorruptError, NotFoundError, PudiError
from pudi.expr import Expr, leaf_columns
from pudi.filegroup import BaseFile, BaseFileReader, FileSlice, LogFile, clustering_plan, open_base_file
from pudi.format import Action, CompactionOperation, WriteStat, file_path, parse_log_file
from pudi.format.metadata_partitions import COLUMN_STATS
from pudi.metadata import Ranges, StatsSpec, base_file_stats, stats_of_files, stats_of_records
from pudi.metadata.keys import column_prefix
from pudi.plan import ReadPlan
from pudi.plan.skipping import kept_by_ranges, slice_ranges
from pudi.schema.arrays import joined_arrays

_MOST_FOOTERS = 200
"""Maximum number of footers that are read for the statistics of a table without column statistics."""
_FOOTER_VERSION = 2
"""Version of statistics that are read from footers; they aren't stored."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """A completed clustering.

    Attributes:
        instant: its requested time.
        columns: the columns that it ordered by; empty if it only put files together.
        layout: the layout that its plan states; None if it states none, as Hudi's do.
        groups: number of groups of the plan.
        before: the file slices that it replaced.
        after: the file slices that it made.
    """

    instant: str
    columns: tuple[str, ...]
    layout: str | None
    groups: int
    before: tuple[FileSlice, ...]
    after: tuple[FileSlice, ...]


def last_clustering(snapshot: TableSnapshot) -> Clustered | None:
    """Return the clustering that a reader sees as the last; None if there is none whose plan can be read."""
    meta = snapshot.meta
    for instant in reversed(snapshot.seen.of(Action.REPLACECOMMIT)):
        planned = replace(instant, action=Action.CLUSTERING)
        try:
            written = meta.store.read_commit_metadata(instant)
            if not written.is_clustering:
                continue
            plan = clustering_plan(meta.store, planned)
        except (NotFoundError, CorruptError):
            return None
        return Clustered(
            instant.requested,
            names_in(plan.params.get(ClusteringOptions.sort_columns.key)),
            plan.params.get(ClusteringOptions.layout.key),
            len(plan.groups),
            tuple(map(_slice_of, plan.slices)),
            tuple(each for each in map(_made, written.stats) if each.base is not None),
        )
    return None


def describe_gain(snapshot: TableSnapshot, plan: ReadPlan) -> Iterator[str]:
    """Yield what the last clustering gained for the filter of a plan, as a line of `explain`, if that is known.

    Args:
        snapshot: the table, as the scan sees it.
        plan: the plan without slices.
    """
    where, keys = plan.narrowed, snapshot.meta.keys
    done = None if where is None else last_clustering(snapshot)
    if where is None or done is None:
        return
    filtered = {".".join(column.path): column.type for column in leaf_columns(where)}
    types = {name: kind for name, kind in filtered.items() if kind is not None and "." not in name}
    sides = [(plan.with_slices(each, keys).slices, len(each)) for each in (done.after, done.before)]
    stats = LayoutStats.of(snapshot, types, [each for side, _ in sides for each in side])
    kept = [None if stats is None else stats.kept(where, side) if side else 0 for side, _ in sides]
    if None not in kept:
        by = f" by {', '.join(done.columns)}" if done.columns else ""
        kept_of = [f"{count} of {of}" for count, (_, of) in zip(kept, sides, strict=True)]
        yield f"clustering  {done.instant}{by}: the filter keeps {kept_of[0]} of its files, {kept_of[1]} before it"


def _slice_of(named: CompactionOperation) -> FileSlice:
    """Return a slice of a plan; its files may be gone, and their sizes are unknown."""
    logs = (parse_log_file(name) for name in named.log_files)
    base = None if named.base_file is None else _base(named.partition_path, named.base_file, 0)
    log_files = tuple(LogFile(named.partition_path, log, 0) for log in logs if log is not None)
    return FileSlice(named.partition_path, named.file_id, base, log_files)


def _made(stat: WriteStat) -> FileSlice:
    name = basename(stat.path or "")
    partition = stat.partition_path or ""
    return FileSlice(partition, stat.file_id or "", _base(partition, name, stat.file_size_in_bytes or 0))


def _base(partition: str, name: str, size: int) -> BaseFile | None:
    return BaseFile.of(partition, FileInfo(file_path(partition, name), size, 0))


@dataclass(frozen=True, slots=True)
class LayoutStats:
    """Bounds of some columns in files, as far as they are known.

    Attributes:
        stats: rows of `STATS`.
        types: the columns' types by name.
    """

    stats: pa.Table
    types: Mapping[str, pa.DataType]

    @classmethod
    def of(
        cls, snapshot: TableSnapshot, types: Mapping[str, pa.DataType], slices: Sequence[FileSlice]
    ) -> LayoutStats | None:
        """Read statistics; None if the metadata table has none, and there are too many footers.

        Args:
            snapshot: the table.
            types: the columns' types by name.
            slices: the slices whose footers may be read.
        """
        meta = snapshot.meta
        millis = {name.partition(".")[0] for name in snapshot.schema.unwritable}
        known = {name: kind for name, kind in types.items() if name not in millis}
        if COLUMN_STATS in meta.config.metadata_partitions:
            try:
                records = (
                    snapshot.at(snapshot.seen)
                    .metadata_table()
                    .read(COLUMN_STATS, prefixes=[column_prefix(n) for n in known])
                )
            except PudiError:
                return None
            return cls(stats_of_records(records), known)
        plain = {each.path: each for each in slices if not each.logs and each.base is not None}
        if len(plain) > _MOST_FOOTERS:
            return None
        found = meta.context.executor.map(lambda each: _footer(meta, each, tuple(known)), list(plain.values()))
        return cls(stats_of_files([each for each in found if each is not None]), known)

    def ranges(self, slices: Sequence[FileSlice], columns: Sequence[str]) -> dict[str, Ranges] | None:
        """Return the bounds of columns in slices; None if those of one are unknown in a slice, or there is no slice."""
        if not slices or any(name not in self.types for name in columns):
            return None
        found = {name: slice_ranges(self.stats, slices, name, self.types[name]) for name in columns}
        return found if all(each.known.all() for each in found.values()) else None

    def kept(self, where: Expr, slices: Sequence[FileSlice]) -> int | None:
        """Return how many of some slices may hold rows that match; None if statistics don't tell."""
        names = [".".join(column.path) for column in leaf_columns(where)]
        found = self.ranges(slices, names)
        return None if found is None else int(kept_by_ranges(where, found, len(slices)).sum())

    def overlap(self, slices: Sequence[FileSlice], column: str) -> float | None:
        """Return the average share of slices that a filter for one value of a column keeps.

        The values are the middles, by rank, of the slices' own ranges: 1 if all ranges overlap, 1 of the number of
        slices if none do.
        """
        found = self.ranges(slices, [column])
        if found is None:
            return None
        least, greatest = found[column].least, found[column].greatest
        filled = pc.and_(least.is_valid(), greatest.is_valid())
        least, greatest = least.filter(filled), greatest.filter(filled)
        if not len(least):
            return None
        ranks = np.asarray(pc.rank(joined_arrays([least, greatest]), tiebreaker="dense")).astype(float)
        low, high = ranks[: len(least)], ranks[len(least) :]
        middle = (low + high) / 2
        begun = np.searchsorted(np.sort(low), middle, side="right")
        ended = np.searchsorted(np.sort(high), middle, side="left")
        return float(np.mean(begun - ended) / len(slices))


def _footer(meta: MetaClient, each: FileSlice, columns: tuple[str, ...]) -> tuple[str, str, pa.Table] | None:
    """Return the statistics of a base file from its footer; None if it's gone or no Parquet file."""
    assert each.base is not None
    try:
        base = BaseFile.of(each.partition, meta.storage.head(each.base.path))
        reader = None if base is None else open_base_file(meta.storage, base)
        if not isinstance(reader, BaseFileReader):
            return None
        stats = base_file_stats(reader.metadata, StatsSpec(columns, _FOOTER_VERSION))
    except PudiError:
        return None
    return each.partition, each.base.name.name, stats
