"""Find records in single files, whether readers see the files or not: a hard deletion must find all of them.

Files are read as they are, without merging: every version of a record counts, and deletes count by their record keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.errors import CorruptError, NotFoundError, NotSupportedError, SchemaError
from pudi.expr import Expr, evaluate
from pudi.filegroup import BaseFile, LogFile, open_base_file, read_blocks, virtual_keys
from pudi.format import METADATA_DIR, parse_data_file
from pudi.format.cdc import AFTER, BEFORE, CDC_RECORD_KEY
from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_data import block_schema, decode_in_parts
from pudi.format.log_deletes import decode_deletes
from pudi.format.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pudi.metadata import columns_of
from pudi.metadata.decode import decode_entries
from pudi.metadata.keys import split_secondary_keys
from pudi.record import KeyGenerator
from pudi.schema import PARTITION_PATH, RECORD_KEY, conform_read
from pudi.schema.arrays import joined_arrays, one_array, text_array
from pudi.schema.internal import SchemaHistory
from pudi.storage import StorageBelow
from pudi.task.jobs import FileResult
from pudi.task.table_rows import names_in, read_base_rows, stored_names

_UNREADABLE = (CorruptError, NotSupportedError, SchemaError)
_BYTES = 64 << 20
"""Bytes of log records to decode together."""
_STATISTICS = "ColumnStatsMetadata"


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """The records to look for.

    Attributes:
        schema: the columns to read: record key and those of the predicate.
        where: the predicate.
        history: the schemas of older files, in a table with schema on read.
        keys: identities of records (`identities`) that count whatever their values are.
        partitioned: whether equal keys in different partitions are different records.
        images: the columns to read of records without meta fields, such as those in change data: those that keys are
            made of, and those of the predicate.
        generator: makes their record keys.
        virtual: whether no file of the table has meta fields.
    """

    schema: pa.Schema
    where: Expr
    history: SchemaHistory | None
    keys: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    partitioned: bool = True
    images: pa.Schema | None = None
    generator: KeyGenerator | None = None
    virtual: bool = False

    def identities(self, keys: pa.Array | pa.ChunkedArray, partitions: pa.Array | pa.ChunkedArray | str) -> pa.Array:
        """Return the identity of each record key: all are in one partition, or each is in its own."""
        flat = text_array(keys)
        if not self.partitioned:
            return flat
        where = pa.scalar(partitions) if isinstance(partitions, str) else text_array(partitions)
        return pc.binary_join_element_wise(where, flat, "\0")

    def spelled(self, keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return record keys of log files as those of records are, see `KeyGenerator.spelled`."""
        return keys if self.generator is None else self.generator.spelled(keys)

    def named(self, keys: pa.Array | pa.ChunkedArray, partition: str) -> pa.Array:
        """Return which record keys of a partition are wanted."""
        return pc.is_in(self.identities(keys, partition), value_set=self.keys)


@dataclass(frozen=True, slots=True)
class FileMatches:
    """Wanted records that one file holds.

    Attributes:
        path: the file, relative to the table's root.
        rows: number of versions, deletes or entries of an index.
        matching: identities of the records for which the predicate is true.
        error: why the file can't be read; empty if it can.
    """

    path: str
    rows: int
    matching: pa.Array
    error: str = ""


@dataclass(frozen=True, slots=True)
class Search(FileResult):
    """Wanted records that some files hold.

    Attributes:
        held: the files that hold something or can't be read.
    """

    held: tuple[FileMatches, ...] = ()


