"""Import Parquet files of any writer: check their keys, then copy or rewrite their row groups into base files.

Both steps are jobs on row groups, alike on both engines. The check stages keys by hash in files beside the markers, so
that a later job compares only its part: no key passes through the driver.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.errors import InvalidArgumentError, SchemaError
from pudi.filegroup import has_above_ffff
from pudi.filegroup.basefile_copies import ForeignFile
from pudi.format import BloomBuilder, WriteStat, footer_metadata, new_file_id, write_token
from pudi.format.hashes import portions
from pudi.format.parquet_chunks import MovedChunk, NotMovableError, assemble
from pudi.metadata.keys import shard_of
from pudi.plan import FileTask, WriteSpec
from pudi.plan.entry_staging import StagedEntries
from pudi.plan.imports import ImportUnit, Piece, SourceFile
from pudi.record import KeyGenerator, with_instant
from pudi.record.partition_path import folder_values
from pudi.schema import conform
from pudi.schema.arrays import joined_arrays
from pudi.task.bulk import RecordBuffer
from pudi.task.jobs import FileResult
from pudi.task.portions import Portion, read_portions
from pudi.task.staged_keys import KEY, KeyFile, stage_keys
from pudi.task.write import SliceWriter, write_file

_BATCH_ROWS = 64 << 10
"""Rows that are read at a time where files are rewritten."""
_PORTION_KEYS = 1_000_000
"""Keys that are compared in memory."""
_SHOWN = 3
"""Duplicate keys that an error names."""
_SEPARATOR = "\0"
"""Separator of partition path and record key; neither path nor file name can have it."""


@dataclass(frozen=True, slots=True)
class ImportSource:
    """Imported files, and the way in which their rows become records; picklable.

    Attributes:
        storage: the files.
        schema: the table's columns.
        keys: makes record keys and partition paths.
    """

    storage: Storage
    schema: pa.Schema
    keys: KeyGenerator

    def open(self, file: SourceFile) -> ForeignFile:
        """Open a file; raises as `ForeignFile`."""
        return ForeignFile(self.storage, file.path, file.size)

    def key_columns(self, opened: ForeignFile, file: SourceFile, group: int) -> pa.Table:
        """Return the columns of a row group that record keys and partition paths are made of."""
        wanted = pa.schema([field for field in self.schema if field.name in self.keys.columns])
        present = [name for name in wanted.names if name in opened.schema.names]
        rows = opened.read(present, group) if present else opened.read(opened.schema.names[:1], group)
        return self.fit(rows.select(present), file, wanted, rows.num_rows)

    def fit(self, rows: pa.Table, file: SourceFile, schema: pa.Schema, count: int) -> pa.Table:
        """Return rows of a file in the table's columns; those that its folders tell are added.

        Args:
            rows: the rows.
            file: the file.
            schema: the wanted columns.
            count: number of rows.

        Raises:
            SchemaError: a value doesn't fit; names the file.
        """
        by_folder, columns = dict(file.values), []
        for field in schema:
            if field.name in rows.column_names:
                columns.append(rows[field.name])
            elif (value := by_folder.get(field.name)) is None:
                columns.append(pa.nulls(count, field.type))
            else:
                columns.append(pa.repeat(pa.scalar(value).cast(field.type), count))
        with _naming_file(file, self.storage.root):
            return conform(pa.table(columns, names=schema.names), schema, evolved=True)

    def identities(self, opened: ForeignFile, file: SourceFile, group: int, *, whole: bool) -> pa.ChunkedArray:
        """Return the record keys of a row group, with their partition paths unless they're unique in the `whole` table.

        Raises:
            InvalidArgumentError: a key is null or empty; names the file.
        """
        rows = self.key_columns(opened, file, group)
        keys = self.record_keys(rows, file, (0, 0))
        if whole:
            return keys
        with _naming_file(file, self.storage.root):
            paths = self.keys.partition_paths(rows).cast(pa.string())
        joined = pc.binary_join_element_wise(paths, keys, _SEPARATOR)
        return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])

    def record_keys(self, rows: pa.Table, file: SourceFile, place: tuple[int, int]) -> pa.ChunkedArray:
        """Return the record keys of rows of a file; see `KeyGenerator.record_keys`."""
        with _naming_file(file, self.storage.root):
            return self.keys.record_keys(rows, place)


@dataclass(frozen=True, slots=True)
class CheckedKeys:
    """Stages the keys of a unit, with their partition paths unless keys are unique in the whole table.

    Attributes:
        number: number of the job.
        source: the source.
        unit: the row groups.
        path: the file to write.
        shards: number of portions.
        whole: whether a key may be in one partition only.
    """

    number: int
    source: ImportSource
    unit: ImportUnit
    path: str
    shards: int
    whole: bool

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Stage them; see `pudi.task.FileJob`.

        Raises:
            InvalidArgumentError: a key is null or empty; names the file.
        """
        found: list[pa.Array] = []
        for piece in self.unit.pieces:
            with closing(self.source.open(piece.file)) as opened:
                for group in piece.groups:
                    found += self.source.identities(opened, piece.file, group, whole=self.whole).chunks
        keys = joined_arrays(found) if found else pa.array([], pa.string())
        numbers = shard_of(keys, self.shards)
        names = json.dumps([[piece.file.path, piece.file.size] for piece in self.unit.pieces]).encode()
        path = f"{self.path}-{attempt}"
        staged = stage_keys(storage, KeyFile(path, "", names), numbers, keys, keys.slice(0, 0))
        return FileResult(self.number, len(keys), None, staged=(staged,))


