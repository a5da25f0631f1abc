"""A running check of the metadata table, as kinds of indexes see it: its jobs on either engine, and its differences."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot, merging_of, read_history
from pudi.concurrency import Heartbeat
from pudi.context import FileInfo, Storage
from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.format import staging_dir
from pudi.metadata import MetadataTable
from pudi.metadata.record_index import RecordShards
from pudi.metadata.table import PartitionSnapshot
from pudi.plan import ReadableTable, ReadPlan, Selection, plan_read
from pudi.record import KeyGenerator
from pudi.storage import LocalStorage, delete_folder
from pudi.task import Engine, FileJob
from pudi.task.check_files import UNREADABLE, Findings
from pudi.task.check_keys import CompareKeys, Spread, StagedPortions, StageKeys
from pudi.task.portions import Portion, portions_by_part
from pudi.timeline import Timeline

_Item = TypeVar("_Item")


def in_portions(
    items: Iterable[_Item], size_of: Callable[[_Item], int], most_bytes: int, most_items: int | None = None
) -> Iterator[tuple[_Item, ...]]:
    """Yield consecutive items in portions, each of at least one item.

    Args:
        items: the items.
        size_of: returns the size of an item in bytes.
        most_bytes: the greatest size of a portion of several items.
        most_items: the greatest number of items in a portion; None for any number.
    """
    portion: list[_Item] = []
    size = 0
    for item in items:
        own = size_of(item)
        if portion and (size + own > most_bytes or len(portion) == most_items):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(item)
        size += own
    if portion:
        yield tuple(portion)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the metadata table and the files, or a duplicate record key.

    Attributes:
        index: where the error is: a partition of the metadata table, `metadata table`, `record keys`, `data files`, or
            `timeline`.
        path: the file, the file group or the partition concerned, relative to the table's root; of the timeline the
            instant.
        what: the expected and the actual state.
    """

    index: str
    path: str
    what: str

    def to_json(self) -> dict[str, str]:
        """Return the difference as plain values."""
        return {"index": self.index, "path": self.path, "what": self.what}

    def __str__(self) -> str:
        return f"{self.index}: {self.path}: {self.what}" if self.path else f"{self.index}: {self.what}"


_BEAT_MS = 60_000
_STAGE_BYTES = 128 << 20
"""Approximate number of bytes of files whose keys one job reads."""
_PART_BYTES, _MOST_PARTS = 64 << 20, 4096
"""Bytes of files whose keys one job compares if there is no index to divide them by, and the maximum number of these
jobs."""


