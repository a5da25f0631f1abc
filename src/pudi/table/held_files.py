"""Files that hold some records: search them on storage, those of the metadata table too, and say what keeps each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import MetaClient, TableSnapshot, read_history
from pudi.client.find_index import find_index
from pudi.config import CleanOptions, Options
from pudi.context import FileInfo
from pudi.expr import bind_where, columns, evaluate
from pudi.filegroup import BaseFile, LogFile, StorageListing, virtual_keys
from pudi.format import METADATA_DIR, LogFileName, parse_data_file
from pudi.indexes.checking import CheckRun, in_portions
from pudi.plan import Selection
from pudi.record import KeyGenerator
from pudi.scan import snapshot_scan
from pudi.schema import PARTITION_PATH, RECORD_KEY, with_meta_fields, without_meta_fields
from pudi.schema.arrays import joined_arrays, one_array
from pudi.services.clean_plan import pending_slices, savepointed_names, savepoints_of
from pudi.storage import StorageBelow
from pudi.table.check import paths_of
from pudi.task import Engine, FileJob
from pudi.task.find_records import FileMatches, FindEntries, FindRecords, RecordQuery, Search
from pudi.timeline import Instant

_PORTION = 256 << 20
"""Bytes of files that one job reads."""


@dataclass(frozen=True, slots=True)
class StillHeld:
    """A file that holds versions of the records, or entries about them.

    Attributes:
        path: the file, relative to the table's root.
        records: number of versions, deletes or entries; 0 if the file can't be read.
        reason: what keeps the file.
        instant: requested time of the savepoint, or of the pending instant, that keeps it; None without one.
    """

    path: str
    records: int
    reason: str
    instant: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.records} versions or entries: {self.reason}"


def reasons(snapshot: TableSnapshot, held: Sequence[FileMatches], *, retains: bool) -> tuple[StillHeld, ...]:
    """Say what keeps each of some files.

    Args:
        snapshot: the table now, with the caller's options.
        held: the files.
        retains: whether the options say what a clean leaves.
    """
    if not held:
        return ()
    timeline = snapshot.timeline
    savepoints = savepointed_names(snapshot)
    plans = pending_slices(snapshot)
    pending = {each.requested: each for each in timeline.pending}
    view = snapshot.view(sizes=False)
    newest = {path for each in view.all_slices() for path in paths_of(each)}
    whole: dict[str, tuple[str, ...]] = {}  # a clean keeps all files of a slice, or none
    for group in view.groups_of(sorted({each.path.rpartition("/")[0] for each in held if not _is_entry(each)})):
        replaced_at = view.replaced.get(group.id)
        for each_slice in group.slices:
            saved = savepoints_of(each_slice, group, replaced_at, savepoints)
            whole.update(dict.fromkeys(each_slice.files, tuple(saved)))
    in_data = not all(map(_is_entry, held))
    policy = CleanOptions.of(snapshot.options).policy
    found = []
    for each in held:
        name = parse_data_file(basename(each.path))
        in_group = (each.path.rpartition("/")[0], "" if name is None else name.file_id)
        saved_by = whole.get(each.path) or ()
        instant: str | None = None
        if each.error:
            reason = f"it can't be read, and may hold some: {each.error}"
        elif _is_entry(each):
            instant = None if in_data else min(pending, default=None)
            reason = _of_entries(in_data, pending.get(instant or ""))
        elif saved_by:
            instant, reason = saved_by[0], f"the savepoint of {', '.join(saved_by)} keeps it"
        elif in_group in plans:
            action, instant, _ = plans[in_group]
            reason = f"the pending {action} {instant} needs it"
        elif name is not None and name.instant in pending:
            instant, reason = name.instant, f"the {pending[name.instant].action.value} that writes it is pending"
        elif each.path in newest:
            reason = "it is in the newest slice of its file group"
        elif retains:
            reason = f"the policy {policy} retains it"
        else:
            reason = "an old slice that no clean has deleted yet"
        found.append(StillHeld(each.path, each.rows, reason, instant))
    return tuple(found)


def _is_entry(held: FileMatches) -> bool:
    return held.path.startswith(METADATA_DIR)


def _of_entries(in_data: bool, waits_for: Instant | None) -> str:
    if in_data:
        return "entries of the metadata table about the other files, or about the records in them"
    if waits_for is not None:
        return f"entries of the metadata table, which waits for the pending {waits_for.action.value}"
    return "entries of the metadata table, which a compaction and a clean of it remove"


@dataclass(slots=True)
class RecordSearch:
    """Search of all files of a table for records.

    Attributes:
        meta: the table.
        engine: runs the jobs.
        options: the caller's.
        jobs: the run that the jobs belong to.
        seen: what each data file holds, by path and size.
        read: paths of the files that were read.
    """

    meta: MetaClient
    engine: Engine
    options: Options
    jobs: CheckRun
    seen: dict[tuple[str, int], FileMatches | None] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def records(self, where: str) -> tuple[RecordQuery, int]:
        """Find the records: those that match now, and those that are gone from the table and once matched.

        A record that is still in the table and no longer matches isn't among them, though older versions of it match.

        Args:
            where: SQL predicate over the records.

        Returns:
            The records, and how many are in the table now.
        """
        meta, snapshot = self.meta, TableSnapshot.load(self.meta, self.options)
        schema, virtual = snapshot.schema.columns, meta.virtual_keys is not None
        full = with_meta_fields(schema)
        bound = bind_where(where, schema if virtual else full, meta.storage.root)
        names = [name for name in full.names if name == RECORD_KEY or name in columns(bound)]
        partitioned = not find_index(snapshot).is_global
        used = meta.keys.columns | columns(bound)
        wanted = RecordQuery(
            pa.schema([full.field(name).with_nullable(True) for name in names]),
            bound,
            read_history(snapshot),
            partitioned=partitioned,
            images=pa.schema([each.with_nullable(True) for each in without_meta_fields(full) if each.name in used]),
            generator=meta.keys,
            virtual=virtual,
        )
        found = self.files(wanted)
        once = joined_arrays([pa.array([], pa.string()), *(each.matching for each in found)]).unique()
        matching, others, current = [once.slice(0, 0)], [once.slice(0, 0)], 0
        read = sorted(used) if virtual else list(dict.fromkeys([*names, PARTITION_PATH]))
        for batch in snapshot_scan(TableSnapshot.load(meta), Selection(read)).to_batches():
            rows = pa.table(batch)
            if virtual:
                found_keys, paths = virtual_keys(rows, meta.keys), meta.keys.partition_paths(rows)
            else:
                found_keys, paths = rows[RECORD_KEY], rows[PARTITION_PATH]
            keys = wanted.identities(found_keys, paths)
            true = one_array(pc.fill_null(evaluate(bound, rows), False))
            matching.append(keys.filter(true))
            others.append(keys.filter(pc.and_(pc.invert(true), pc.is_in(keys, value_set=once))))
            current += len(matching[-1])
        known = joined_arrays([once, *matching]).unique()
        keys = known.filter(pc.invert(pc.is_in(known, value_set=joined_arrays(others))))
        self.seen.clear()
        return replace(wanted, keys=keys), current

    def files(self, wanted: RecordQuery, *, metadata: bool = False) -> list[FileMatches]:
        """Return the files that hold some, as storage is now; data files that were read before aren't read again.

        Args:
            wanted: the records.
            metadata: whether to search the metadata table too.
        """
        there: dict[tuple[str, int], BaseFile | LogFile | None] = {}
        for partition, infos in StorageListing(self.meta.storage).all_files().items():
            for info in infos:
                if parse_data_file(basename(info.path)) is not None:
                    there[info.path, info.size] = _file(partition, info, self.meta.virtual_keys)
        fresh = {key: file for key, file in there.items() if file is not None and key not in self.seen}
        portions = enumerate(_portions(fresh.values()))
        found = self._run([FindRecords(number, wanted, files) for number, files in portions])
        self.seen.update({key: found.get(key[0]) for key in fresh})
        self.read |= {path for path, _ in fresh}
        known = [None if file is None else self.seen[key] for key, file in there.items()]
        strange = [_strange(path) for (path, _), file in there.items() if file is None]
        held = [*(each for each in known if each is not None), *strange]
        if metadata and self.meta.config.metadata_partitions:
            names = frozenset(basename(path) for path, _ in there) - {basename(each.path) for each in held}
            held += self._run(list(self._entries(wanted, names))).values()
        return held

    def _run(self, jobs: Sequence[FileJob]) -> dict[str, FileMatches]:
        results = self.engine.run_jobs(self.meta.storage, self.jobs.name, jobs) if jobs else ()
        return {each.path: each for result in results if isinstance(result, Search) for each in result.held}

    def _entries(self, wanted: RecordQuery, names: frozenset[str]) -> Iterator[FindEntries]:
        """Return jobs that read the metadata table.

        Args:
            wanted: the records.
            names: names of the data files that are there and hold none.
        """
        storage, number = StorageBelow(self.meta.storage, METADATA_DIR), 0
        for partition, infos in StorageListing(storage).all_files().items():
            found = (_file(partition, info) for info in infos if parse_data_file(basename(info.path)) is not None)
            for files in _portions(each for each in found if each is not None):
                self.read |= {f"{METADATA_DIR}/{file.path}" for file in files}
                yield FindEntries(number, wanted, partition, files, names)
                number += 1


def _file(partition: str, info: FileInfo, keys: KeyGenerator | None = None) -> BaseFile | LogFile | None:
    name = parse_data_file(basename(info.path))
    if not isinstance(name, LogFileName):
        return BaseFile.of(partition, info, keys)
    return LogFile(partition, name, info.size) if name.cdc else LogFile.of(partition, info)


def _strange(path: str) -> FileMatches:
    return FileMatches(path, 0, pa.array([], pa.string()), "a file of a kind that pudi doesn't read")


def _portions(files: Iterable[BaseFile | LogFile]) -> Iterator[tuple[BaseFile | LogFile, ...]]:
    return in_portions(files, lambda file: file.size, _PORTION)