@dataclass(frozen=True, slots=True)
class UniqueKeys:
    """Compares the staged keys of one portion.

    Attributes:
        number: number of the job.
        source: the source.
        portions: the staged keys.
        whole: whether a key may be in one partition only.
    """

    number: int
    source: ImportSource
    portions: tuple[Portion, ...]
    whole: bool

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Compare them; see `pudi.task.FileJob`.

        Raises:
            InvalidArgumentError: keys come more than once; names some of them and their files.
        """
        del attempt
        parts = [(batch.column(KEY), names) for batch, names in read_portions(storage, self.portions)]
        keys = joined_arrays([part for part, _ in parts], pa.string())
        counts = keys.filter(pa.array(_shares_hash(keys))).value_counts()
        several = counts.filter(pc.greater(counts.field("counts"), 1))
        if not len(several):
            return FileResult(self.number, len(keys), None)
        shown = several.slice(0, _SHOWN).to_pylist()
        repeated = "; ".join(f"{_described(each['values'])} {each['counts']} times" for each in shown)
        first = pa.array([shown[0]["values"]], pa.string())
        held = [names for part, names in parts if pc.any(pc.is_in(part, value_set=first)).as_py()]
        files = self._files_of(first, [(str(path), int(size)) for names in held for path, size in json.loads(names)])
        more = f" and others (in all at least {len(several)} keys)" if len(several) > _SHOWN else ""
        raise InvalidArgumentError(
            f"record keys come more than once: {repeated}{more}; the first one in {', '.join(files)}. Nothing was "
            "imported: name columns that identify a record, or take duplicates out first",
            table=self.source.storage.root,
        )

    def _files_of(self, key: pa.Array, among: Sequence[tuple[str, int]]) -> list[str]:
        """Return some files that have a key."""
        found: list[str] = []
        for path, size in sorted(set(among)):
            file = SourceFile(path, size, (), values=folder_values(path))
            with closing(self.source.open(file)) as opened:
                for group in range(len(opened.groups)):
                    own = self.source.identities(opened, file, group, whole=self.whole)
                    if len(found) < _SHOWN and pc.any(pc.is_in(own, value_set=key)).as_py():
                        found.append(path)
                        break
            if len(found) == _SHOWN:
                break
        return found


@dataclass(frozen=True, slots=True)
class ImportJob:
    """Makes base files of a unit.

    Attributes:
        number: number of the job.
        spec: the write.
        source: the source.
        unit: the row groups.
        unique: id that file ids begin with.
    """

    number: int
    spec: WriteSpec
    source: ImportSource
    unit: ImportUnit
    unique: str

    @property
    def weight(self) -> int:
        """Bytes that are read and written."""
        return self.unit.stored_bytes * (2 if self.unit.copies else 8)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Make them; see `pudi.task.FileJob`.

        Raises:
            CorruptError: a file is damaged, or changed since it was listed.
            SchemaError: a value doesn't fit the table.
        """
        unique = str(uuid.uuid5(uuid.UUID(self.unique), str(attempt)))
        if self.unit.copies and self.spec.files.is_whole and self.spec.files.is_parquet:
            try:
                return self._copy(storage, unique, attempt)
            except NotMovableError:
                pass
        return self._rewrite(storage, unique, attempt)

    def _copy(self, storage: Storage, unique: str, attempt: int) -> FileResult:
        partition = self.unit.pieces[0].file.partition
        assert partition is not None
        spec, full = self.spec, self.spec.schema.stored
        task = FileTask(self.number << 20, partition, new_file_id(unique, 0))
        name = spec.files.name(task.file_id, write_token(self.number, 0, attempt), spec.instant)
        writer = SliceWriter(storage, spec, task, name)
        footer = _KeyFooter(spec)
        groups: list[tuple[int, list[MovedChunk]]] = []
        models = []
        for piece in self.unit.pieces:
            with closing(self.source.open(piece.file)) as opened:
                movable = opened.movable(spec.schema.columns, spec.files.parquet).with_keys(self._key_column(opened))
                models.append(movable.model(full, spec.files.parquet))
                lacking = [field for field in spec.schema.columns if field.name not in opened.schema.names]
                for group in piece.groups:
                    first = sum(rows for rows, _ in groups)
                    keys = self._keys(opened, piece, group, first)
                    footer.add(keys)
                    made = movable.lacking(writer.meta_fields(keys, first))
                    if lacking:
                        schema = pa.schema(lacking)
                        rest = self.source.fit(_no_columns(len(keys)), piece.file, schema, len(keys))
                        for field in schema:
                            made = made.append_column(field.name, rest[field.name])
                    groups.append((len(keys), movable.group(group, made, full, spec.files.parquet)))
        content = assemble(models[0], groups, footer.metadata())
        del groups
        return writer.store(content, self.unit.rows)

    def _key_column(self, opened: ForeignFile) -> str | None:
        """Return the column whose stored values are the record keys; None if there is none."""
        keys = self.source.keys
        name = keys.record_key_fields[0] if len(keys.record_key_fields) == 1 and not keys.names_keys else ""
        index = opened.schema.get_field_index(name)
        return name if index >= 0 and pa.types.is_string(opened.schema.field(index).type) else None

    def _keys(self, opened: ForeignFile, piece: Piece, group: int, first: int) -> pa.ChunkedArray | pa.Array:
        if self.source.keys.generates:
            rows = piece.file.groups[group][0]
            keys = self.source.keys.record_keys(_no_columns(rows), (self.number, first))
            return with_instant(self.spec.instant, keys)
        rows = self.source.key_columns(opened, piece.file, group)
        return self.source.record_keys(rows, piece.file, (0, 0))

    def _rewrite(self, storage: Storage, unique: str, attempt: int) -> FileResult:
        held, received = RecordBuffer(storage, self.spec), 0
        stats: list[WriteStat] = []
        staged: list[StagedEntries] = []

        def write(partition: str) -> None:
            task = FileTask((self.number << 20) | len(stats), partition, new_file_id(unique, len(stats)))
            token = write_token(self.number, 0, attempt)
            result = write_file(storage, self.spec, task, held.take(partition), token)
            stats.extend(result.stats)
            staged.extend(result.staged)

        for rows, file in self._rows():
            keys = self.source.record_keys(rows, file, (self.number, received))
            with _naming_file(file, self.source.storage.root):
                paths = self.source.keys.partition_paths(rows)
            held.add(rows, keys, paths)
            received += rows.num_rows
            while (full := held.full()) is not None:
                write(full)
        while held:
            write(held.next())
        return FileResult.of(self.number, received, stats, tuple(staged))

    def _rows(self) -> Iterator[tuple[pa.Table, SourceFile]]:
        for piece in self.unit.pieces:
            with closing(self.source.open(piece.file)) as opened:
                for group in piece.groups:
                    for batch in opened.batches(group, _BATCH_ROWS):
                        rows = pa.Table.from_batches([batch])
                        yield self.source.fit(rows, piece.file, self.spec.schema.columns, rows.num_rows), piece.file


