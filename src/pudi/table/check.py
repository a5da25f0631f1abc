"""Whether a table's metadata table tells the truth: compared with the files, each difference named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from pudi.action import MetaClient, merging_of, read_history
from pudi.errors import CorruptError, NotFoundError, NotSupportedError
from pudi.filegroup import FileSlice, FileSystemView, StorageListing
from pudi.metadata import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX, SECONDARY_INDEX_PREFIX, MetadataTable
from pudi.plan import plan_read
from pudi.schema import RECORD_KEY
from pudi.table.check_files import listing_differences, statistics_differences
from pudi.table.check_keys import Keys, bloom_differences, duplicates, location_differences, value_differences
from pudi.table.difference import Difference
from pudi.task import SliceReader
from pudi.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

    Attributes:
        differences: what is wrong, in the order in which it was found; none in a table that is right.
        compared: how many things of each kind were compared.
    """

    differences: tuple[Difference, ...]
    compared: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.differences

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.compared.items())
        if self.ok:
            return f"no difference in {counts or 'nothing'}"
        return "\n".join(map(str, (*self.differences, f"{len(self.differences)} differences in {counts}")))


def check_table(meta: MetaClient) -> CheckResult:
    """Compare the metadata table with the files it tells of, and look for keys that are there twice.

    The list of files, statistics and bloom filters of base files, the place of each record key, and values of secondary
    indexes. The whole table is read, on this machine, as it was when the check began; the record keys are held in
    memory.

    Raises:
        CorruptError: a file of the table itself can't be read.
    """
    return _Check(meta, meta.store.load()).run()


class _Check:
    """One check under way."""

    def __init__(self, meta: MetaClient, timeline: Timeline) -> None:
        self.meta = meta
        self.timeline = timeline
        self.compared: dict[str, int] = {}
        # what is compared with the metadata table must not come from it
        self.view = FileSystemView(timeline, StorageListing(meta.storage), meta.store, logs=meta.merges_on_read)

    def run(self) -> CheckResult:
        """All comparisons."""
        return CheckResult(tuple(self._differences()), self.compared)

    def _differences(self) -> Iterator[Difference]:
        ready = self.meta.config.metadata_partitions
        table: MetadataTable | None = None
        if ready:
            try:
                table = self.meta.metadata_table(self.timeline)
            except (CorruptError, NotFoundError, NotSupportedError) as error:
                yield Difference("metadata table", "", f"can't be read: {error}")
        slices = self.view.all_slices()
        self.compared["file groups"] = len(slices)
        if table is not None and FILES in ready:
            yield from self._guarded(FILES, partial(listing_differences, self.meta, table, self.timeline, slices))
        if table is not None and COLUMN_STATS in ready:
            compare = partial(statistics_differences, self.meta, table, self.timeline, slices)
            yield from self._guarded(COLUMN_STATS, compare)
        yield from self._of_keys(table, slices)

    def _of_keys(self, table: MetadataTable | None, slices: list[FileSlice]) -> Iterator[Difference]:
        ready = () if table is None else table.partitions
        indexed = [name for name in ready if name.startswith(SECONDARY_INDEX_PREFIX)]
        keys = self._keys(slices)
        self.compared["record keys"] = keys.count
        yield from duplicates(keys, whole_table=table is not None and _is_over_table(table))
        if table is None:
            return
        if BLOOM_FILTERS in ready:
            yield from self._guarded(BLOOM_FILTERS, partial(bloom_differences, self.meta, table, slices))
        if RECORD_INDEX in ready:
            yield from self._guarded(RECORD_INDEX, partial(location_differences, table, keys))
        for name in indexed:
            yield from self._guarded(name, partial(value_differences, self.meta, table, name, self._values))

    @staticmethod
    def _guarded(index: str, compare: Callable[[], Iterator[Difference]]) -> Iterator[Difference]:
        """What a comparison finds; that the index itself can't be read is a difference too."""
        try:
            yield from compare()
        except (CorruptError, NotFoundError, NotSupportedError) as error:
            yield Difference(index, "", f"can't be read: {error}")

    def _keys(self, slices: list[FileSlice]) -> Keys:
        """The record keys of every slice, as a reader sees them."""
        populated = self.meta.config.populate_meta_fields
        columns = [RECORD_KEY] if populated else list(self.meta.keys.record_key_fields)
        found = Keys()
        for file_slice, rows in self._read(slices, columns):
            keys = rows[RECORD_KEY] if populated else self.meta.keys.record_keys(rows)
            found.add(file_slice, keys)
        return found

    def _values(self, column: str) -> pa.Table:
        """Record key and value of a column of every record."""
        rows = [rows for _, rows in self._read(self.view.all_slices(), [RECORD_KEY, column])]
        return pa.concat_tables(rows) if rows else pa.table({RECORD_KEY: pa.array([], pa.string()), column: []})

    def _read(self, slices: list[FileSlice], columns: list[str]) -> Iterator[tuple[FileSlice, pa.Table]]:
        meta, timeline = self.meta, self.timeline
        plan = plan_read(
            meta.storage.root,
            meta.schema(timeline),
            wanted=columns,
            where=None,
            meta_fields=True,
            populated=meta.config.populate_meta_fields,
            history=read_history(meta, timeline, timeline),
            merging=merging_of(meta, timeline, timeline),
        )
        reader = SliceReader(meta.storage, plan.with_slices(slices, meta.keys))
        for file_slice in slices:
            batches = list(reader.read(file_slice))
            if batches:
                yield file_slice, pa.Table.from_batches(batches)


def _is_over_table(table: MetadataTable) -> bool:
    """Whether there's a record index over the whole table: then a key is one of a kind in it."""
    try:
        return RECORD_INDEX in table.partitions and not table.shards(RECORD_INDEX).partitioned
    except CorruptError:  # told where the index itself is compared
        return False