@dataclass(frozen=True, slots=True)
class FindRecords:
    """Look for records in data files. Picklable.

    Attributes:
        number: number of the job, from 0.
        wanted: the records.
        files: the files.
    """

    number: int
    wanted: RecordQuery
    files: tuple[BaseFile | LogFile, ...]

    def run(self, storage: Storage, attempt: int) -> Search:
        """Read them; see `FileJob.run`."""
        return _search(self.number, [(each.path, partial(self._of_file, storage, each)) for each in self.files])

    def _of_file(self, storage: Storage, file: BaseFile | LogFile) -> FileMatches | None:
        rows, matching = 0, [pa.array([], pa.string())]
        parts = self._of_base(storage, file) if isinstance(file, BaseFile) else self._of_log(storage, file)
        for count, found in parts:
            rows += count
            matching.append(found)
        return FileMatches(file.path, rows, joined_arrays(matching).unique()) if rows else None

    def _of_base(self, storage: Storage, file: BaseFile) -> Iterator[tuple[int, pa.Array]]:
        opened, wanted = open_base_file(storage, file), self.wanted
        for group in range(opened.num_groups):
            rows = read_base_rows(opened, file, wanted.schema, wanted.history, [group])
            yield self._of_rows(rows, file.partition)

    def _of_log(self, storage: Storage, file: LogFile) -> Iterator[tuple[int, pa.Array]]:
        wanted, nothing = self.wanted, pa.array([], pa.string())
        logged = wanted.images if wanted.virtual and wanted.images is not None else wanted.schema
        schema = pa.schema([each.with_nullable(True) for each in logged])
        for block in read_blocks(storage, file):
            if block.kind is BlockKind.DELETE:
                keys = wanted.spelled(decode_deletes(block).keys)
                yield pc.sum(wanted.named(keys, file.partition)).as_py() or 0, nothing
            elif block.kind.is_data:
                names = names_in(wanted.history, block.instant)
                for rows in decode_in_parts(block, set(stored_names(schema, names)), _BYTES):
                    found = conform_read(rows, schema, path=file.path, names=names)
                    if wanted.virtual and wanted.generator is not None:
                        found = found.append_column(RECORD_KEY, virtual_keys(found, wanted.generator))
                    yield self._of_rows(found, file.partition)
            elif block.kind is BlockKind.CDC:
                for stored in decode_in_parts(block, None, _BYTES):
                    yield from self._of_changes(stored, block, file.partition)
            elif block.kind is not BlockKind.COMMAND:
                raise NotSupportedError(f"a block of kind {block.kind.name}", path=file.path)

    def _of_changes(self, stored: pa.Table, block: LogBlock, partition: str) -> Iterator[tuple[int, pa.Array]]:
        """Look through logged changes: record keys, and records before and after, as far as the mode logs them."""
        wanted = self.wanted
        logged = stored[CDC_RECORD_KEY] if CDC_RECORD_KEY in stored.column_names else None
        keys = None if logged is None else text_array(wanted.spelled(logged))
        if keys is not None:
            yield pc.sum(wanted.named(keys, partition)).as_py() or 0, keys.slice(0, 0)
        for name in (BEFORE, AFTER):
            if name not in stored.column_names:
                continue
            records = one_array(stored[name])
            there = records.is_valid()
            own = None if keys is None else keys.filter(there)
            yield self._of_rows(self._with_keys(records.filter(there), own, block, partition), partition)

    def _with_keys(self, records: pa.Array, keys: pa.Array | None, block: LogBlock, partition: str) -> pa.Table:
        """Return records of change data with the meta fields that the search needs.

        Raises:
            NotSupportedError: neither the records nor the change data say their keys.
        """
        wanted = self.wanted
        images, generator = wanted.images, wanted.generator
        if images is None or not isinstance(records.type, pa.StructType):
            raise NotSupportedError("change data", path=block.path)
        names = names_in(wanted.history, block.instant)
        rows = pa.Table.from_arrays(records.flatten(), names=[field.name for field in records.type])
        rows = conform_read(rows, images, path=block.path, names=names)
        if keys is None:
            if generator is None or generator.generates:
                raise NotSupportedError("change data that doesn't say the generated keys of records", path=block.path)
            keys = text_array(generator.record_keys(rows))
        rows = rows.append_column(RECORD_KEY, keys)
        return rows.append_column(PARTITION_PATH, pa.repeat(pa.scalar(partition, pa.string()), rows.num_rows))

    def _of_rows(self, rows: pa.Table, partition: str) -> tuple[int, pa.Array]:
        wanted = self.wanted
        true = pc.fill_null(evaluate(wanted.where, rows), False)
        matching = wanted.identities(rows[RECORD_KEY].filter(true), partition)
        either = pc.or_(true, wanted.named(rows[RECORD_KEY], partition)) if len(wanted.keys) else true
        return pc.sum(either).as_py() or 0, matching