class _KeyFooter:
    """Record keys in the footer of a base file."""

    def __init__(self, spec: WriteSpec) -> None:
        options = spec.files.parquet.bloom
        self._avro_schema = spec.schema.stored_avro
        self._bloom = None if options is None else BloomBuilder(options)
        self._spans: list[tuple[str, str]] = []
        self._ranged = True

    def add(self, keys: pa.ChunkedArray | pa.Array) -> None:
        if self._bloom is not None:
            self._bloom.add(keys)
        self._ranged = self._ranged and not has_above_ffff(keys)
        span = pc.min_max(keys).as_py()
        self._spans.append((span["min"], span["max"]))

    def metadata(self) -> dict[bytes, bytes]:
        low = min(span[0] for span in self._spans) if self._ranged else None
        high = max(span[1] for span in self._spans) if self._ranged else None
        return footer_metadata(self._avro_schema, low, high, None if self._bloom is None else self._bloom.build())


@contextmanager
def _naming_file(file: SourceFile, root: str) -> Iterator[None]:
    """Add the file to errors about its rows."""
    try:
        yield
    except (SchemaError, InvalidArgumentError) as error:
        raise type(error)(f"{error.message}; nothing was imported", table=root, path=file.path) from error


def _shares_hash(keys: pa.Array) -> np.ndarray:
    """Return which keys have the hash of another one: among them are all duplicates, and few others as a rule."""
    codes = np.concatenate(
        [np.zeros(0, np.uint32), *(each.hash_codes(each.starts, each.stops) for each in portions(keys))]
    )
    order = np.argsort(codes)
    same = np.diff(codes[order].astype(np.int64), prepend=-1) == 0
    same[:-1] |= same[1:]
    found = np.zeros(len(codes), dtype=bool)
    found[order[same]] = True
    return found


def _no_columns(rows: int) -> pa.Table:
    """Return a table with that number of rows, and no column of the table that is imported to."""
    return pa.table({_SEPARATOR: pa.nulls(rows)})


def _described(key: str) -> str:
    partition, found, own = key.rpartition(_SEPARATOR)
    return f"{own!r} in partition {partition!r}" if found and partition else repr(own)


def shard_count(rows: int) -> int:
    """Return the number of portions that keys are compared in, of about a million each."""
    return max(1, -(-rows // _PORTION_KEYS))
