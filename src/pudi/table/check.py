"""Whether a table's metadata table tells the truth: compared with the files, each difference named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.lost_instants import find_lost
from pudi.context import FileInfo
from pudi.errors import PudiError
from pudi.filegroup import FileSlice, FileSystemView, StorageListing, ViewOptions
from pudi.filegroup.committed_files import NamedFiles, unnamed_files
from pudi.format import METADATA_DIR, Action, FileGroupId, is_shared_bucket, parse_data_file, parse_log_file
from pudi.format.metadata_partitions import FILES
from pudi.indexes import registry
from pudi.indexes.checking import CheckRun, Difference, IndexCheck, Listed
from pudi.metadata import MetadataTable, files_listed
from pudi.services.failures import failures, plans_aside
from pudi.storage import StorageBelow
from pudi.task import Engine
from pudi.task.check_files import DATA_FILES, UNREADABLE, merge_findings

TIMELINE = "timeline"
"""Place of a difference that concerns the timeline itself."""

_DELETING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})


def listing_differences(
    snapshot: TableSnapshot,
    listed: Mapping[str, Sequence[FileInfo]],
    folders: Mapping[str, Sequence[FileInfo]],
    slices: Sequence[FileSlice],
) -> Iterator[Difference]:
    """Files that are listed and aren't there, are there and aren't listed, or have another size.

    Files of pending or dead writes are in no list, even in a new partition; and files that a running clean deletes may
    be missing.

    Args:
        snapshot: the table, as it was before these were listed.
        listed: the files that its metadata table lists, by partition path.
        folders: the files that are there, by partition path.
        slices: its latest slices by its folders.
    """
    for partition in sorted({each.partition for each in slices} - listed.keys()):
        yield Difference(FILES, partition, "the partition is not listed")
    needed = {path for each in slices for path in paths_of(each)}
    timeline = snapshot.timeline
    done = {i.requested for i in timeline.instants if i.is_completed}
    others = [i for i in snapshot.refreshed().timeline.instants if i.requested not in done]
    cleaning = any(i.action in _DELETING for i in others)
    if others and timeline.rules.logs_name_their_slice:
        needed &= _not_of_others(snapshot, needed)
    for partition in sorted(listed):
        there = {info.path: info.size for info in folders.get(partition, ()) if is_data_file(info.path)}
        said = {info.path: info.size for info in listed[partition]}
        for path in sorted(said.keys() - there.keys()):
            if not cleaning:
                yield Difference(FILES, path, "the file is listed, but missing")
        for path in sorted(there.keys() - said.keys()):
            if path in needed:
                yield Difference(FILES, path, "the file is not listed, so readers miss its records")
        for path in sorted(said.keys() & there.keys()):
            if said[path] != there[path]:
                yield Difference(FILES, path, f"listed with {said[path]:,} bytes, it has {there[path]:,}")


def _not_of_others(snapshot: TableSnapshot, paths: set[str]) -> set[str]:
    """Return the paths that aren't log files of an incomplete write; below version 8 names don't tell."""
    metadata = [snapshot.meta.store.read_commit_metadata(instant) for instant in snapshot.timeline.commits]
    stated = {stat.path for each in metadata for stat in each.stats}
    return {path for path in paths if path in stated or parse_log_file(basename(path)) is None}


def lost_files(
    snapshot: TableSnapshot,
    folders: Mapping[str, Sequence[FileInfo]],
    view: FileSystemView,
    slices: Iterable[FileSlice],
) -> Iterator[Difference]:
    """Return missing files of completed commits whose records no newer file has.

    Args:
        snapshot: the table; files of commits that its timeline no longer has are not checked.
        folders: the files that are there, by partition path.
        view: the view that the slices come from.
        slices: its latest slices by its folders.
    """
    there = {info.path for infos in folders.values() for info in infos}
    bases = {each.group: each.base for each in slices}
    lost: dict[str, str] = {}
    for instant in snapshot.timeline.commits:
        for partition, stats in snapshot.meta.store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                path, group = stat.path or "", FileGroupId(partition, stat.file_id or "")
                log = parse_log_file(basename(path))
                if not path or path in there or not is_data_file(path) or (log is not None and log.cdc):
                    continue
                base = bases.get(group)
                if (base is None or base.instant <= instant.requested) and not view.is_replaced(group):
                    lost[path] = instant.requested
    for path, requested in sorted(lost.items()):
        yield Difference(DATA_FILES, path, f"the file that commit {requested} wrote is gone, and its records with it")


def copied_files(folders: Mapping[str, Sequence[FileInfo]]) -> Iterator[Difference]:
    """Return the file ids that lie in two partitions by files of one name: a copy of a partition's folder.

    Args:
        folders: the files that are there, by partition path.
    """
    places: dict[str, list[str]] = {}
    for partition, infos in folders.items():
        for info in infos:
            places.setdefault(basename(info.path), []).append(partition)
    copied: dict[tuple[str, ...], list[str]] = {}
    for name, partitions in places.items():
        parsed = parse_data_file(name) if len(partitions) > 1 else None
        if parsed is not None and not is_shared_bucket(parsed.file_id):
            copied.setdefault((parsed.file_id, *sorted(partitions)), []).append(name)
    for (file_id, *partitions), names in sorted(copied.items()):
        yield Difference(
            DATA_FILES,
            f"{partitions[-1]}/{min(names)}".lstrip("/"),
            f"file id {file_id} lies in the partitions {', '.join(map(repr, partitions))}: one folder is a copy of the "
            "other, and its rows may come twice; move the copy out of the table",
        )


def lost_instants(snapshot: TableSnapshot) -> Iterator[Difference]:
    """Return instants of the active timeline that had completed and whose completed file is missing."""
    for lost in find_lost(snapshot, snapshot.timeline.commits):
        yield Difference(TIMELINE, lost.requested, lost.text)


def is_data_file(path: str) -> bool:
    """Return whether a path ends with the name of a base file or a log file."""
    return parse_data_file(basename(path)) is not None


def paths_of(file_slice: FileSlice) -> list[str]:
    """Paths of a slice's files."""
    return [file.path for file in file_slice.files]


