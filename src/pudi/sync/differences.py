"""Find what a sync has to change: the partitions that commits changed since the last one, and the table's entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from pudi.catalogs import CatalogColumn, CatalogTable
from pudi.catalogs.catalog import with_s3_scheme
from pudi.catalogs.registered import LAST_COMMIT, LAST_COMPLETION
from pudi.client import TableSnapshot
from pudi.format import Action
from pudi.timeline import Instant, Timeline

Times: TypeAlias = tuple[str | None, str | None]
"""The requested time of the newest commit that is registered, and the greatest completion time."""
_SCHEMA_PART = "spark.sql.sources.schema.part."


def registered_times(table: CatalogTable) -> Times:
    """Return the times up to which a table is registered."""
    return table.properties.get(LAST_COMMIT), table.properties.get(LAST_COMPLETION)


def altered(known: CatalogTable, wanted: CatalogTable, *, comments: bool) -> CatalogTable:
    """Return a registered table as it's to be; what the catalog or others added stays."""
    properties = {**known.properties, **wanted.properties}
    if wanted.properties.get("spark.sql.sources.schema.numParts"):
        parts = {key for key in wanted.properties if key.startswith(_SCHEMA_PART)}
        properties = {k: v for k, v in properties.items() if k in parts or not k.startswith(_SCHEMA_PART)}
    said = {column.name.lower(): column.comment for column in known.columns}
    columns = tuple(
        CatalogColumn(each.name.lower(), each.type, each.comment if comments else said.get(each.name.lower(), ""))
        for each in wanted.columns
    )
    now = tuple(CatalogColumn(each.name.lower(), each.type, each.comment) for each in known.columns)
    serde = {**known.format.serde_properties, **wanted.format.serde_properties}
    form = replace(wanted.format, serde_properties=serde)
    if not wanted.columns:  # the catalog has no columns, at most comments
        return replace(known, properties=properties)
    return replace(known, columns=known.columns if columns == now else columns, format=form, properties=properties)


def one_spelling(location: str) -> str:
    """Return a location in one spelling: catalogs change schemes and slashes."""
    location = with_s3_scheme(location.rstrip("/"))
    return "file:/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def lower_columns(columns: Iterable[CatalogColumn]) -> list[tuple[str, str]]:
    """Return names, in lower case as metastores store them, and types."""
    return [(each.name.lower(), each.type) for each in columns]


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Partitions to compare with a catalog, by their paths.

    Attributes:
        present: partitions that hold data.
        gone: partitions that hold none any more; none where `complete` says that all others are gone.
        complete: whether `present` is all that there is.
    """

    present: tuple[str, ...]
    gone: tuple[str, ...] = ()
    complete: bool = False


def commits_since(timeline: Timeline, last: str | None, completion: str | None) -> list[Instant] | None:
    """Return the commits that a sync hasn't seen; None where that can't be known: all partitions have to be compared.

    It can't be known before the first sync, after the last commit that was seen was archived or rolled back, or the
    table was created again, and after a restore.

    Args:
        timeline: the table's timeline now.
        last: requested time of the newest commit that was seen.
        completion: the greatest completion time that was seen; None if no sync noted one.
    """
    if last is None or timeline.start is None or last < timeline.start or timeline.commit(last) is None:
        return None
    end = completion or last
    if any(each.requested > last or _completion(each) > end for each in timeline.of(Action.RESTORE)):
        return None
    return [each for each in timeline.commits if each.requested > last or _completion(each) > end]


def changed_partitions(snapshot: TableSnapshot, commits: Iterable[Instant]) -> PartitionChanges:
    """Return the partitions that commits wrote to or replaced.

    Only those with replaced file groups are listed, as they may hold nothing now; a commit's own files are there.
    """
    written: set[str] = set()
    replaced: set[str] = set()
    for commit in commits:
        metadata = snapshot.meta.store.read_commit_metadata(commit)
        written.update(metadata.partition_to_write_stats)
        replaced.update(metadata.partition_to_replace_file_ids or ())
    if not replaced:
        return PartitionChanges(tuple(sorted(written)))
    held = {each.partition for each in snapshot.view(sizes=False).slices_of(sorted(replaced))}
    gone = replaced - held
    return PartitionChanges(tuple(sorted((written | replaced) - gone)), tuple(sorted(gone)))


def all_partitions(snapshot: TableSnapshot) -> PartitionChanges:
    """Return all partitions that hold data."""
    held = {each.partition for each in snapshot.view(sizes=False).all_slices()}
    return PartitionChanges(tuple(sorted(held)), complete=True)


def newest_times(timeline: Timeline) -> tuple[str | None, str | None]:
    """Return the greatest requested and the greatest completion time of the completed commits."""
    commits = timeline.commits
    last = max((each.requested for each in commits), default=None)
    return last, max((_completion(each) for each in commits), default=None)


def _completion(instant: Instant) -> str:
    return instant.completion or instant.requested
