"""Files that dead writers left behind: found by listings, deleted under the table's lock.

Readers ignore them, since their instants never completed. But they take space, and a metadata table that is rebuilt
from folders must not list them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.lost_instants import find_lost
from pudi.client.properties import recover_properties
from pudi.concurrency import read_claims
from pudi.config import Options, WriteOptions
from pudi.context import FileInfo
from pudi.filegroup import StorageListing
from pudi.filegroup.committed_files import NamedFiles, unnamed_files
from pudi.format import (
    CLAIMS_DIR,
    HEARTBEAT_DIR,
    HOODIE_DIR,
    METADATA_DIR,
    PROPERTIES_BACKUP,
    TEMP_DIR,
    LogFileName,
    is_instant_time,
    marker_dir,
    parse_data_file,
)
from pudi.format.metadata_partitions import FILES
from pudi.metadata import files_listed
from pudi.storage import delete_folder, delete_for_good
from pudi.task.check_files import UNREADABLE
from pudi.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Orphans:
    """Files that dead writers left behind.

    Attributes:
        data_files: data files of instants that aren't on the timeline and never completed.
        displaced: base files of completed instants whose commits don't name them: another run of a plan completed it.
        markers: marker folders of instants that aren't pending and have no live heartbeat.
        metadata: folders in the metadata table that aren't partitions: unfinished or dropped ones.
        backup: whether a crash interrupted an update of the properties.
        claims: files by which dead writers had claimed file groups.
    """

    data_files: tuple[str, ...] = ()
    displaced: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    backup: bool = False
    claims: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.data_files or self.displaced or self.markers or self.metadata or self.backup or self.claims)

    def describe(self) -> Iterator[tuple[str, str]]:
        """Return the path of each item and its description."""
        for path in self.data_files:
            yield path, "a data file of an instant that never completed and is on the timeline no more"
        for path in self.displaced:
            yield path, "a data file of a run that another one displaced: the commit of its instant doesn't name it"
        for path in self.markers:
            yield path, "markers of a write that is over"
        for path in self.metadata:
            yield path, "a partition of the metadata table that the properties don't name"
        if self.backup:
            yield PROPERTIES_BACKUP, "a change of the properties died half-way"
        for path in self.claims:
            yield path, "the claim of a write that is over"


def find_orphans(meta: MetaClient, folders: Mapping[str, Sequence[FileInfo]] | None = None) -> Orphans:
    """Find orphans. Folders are listed before the timeline, so that the timeline has the instants of live writers.

    Args:
        meta: the table.
        folders: the data files by partition path, listed before; None to list them.
    """
    folders = StorageListing(meta.storage).all_files() if folders is None else folders
    temporary = {f"{TEMP_DIR}/{name}" for name in _filled(meta, TEMP_DIR)}
    expiry = WriteOptions.of(Options()).heartbeat_expiry_ms
    claims = read_claims(meta.storage, meta.context, expiry) if CLAIMS_DIR in temporary else ()
    below = [name for name in _filled(meta, METADATA_DIR) if not name.startswith(".")]
    beats = {basename(info.path) for info in meta.storage.list_dir(HEARTBEAT_DIR)[0]}
    backup = any(info.path == PROPERTIES_BACKUP for info in meta.storage.list_dir(HOODIE_DIR)[0])
    meta.reload()
    snapshot = TableSnapshot.load(meta)
    timeline = snapshot.timeline
    pending = {instant.requested for instant in timeline.pending}
    config = meta.config
    known = {*config.metadata_partitions, *config.metadata_partitions_inflight}
    whole = not known and bool(below)
    data_files = [] if timeline.start is None and meta.store.has_history() else unknown_data_files(snapshot, folders)
    if data_files:  # if the instant had completed, these files are all that is left of it
        lost = {each.requested for each in find_lost(snapshot, timeline.commits)}
        data_files = [(path, instant) for path, instant in data_files if instant not in lost]
    return Orphans(
        tuple(path for path, _ in data_files),
        tuple(sorted(unnamed_files(folders, NamedFiles(meta.store, timeline), _listed(snapshot)))),
        tuple(sorted(temporary - {CLAIMS_DIR, *map(marker_dir, pending | beats)})),
        (METADATA_DIR,) if whole else tuple(f"{METADATA_DIR}/{n}" for n in sorted(below) if n not in known),
        backup,
        tuple(each.path for each in claims if each.is_dead),
    )


def _listed(snapshot: TableSnapshot) -> Mapping[str, Sequence[FileInfo]] | None:
    """Return the files that the metadata table lists, by partition path; None where there is none to be read."""
    if FILES not in snapshot.config.metadata_partitions:
        return None
    try:
        return files_listed(snapshot.metadata_table())
    except UNREADABLE:
        return None


def _filled(meta: MetaClient, folder: str) -> list[str]:
    """Return the names of subfolders with files: only disks have empty ones."""
    found = meta.storage.list_dir(folder)[1]
    return [name for name in found if any(True for _ in meta.storage.list(f"{folder}/{name}"))]


def unknown_data_files(snapshot: TableSnapshot, folders: Mapping[str, Sequence[FileInfo]]) -> list[tuple[str, str]]:
    """Return data files, with their instants, that are neither on the timeline nor archived.

    Those older than the timeline's oldest commit may be of archived instants that the archive has dropped. Newer ones
    were archived beside a savepoint. Below version 8 the name of a log file has its base file's instant.

    Args:
        snapshot: the table.
        folders: the data files by partition path.

    Raises:
        CorruptError: the archive can't be read.
    """
    known = {instant.requested for instant in snapshot.timeline.instants}
    found = [each for each in _newer_files(folders, snapshot.timeline) if each[1] not in known]
    if not found:
        return []
    archived = {instant.requested for instant in snapshot.meta.store.archived(min(instant for _, instant in found))}
    return [each for each in found if each[1] not in archived]


def _newer_files(folders: Mapping[str, Sequence[FileInfo]], timeline: Timeline) -> Iterator[tuple[str, str]]:
    """Yield the data files of instants that aren't older than the timeline's oldest commit, with their instants."""
    oldest = timeline.oldest or ""
    for infos in folders.values():
        for info in infos:
            name = parse_data_file(basename(info.path))
            if name is None or (timeline.rules.logs_name_their_slice and isinstance(name, LogFileName)):
                continue
            if is_instant_time(name.instant) and name.instant >= oldest:
                yield info.path, name.instant


def remove_orphans(meta: MetaClient) -> Orphans:
    """Delete orphans and return what was deleted."""
    with meta.lock:
        found = find_orphans(meta)
        if found.backup:
            recover_properties(meta.storage)
            meta.reload()
        delete_for_good(meta.storage, (*found.data_files, *found.displaced))
        meta.storage.delete(found.claims)
        for folder in (*found.markers, *found.metadata):
            delete_folder(meta.storage, folder)
    return found
