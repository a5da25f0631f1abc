"""Whether a table's metadata table tells the truth: compared with the files, each difference named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pudi.action import MetaClient
from pudi.action.mdt.expression import expression_spec
from pudi.action.mdt.index_defs import defined_index
from pudi.action.mdt.record_index import key_reading
from pudi.action.mdt.statistics import indexed_columns
from pudi.errors import CorruptError, PudiError
from pudi.filegroup import BaseFile, FileSlice, FileSystemView, LogFile, StorageListing
from pudi.format.metadata_partitions import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    EXPRESSION_INDEX_PREFIX,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from pudi.metadata import MetadataTable, StatsSpec
from pudi.metadata.partition_snapshot import PartitionSnapshot
from pudi.schema import unwritable_columns, with_meta_fields
from pudi.table.check_files import listing_differences, lost_files, lost_instants
from pudi.table.check_jobs import CheckRun, KeyCheck, Listed, read_plan
from pudi.table.difference import Difference
from pudi.task import Engine
from pudi.task.check_expressions import ExpressionCheck
from pudi.task.check_files import UNREADABLE, FilesCheck, ToldOfFiles
from pudi.task.finding import DATA_FILES, Findings, merge_findings
from pudi.timeline import Timeline

METADATA_TABLE = "metadata table"
"""What a difference of the whole metadata table is said of."""

_ATTEMPTS = 5
"""How often timeline and metadata table are loaded until they are of one moment."""

_FILE_BYTES, _MOST_FILES = 256 << 20, 256
"""Bytes and number of files that one job looks into, about."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

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
        self.timeline, self._table, self._unreadable = _opened(meta)
        self.compared: dict[str, int] = {}
        self._cluster = CheckRun(meta, engine, on_cluster)
        # What is compared with the metadata table must not come from it. It comes after it: files are there before they
        # are listed.
        self.folders = StorageListing(meta.storage).all_files()
        self.view = FileSystemView(self.timeline, Listed(self.folders), meta.store, logs=meta.merges_on_read)

    def run(self) -> CheckResult:
        """All comparisons."""
        with self._cluster:
            return CheckResult(tuple(self._differences()), self.compared)

    def _differences(self) -> Iterator[Difference]:
        table, unreadable = self._table, self._unreadable
        if table is not None:
            try:
                for name in sorted(table.ever_invalidated):
                    yield Difference(name, "", "a writer rolled back what it held, and it's still said to be ready")
            except UNREADABLE as error:
                table, unreadable = None, error
        if unreadable is not None:
            yield Difference(METADATA_TABLE, "", f"can't be read: {unreadable}")
        slices: list[FileSlice] = []
        for partition in self.folders:
            try:
                slices += self.view.slices(partition)
            except UNREADABLE as error:
                yield Difference(DATA_FILES, partition, f"can't be read: {error}")
        self.compared["file groups"] = len(slices)
        yield from lost_instants(self.meta, self.timeline)
        yield from lost_files(self.meta, self.timeline, self.folders, self.view, slices)
        if table is not None and FILES in self.meta.config.metadata_partitions:
            found = listing_differences(self.meta, table, self.timeline, self.folders, slices)
            yield from _guarded(FILES, found)
        findings: list[Findings] = []
        if table is not None:
            yield from self._of_files(table, slices, findings)
        if table is not None:
            yield from self._of_expressions(table, slices, findings)
        yield from self._of_keys(table, slices, findings)
        yield from (Difference(each.index, each.path, each.text) for each in merge_findings(findings))

    def _of_files(
        self, table: MetadataTable, slices: list[FileSlice], findings: list[Findings]
    ) -> Iterator[Difference]:
        """Statistics and bloom filters, compared by jobs."""
        schema = self.meta.schema(self.timeline)
        schema = with_meta_fields(schema) if self.meta.config.populate_meta_fields else schema
        held: dict[str, PartitionSnapshot] = {}
        for name in (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS):
            if name in table.partitions:
                try:
                    held[name] = PartitionSnapshot.of(table, name)
                except UNREADABLE as error:
                    yield Difference(name, "", f"can't be read: {error}")
        spec: StatsSpec | None = None
        try:
            spec = indexed_columns(self.meta, schema)
        except CorruptError as error:
            yield Difference(COLUMN_STATS, "", f"can't be read: {error}")
        if not held:
            return
        plan = read_plan(self.meta, self.timeline, [])
        if spec is not None:  # milliseconds, which version 1 doesn't tell from microseconds, are asked by no reader
            millis = set(unwritable_columns(self.meta.schema_json(self.timeline)))
            spec = StatsSpec(tuple(n for n in spec.columns if n.split(".")[0] not in millis), spec.version)
        told = ToldOfFiles(
            schema, spec, held.get(COLUMN_STATS), held.get(PARTITION_STATS), held.get(BLOOM_FILTERS), plan.history
        )
        jobs = [FilesCheck(number, told, files) for number, files in enumerate(_portions(slices))]
        findings += self._cluster.run(jobs)

    def _of_expressions(
        self, table: MetadataTable, slices: list[FileSlice], findings: list[Findings]
    ) -> Iterator[Difference]:
        """Expression indexes, compared by jobs; those of expressions that pudi doesn't know are passed over."""
        schema = self.meta.schema(self.timeline)
        for name in table.partitions:
            if not name.startswith(EXPRESSION_INDEX_PREFIX):
                continue
            try:
                spec, held = expression_spec(defined_index(self.meta, name), schema), PartitionSnapshot.of(table, name)
            except UNREADABLE as error:
                yield Difference(name, "", f"can't be read: {error}")
                continue
            if spec is None:
                continue
            reading = key_reading(self.meta, self.timeline)
            jobs = [ExpressionCheck(n, held, spec, reading, files) for n, files in enumerate(_portions(slices))]
            findings += self._cluster.run(jobs)
            self.compared[f"files by {name}"] = sum(len(job.files) for job in jobs)

    def _of_keys(
        self, table: MetadataTable | None, slices: list[FileSlice], findings: list[Findings]
    ) -> Iterator[Difference]:
        keys = KeyCheck(self._cluster, self.timeline, tuple(slices))
        index = None
        if table is not None and RECORD_INDEX in table.partitions:
            try:
                index = keys.record_index(table)
            except UNREADABLE as error:
                yield Difference(RECORD_INDEX, "", f"can't be read: {error}")
        self.compared["record keys"] = keys.of_records(index, findings)
        for name in () if table is None else table.partitions:
            if name.startswith(SECONDARY_INDEX_PREFIX):
                assert table is not None
                try:
                    keys.of_values(table, name, findings)
                except UNREADABLE as error:
                    yield Difference(name, "", f"can't be read: {error}")


