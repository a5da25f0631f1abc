"""Count the records of base files by what commits and the metadata table state; no data file is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from pudi.client import MetaClient
from pudi.errors import PudiError
from pudi.format import parse_data_file
from pudi.format.metadata_partitions import COLUMN_STATS
from pudi.metadata import stats_of_records
from pudi.metadata.keys import column_stats_keys
from pudi.schema import COMMIT_TIME
from pudi.timeline import Timeline


def row_counts(meta: MetaClient, timeline: Timeline, paths: Iterable[str]) -> dict[str, int]:
    """Return the number of records of base files by path, as far as it's known.

    Commits of the active timeline state it of the files that they wrote; of older files the column statistics do.

    Args:
        meta: the table.
        timeline: its timeline.
        paths: base files, relative to the table's root.
    """
    wanted = {path: found.instant for path in paths if (found := parse_data_file(path.rpartition("/")[2]))}
    written: dict[str, set[int]] = {}
    for requested in sorted(set(wanted.values())):
        commit = timeline.commit(requested)
        if commit is None:
            continue
        for partition, stats in meta.store.read_commit_metadata(commit).partition_to_write_stats.items():
            for stat in stats:
                name = (stat.path or "").rpartition("/")[2]
                path = f"{partition}/{name}" if partition else name
                if wanted.get(path) == requested:
                    written.setdefault(path, set()).add(stat.num_writes)
    known = {path: next(iter(counts)) for path, counts in written.items() if len(counts) == 1}  # Flink may write twice
    lacking = wanted.keys() - known.keys()
    return known | (_by_statistics(meta, timeline, lacking) if lacking else {})


def _by_statistics(meta: MetaClient, timeline: Timeline, paths: Collection[str]) -> dict[str, int]:
    """Return what the column statistics count, nulls included; nothing where they can't be read or lag behind."""
    if COLUMN_STATS not in meta.config.metadata_partitions or not meta.reads_metadata:
        return {}
    named = list(paths)
    split = [path.rpartition("/") for path in named]
    keys = column_stats_keys(
        pa.repeat(COMMIT_TIME, len(named)),
        pa.array([partition for partition, _, _ in split], pa.string()),
        pa.array([name for _, _, name in split], pa.string()),
    )
    try:
        table = meta.metadata_table(timeline)
        records = table.read(COLUMN_STATS, keys=keys)
    except PudiError:  # doctor and check tell of it
        return {}
    records = records.filter(records["ColumnStatsMetadata"].is_valid())
    counts = dict(zip(records["key"].to_pylist(), stats_of_records(records)["value_count"].to_pylist(), strict=True))
    found = ((path, counts.get(key)) for path, key in zip(named, keys.to_pylist(), strict=True))
    return {path: count for path, count in found if count is not None and count > 0}