@dataclass(slots=True)
class CheckRun:
    """Runs the jobs of one check and holds their interim files.

    Locally this is a temporary folder, so that a check writes nothing to the table. Tasks on a cluster share only the
    table's storage: there it is a marker folder whose name is no instant.

    Args:
        meta: the table.
        engine: the engine that runs the jobs.
        on_cluster: whether its tasks share only the table's storage with this process.
    """

    meta: MetaClient
    engine: Engine
    on_cluster: bool
    staging: Storage | None = None
    _name: str = field(init=False)
    _done: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)

    def __post_init__(self) -> None:
        self._name = f"check-{self.meta.context.new_id()}"

    @property
    def name(self) -> str:
        """Return a name in place of an instant, which jobs need."""
        return self._name

    @property
    def folder(self) -> str:
        """The folder of interim files, in `staging` or in the table's storage."""
        return staging_dir(self._name)

    def __enter__(self) -> CheckRun:
        if self.on_cluster:
            heart = Heartbeat(self.meta.storage, self._name, self.meta.context, _BEAT_MS)
            heart.start()
            self._done.callback(heart.stop)
            self._done.callback(delete_folder, self.meta.storage, self.folder)
        else:
            folder = self._done.enter_context(tempfile.TemporaryDirectory(prefix="pudi-check-"))
            self.staging = LocalStorage(folder)
        return self

    def __exit__(self, *_: object) -> None:
        self._done.close()

    def run(self, jobs: Sequence[FileJob]) -> list[Findings]:
        """Run jobs and return their findings."""
        results = self.engine.run_jobs(self.meta.storage, self._name, jobs) if jobs else ()
        return [each for each in results if isinstance(each, Findings)]

    def tidy(self) -> None:
        """Delete interim files that are no longer needed."""
        delete_folder(self.meta.storage if self.staging is None else self.staging, self.folder)


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Compare the facts of each record with the indexes.

    Args:
        runner: where jobs run.
        snapshot: the table, as the check sees it.
        slices: its newest slices.
    """

    runner: CheckRun
    snapshot: TableSnapshot
    slices: tuple[FileSlice, ...]

    def of_records(self, index: RecordShards | None, findings: list[Findings]) -> int:
        """Find duplicate record keys, and keys that aren't where the record index says; count the keys.

        Args:
            index: the record index; None if the table has none, or it can't be read.
            findings: collects the findings.
        """
        spread = Spread({None: (0, self._parts)}, self._parts, keys=self._keys)
        if index is not None:
            spread = replace(spread, ranges=index.ranges, rest=len(index.slices))
        staged = self._stage(spread)
        known = _portions(staged)
        unread = frozenset(number for each in staged for number in each.unread)
        parts = sorted({*known, *range(0 if index is None else len(index.slices))})
        places = tuple(each.group for each in self.slices)
        jobs = []
        for number, part in enumerate(parts):
            located = None
            if index is not None:
                located = (index.slices[part] if part < len(index.slices) else None, index.scope)
            unique = index is not None and not index.partitioned
            portions = known.get(part, ())
            jobs.append(CompareKeys(number, portions, self.runner.staging, places, unread, unique, located))
        findings += [*staged, *self.runner.run(jobs)]
        self.runner.tidy()
        return sum(each.received for each in staged)

    def of_values(self, snapshot: PartitionSnapshot, column: str, findings: list[Findings]) -> None:
        """Find records that a secondary index has under another value.

        Args:
            snapshot: the index as readers see it.
            column: the indexed column.
            findings: collects the findings.
        """
        groups = snapshot.shards.all
        spread = Spread({None: (0, len(groups))}, 0, column, snapshot.whole_key, self._keys)
        staged = self._stage(spread)
        known = _portions(staged)
        unread = frozenset(number for each in staged for number in each.unread)
        jobs = [
            CompareKeys(n, known.get(n, ()), self.runner.staging, (), unread, index=snapshot, group=group)
            for n, group in enumerate(groups)
        ]
        findings += self.runner.run(jobs)
        self.runner.tidy()

    @property
    def _keys(self) -> KeyGenerator | None:
        return None if self.runner.meta.config.populate_meta_fields else self.runner.meta.keys

    @property
    def _parts(self) -> int:
        return max(1, min(_MOST_PARTS, sum(each.size for each in self.slices) // _PART_BYTES))

    def _stage(self, spread: Spread) -> list[StagedPortions]:
        plan = read_plan(self.snapshot, spread.columns)
        jobs = [
            StageKeys(number, plan, spread, group, self.runner.staging, f"{self.runner.folder}/{number}")
            for number, group in enumerate(_groups(self.slices))
        ]
        return [each for each in self.runner.run(jobs) if isinstance(each, StagedPortions)]


def _portions(staged: Sequence[StagedPortions]) -> dict[int, tuple[Portion, ...]]:
    """Return the staged keys by part."""
    return {part: portions for (_, part), portions in portions_by_part(("", each.rows) for each in staged).items()}


def read_plan(snapshot: TableSnapshot, columns: Sequence[str]) -> ReadPlan:
    """Return how readers read some columns of the table, without slices."""
    populated, history, merging = snapshot.config.populate_meta_fields, read_history(snapshot), merging_of(snapshot)
    table = ReadableTable(snapshot.table, snapshot.schema.columns, populated, history, merging)
    return plan_read(table, Selection(columns))


def _groups(slices: Sequence[FileSlice]) -> Iterator[tuple[tuple[int, FileSlice], ...]]:
    """Group slices by number; small ones share a group."""
    return in_portions(enumerate(slices), lambda numbered: numbered[1].size, _STAGE_BYTES)


@dataclass(frozen=True, slots=True)
class Listed:
    """A listing made earlier (`FileListing`).

    Attributes:
        folders: files by partition path.
        states_sizes: see `FileListing`.
    """

    folders: Mapping[str, Sequence[FileInfo]]
    states_sizes: bool = False

    def shows_later(self, timeline: Timeline) -> bool:
        """See `FileListing`: whoever listed the files has compared timelines."""
        return False

    def partitions(self) -> Sequence[str]:
        """Every partition path, sorted."""
        return sorted(self.folders)

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Files directly in a partition."""
        return self.folders.get(partition, ())

    def files_of(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Files directly in some partitions."""
        return {partition: self.files(partition) for partition in partitions}

    def all_files(self) -> Mapping[str, Sequence[FileInfo]]:
        """Files of every partition."""
        return self.folders


_FILE_BYTES, _MOST_FILES = 256 << 20, 256
"""Approximate bytes, and number, of the files that one job reads."""


@dataclass(slots=True)
class IndexCheck:
    """The inputs of a check and its findings so far.

    Attributes:
        snapshot: the table, as the check sees it.
        slices: the table's newest slices, as folders list them.
        runner: runs jobs.
        opened: the metadata table at that moment; None if there is none or it can't be read.
        findings: what jobs found.
        compared: the number of compared items, by kind.
        keys_compared: whether the table's record keys were compared, so that duplicates were found.
    """

    snapshot: TableSnapshot
    slices: Sequence[FileSlice]
    runner: CheckRun
    opened: MetadataTable | None
    findings: list[Findings] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)
    keys_compared: bool = False

    @property
    def meta(self) -> MetaClient:
        """The table."""
        return self.snapshot.meta

    @property
    def table(self) -> MetadataTable:
        """The metadata table; kinds are only asked if there is one."""
        assert self.opened is not None
        return self.opened

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, with meta fields if its files have them."""
        schema = self.snapshot.schema
        return schema.stored if self.snapshot.config.populate_meta_fields else schema.columns

    @property
    def keys(self) -> KeyCheck:
        """The comparison of record keys."""
        return KeyCheck(self.runner, self.snapshot, tuple(self.slices))

    def run(self, jobs: Sequence[FileJob]) -> None:
        """Run jobs and collect their findings."""
        self.findings += self.runner.run(jobs)

    def compare_keys(self, index: RecordShards | None) -> None:
        """Find duplicate record keys and, with a record index, keys that aren't where it says."""
        self.compared["record keys"] = self.keys.of_records(index, self.findings)
        self.keys_compared = True

    def snapshots(self, partitions: Iterable[str]) -> Iterator[PartitionSnapshot | Difference]:
        """Yield partitions of the metadata table as readers see them; for an unreadable one a difference."""
        for name in partitions:
            try:
                yield PartitionSnapshot.of(self.table, name)
            except UNREADABLE as error:
                yield unreadable(name, error)

    def portions(self) -> Iterator[tuple[BaseFile | LogFile, ...]]:
        """The files of the slices, in groups of several."""
        files = (file for each in self.slices for file in each.files)
        return in_portions(files, lambda file: file.size, _FILE_BYTES, _MOST_FILES)


def unreadable(index: str, error: Exception) -> Difference:
    """Return the difference that reports an unreadable index."""
    return Difference(index, "", f"can't be read: {error}")