@dataclass(frozen=True, slots=True)
class FindEntries:
    """Look for entries about records, or about deleted files, in files of the metadata table. Picklable.

    Attributes:
        number: number of the job, from 0.
        wanted: the records.
        partition: partition of the metadata table.
        files: its files.
        names: names of the data files that are there and hold none; column statistics of other files count.
    """

    number: int
    wanted: RecordQuery
    partition: str
    files: tuple[BaseFile | LogFile, ...]
    names: frozenset[str] = frozenset()

    def run(self, storage: Storage, attempt: int) -> Search:
        """Read them; see `FileJob.run`."""
        own = StorageBelow(storage, METADATA_DIR)
        paths = [(f"{METADATA_DIR}/{each.path}", each) for each in self.files]
        return _search(self.number, [(path, partial(self._of_file, own, each, path)) for path, each in paths])

    def _of_file(self, storage: Storage, file: BaseFile | LogFile, path: str) -> FileMatches | None:
        rows = 0
        if isinstance(file, BaseFile):
            opened = HFileReader.open(
                lambda offset, length: storage.read_ranges(file.path, [(offset, length)])[0], file.size, path=path
            )
            rows = self._count(opened.scan(), opened.avro_schema, path)
        else:
            for block in read_blocks(storage, file):
                rows += self._of_block(block, path)
        return FileMatches(path, rows, pa.array([], pa.string())) if rows else None

    def _of_block(self, block: LogBlock, path: str) -> int:
        if block.kind is BlockKind.HFILE:
            return self._count(open_bytes(block.content, path=path).scan(), block_schema(block), path)
        if block.kind is BlockKind.DELETE:
            return self._named(decode_deletes(block).keys)
        return 0

    def _count(self, entries: pa.Table, schema: str, path: str) -> int:
        columns = columns_of(self.partition)
        if not entries.num_rows:
            return 0
        if _STATISTICS not in columns:
            return self._named(entries["key"].cast(pa.string()))
        found = one_array(decode_entries(entries, schema, ["key", _STATISTICS], path=path)[_STATISTICS])
        bounds = found.filter(pc.is_valid(found))
        said = pc.or_(pc.is_valid(bounds.field("minValue")), pc.is_valid(bounds.field("maxValue")))
        names = bounds.field("fileName")
        gone = [name for name in names.unique().to_pylist() if name not in self.names and parse_data_file(name or "")]
        return pc.sum(pc.and_(pc.is_in(names, value_set=pa.array(gone, pa.string())), said)).as_py() or 0

    def _named(self, keys: pa.Array | pa.ChunkedArray) -> int:
        flat = text_array(keys)
        if self.partition.startswith(SECONDARY_INDEX_PREFIX):
            _, flat = split_secondary_keys(flat)
        elif self.partition != RECORD_INDEX:
            return 0
        known = self.wanted.keys
        if self.wanted.partitioned:
            known = pc.list_element(pc.split_pattern(known, "\0", max_splits=1), 1)
        return pc.sum(pc.is_in(flat, value_set=known)).as_py() or 0


def _search(number: int, reads: Iterable[tuple[str, Callable[[], FileMatches | None]]]) -> Search:
    """Return what the reads of files find, each with the file's path; files that are gone meanwhile are left out."""
    held = []
    for path, read in reads:
        try:
            found = read()
        except NotFoundError:
            continue
        except _UNREADABLE as error:
            found = FileMatches(path, 0, pa.array([], pa.string()), f"{type(error).__name__}: {error.message}")
        if found is not None:
            held.append(found)
    return Search(number, 0, None, held=tuple(held))