SERVICES = "services"
"""Subject of a difference about a failing table service."""
METADATA_TABLE = "metadata table"
"""Place of a difference that concerns the whole metadata table."""

_ATTEMPTS = 5
"""Number of loads of timeline and metadata table until both are of one moment."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check.

    Attributes:
        differences: the errors in the order of detection; empty for a correct table.
        compared: how many things of each kind were compared.
    """

    differences: tuple[Difference, ...]
    compared: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.differences

    def to_json(self) -> dict[str, object]:
        """The same as plain values."""
        return {"ok": self.ok, "compared": dict(self.compared), "differences": [d.to_json() for d in self.differences]}

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.compared.items())
        if self.ok:
            return f"no difference in {counts or 'nothing'}"
        return "\n".join(map(str, (*self.differences, f"{len(self.differences)} differences in {counts}")))


def check_table(meta: MetaClient, engine: Engine, *, on_cluster: bool = False) -> CheckResult:
    """Compare the metadata table with the table's files, and look for duplicate keys.

    The list of files, statistics of files and partitions, bloom filters of base files, the place of each record key,
    values of secondary indexes, and results of expressions. The whole table is read, as it was when the check began.
    Keys are compared part by part: one task holds those of one file group of an index, or of some 64 MB of the table's
    files where there's none.

    Args:
        meta: the table.
        engine: the engine that reads it.
        on_cluster: whether its tasks share nothing with this process but the table's storage.
    """
    return _Check(meta, engine, on_cluster).run()


