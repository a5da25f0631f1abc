"""Statistics under names that a change of columns gives to others, or takes away.

pudi asks no statistics in tables with schema on read. Hudi does, by name: of a column that was dropped and added again
it skips files by the dropped values. Statistics of partitions under a name that is gone would stay for good; those of
files go when their file is cleaned. So a change of columns deletes the statistics under reused names.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pudi.client.schema_commit import ALTER_SCHEMA, INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.schema_history import read_history
from pudi.filegroup import BaseFile, LogFile
from pudi.format import CommitMetadata
from pudi.indexes.column_stats.statistics import (
    leaf_names,
)
from pudi.indexes.indexed_commit import LockedCommit
from pudi.metadata import (
    STATS,
    column_stats_records,
    deleted_stats,
    partition_stats_records,
)
from pudi.metadata.changes import Changes, encode_changes
from pudi.schema import avro_to_arrow, without_meta_fields
from pudi.schema.internal import InternalSchema, SchemaHistory
from pudi.task.table_rows import is_same_named, same_named


def of_reused_names(
    written: CommitMetadata, version: int, locked: LockedCommit
) -> tuple[Changes | None, Changes | None]:
    """Return the changes to `column_stats` and `partition_stats`; None for none.

    Args:
        written: a commit, about to be completed; only one that changes columns by hand has an effect.
        version: version of the index's values.
        locked: the table under its lock.
    """
    if written.operation_type != ALTER_SCHEMA:
        return None, None
    history = _history_after(written, locked)
    after = list(leaf_names(without_meta_fields(avro_to_arrow(written.extra_metadata[SCHEMA_KEY]))))
    reused = [] if history is None else _reused_names(after, history)
    gone = sorted(set(leaf_names(locked.snapshot.schema.columns)) - set(after))
    if not reused and not gone:
        return None, None
    listed = locked.snapshot.listing(locked.table).all_files()
    stubs = deleted_stats([(partition, "") for partition in listed], [*gone, *reused], partitions=True)
    of_partitions = encode_changes(partition_stats_records(stubs, version)) if stubs.num_rows else None
    by_instant: dict[tuple[str, bool], list[BaseFile | LogFile]] = {}
    for partition, infos in listed.items():
        for info in infos:  # files, not records
            file = LogFile.of(partition, info) or BaseFile.of(partition, info)
            if file is not None:
                by_instant.setdefault((file.instant, isinstance(file, BaseFile)), []).append(file)
    stale = [STATS.empty_table()]
    for files in by_instant.values() if reused else ():
        others = sorted(set(reused) - set(same_named(reused, files[0], history)))
        stale.append(deleted_stats([(file.partition, file.name.name) for file in files], others))
    of_files = pa.concat_tables(stale)
    return encode_changes(column_stats_records(of_files, version)) if of_files.num_rows else None, of_partitions


def _history_after(written: CommitMetadata, locked: LockedCommit) -> SchemaHistory | None:
    """Return the schema history with the commit's schema; None before the first change, when all names are new."""
    before = read_history(locked.snapshot)
    after = written.extra_metadata.get(INTERNAL_SCHEMA_KEY)
    return None if before is None or after is None else before.with_version(InternalSchema.from_json(after))


def _reused_names(columns: Sequence[str], history: SchemaHistory) -> list[str]:
    """Return the columns whose name another column had."""
    reused: set[str] = set()
    for version in history.versions:
        names, stored = history.names(str(version.version)), set(leaf_names(without_meta_fields(version.arrow())))
        reused |= {name for name in columns if name in stored and not is_same_named(name, names)}
    return sorted(reused)