def _opened(meta: MetaClient) -> tuple[Timeline, MetadataTable | None, PudiError | None]:
    """The timeline, and the metadata table of that moment, or why it can't be read.

    If a commit begins between the two and the metadata table already contains it, the timeline lacks it: both are then
    loaded again. A lost instant stays missing; another check reports it.
    """
    for _ in range(_ATTEMPTS):
        timeline, table = meta.store.load(), None
        if not meta.config.metadata_partitions:
            break
        try:
            table = meta.metadata_table(timeline)
            if table.tells_of(timeline):
                break
        except UNREADABLE as error:
            return timeline, None, error
    return timeline, table, None


def _guarded(index: str, found: Iterator[Difference]) -> Iterator[Difference]:
    """What a comparison finds; that the index itself can't be read is a difference too."""
    try:
        yield from found
    except UNREADABLE as error:
        yield Difference(index, "", f"can't be read: {error}")


def _portions(slices: Iterable[FileSlice]) -> Iterator[tuple[BaseFile | LogFile, ...]]:
    """The files of slices, in groups of several."""
    held: list[BaseFile | LogFile] = []
    size = 0
    for each in slices:
        for file in (*(() if each.base is None else (each.base,)), *each.logs):
            if held and (size + file.size > _FILE_BYTES or len(held) == _MOST_FILES):
                yield tuple(held)
                held, size = [], 0
            held.append(file)
            size += file.size
    if held:
        yield tuple(held)