class _Check:
    """One check under way."""

    def __init__(self, meta: MetaClient, engine: Engine, on_cluster: bool) -> None:
        self.meta = meta
        self.snapshot, self._table, self._unreadable = _opened(meta)
        self.compared: dict[str, int] = {}
        self._cluster = CheckRun(meta, engine, on_cluster)
        # What is compared with the metadata table must not come from it. It comes after it: files are there before they
        # are listed.
        folders = StorageListing(meta.storage).all_files()
        self._listed, self._unlisted = _files_listed(meta, self._table)
        # Nobody needs these files: they are orphans, which a repair deletes.
        displaced = unnamed_files(folders, NamedFiles(meta.store, self.snapshot.timeline), self._listed)
        self.folders = {p: [i for i in infos if i.path not in displaced] for p, infos in folders.items()}
        self.view = FileSystemView(
            self.snapshot.timeline, Listed(self.folders), meta.store, ViewOptions(logs=meta.merges_on_read)
        )

    def run(self) -> CheckResult:
        """All comparisons."""
        with self._cluster:
            return CheckResult(tuple(self._differences()), self.compared)

    def _differences(self) -> Iterator[Difference]:
        table, unreadable = self._table, self._unreadable
        if table is not None:
            try:
                for name in sorted(table.ever_invalidated):
                    yield Difference(
                        name, "", "a writer rolled back its entries, but the table's properties still list it as ready"
                    )
            except UNREADABLE as error:
                table, unreadable = None, error
        if unreadable is not None:
            yield Difference(METADATA_TABLE, "", f"can't be read: {unreadable}")
        yield from self._failing_services()
        slices: list[FileSlice] = []
        for partition in self.folders:
            try:
                slices += self.view.slices(partition)
            except UNREADABLE as error:
                yield Difference(DATA_FILES, partition, f"can't be read: {error}")
        self.compared["file groups"] = len(slices)
        yield from copied_files(self.folders)
        yield from lost_instants(self.snapshot)
        yield from lost_files(self.snapshot, self.folders, self.view, slices)
        if table is not None and self._unlisted is not None:
            yield Difference(FILES, "", f"can't be read: {self._unlisted}")
        if table is not None and self._listed is not None:
            yield from listing_differences(self.snapshot, self._listed, self.folders, slices)
        yield from self._of_indexes(table, slices)

    def _of_indexes(self, table: MetadataTable | None, slices: list[FileSlice]) -> Iterator[Difference]:
        """The indexes, and duplicate keys, compared by jobs."""
        check = IndexCheck(self.snapshot, slices, self._cluster, table, compared=self.compared)
        if table is not None:
            for kind in registry.KINDS:
                yield from kind.check(check, [name for name in table.partitions if kind.type.includes(name)])
        if not check.keys_compared:
            check.compare_keys(None)
        yield from (Difference(each.index, each.path, each.text) for each in merge_findings(check.findings))

    def _failing_services(self) -> Iterator[Difference]:
        """Yield the services of the table and its metadata table that failed at least twice in a row."""
        storages = {"table": self.meta.storage}
        if self.meta.config.metadata_partitions:
            storages[METADATA_TABLE] = StorageBelow(self.meta.storage, METADATA_DIR)
        for on, storage in storages.items():
            for each in failures(storage).values():
                if each.times > 1:
                    yield Difference(SERVICES, "", f"the {each.service} of the {on} {each}")
        for plan in plans_aside(self.meta.storage, self.snapshot.timeline):
            yield Difference(SERVICES, "", str(plan))


def _opened(meta: MetaClient) -> tuple[TableSnapshot, MetadataTable | None, PudiError | None]:
    """The table, and the metadata table of that moment, or why it can't be read.

    If a commit begins between the two and the metadata table already contains it, the timeline lacks it: both are then
    loaded again. A lost instant stays missing; another check reports it.
    """
    for _ in range(_ATTEMPTS):
        snapshot, table = TableSnapshot.load(meta), None
        if not meta.config.metadata_partitions:
            break
        try:
            table = snapshot.metadata_table()
            if table.is_known_to(snapshot.timeline):
                break
        except UNREADABLE as error:
            return snapshot, None, error
    return snapshot, table, None


def _files_listed(
    meta: MetaClient, table: MetadataTable | None
) -> tuple[Mapping[str, Sequence[FileInfo]] | None, PudiError | None]:
    """The files that the metadata table lists, or why they can't be read; neither where it lists none."""
    if table is None or FILES not in meta.config.metadata_partitions:
        return None, None
    try:
        return files_listed(table), None
    except UNREADABLE as error:
        return None, error
