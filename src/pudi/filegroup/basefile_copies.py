"""Write a base file from another one: unchanged parts are copied as bytes, the rest is encoded.

Hudi rewrites a file group's base file for any changed record, and stores the new file's name in each row. Row groups
without a changed record, and in other row groups columns without a changed value (usually the record keys), are copied
as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pudi.filegroup.basefile import BaseFileReader
from pudi.filegroup.basefile_encode import (
    ParquetOptions,
    encode_parquet,
    encoded_groups,
    has_above_ffff,
    model_footer,
    nan_free,
)
from pudi.format import BloomFilter, footer_metadata
from pudi.format.parquet import read_nan_free
from pudi.format.parquet_chunks import (
    CODECS,
    ColumnChunk,
    MovedChunk,
    NotMovableError,
    ParquetFooter,
    assemble,
    check_pages,
    moved_groups,
)
from pudi.schema import RECORD_KEY

_WRITER = re.compile(r"parquet-cpp-arrow version (\d{1,4})\.")
_LEAST_VERSION = 2
"""Files of other writers, and of older versions, are read and rewritten: the meaning of statistics and of pages depends
on the writer in the footer (Arrow reads pages of version 2 of releases before 2.0 in another way)."""


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Some rows of a file that is made from another one.

    Attributes:
        rows: the columns to encode: all, or some with as many rows as the row group.
        copied: the row group with the chunks of the other columns; None if `rows` has all columns.
        encoded: in place of `rows`, columns that are encoded already.
    """

    rows: pa.Table
    copied: int | None = None
    encoded: Mapping[tuple[str, ...], MovedChunk] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """Row groups for a new file, and what its footer says of them.

    Attributes:
        groups: for each its number of rows and its chunks.
        span: least and greatest record key; None if unknown.
        nan_free: floating-point columns without NaN.
    """

    groups: tuple[tuple[int, list[MovedChunk]], ...]
    span: tuple[str, str] | None
    nan_free: frozenset[str]


class MovableFile:
    """A base file whose column chunks are copied into its next version.

    Args:
        reader: the file.
        schema: columns of the new file in its stored types, meta fields first.
        options: how the new file is written.

    Raises:
        NotMovableError: pudi wouldn't write the file this way with these columns and options.
        CorruptError: its footer is damaged.
    """

    def __init__(self, reader: BaseFileReader, schema: pa.Schema, options: ParquetOptions) -> None:
        self.reader = reader
        self.schema = schema
        self.options = options
        self._contents: dict[tuple[int, int], bytes] = {}
        path, writer = reader.path, reader.metadata.created_by or ""
        version = _WRITER.match(writer)  # first: other writers' footers may look impossible, and be right
        if version is None or int(version[1]) < _LEAST_VERSION:
            raise NotMovableError(f"a file of {writer[:100]!r}", path=path)
        self._footer = reader.chunk_footer()
        self._model = model_footer(schema, options)
        if not self._footer.has_schema_of(self._model):
            raise NotMovableError("the file's columns are stored in other types", path=path)
        codec = CODECS.get(self.options.codec)
        if any(chunk.codec != codec for group in self._footer.groups for chunk in group.chunks):
            raise NotMovableError(f"the file isn't compressed by {self.options.codec}", path=path)

    def bloom_filter(self) -> BloomFilter | None:
        """Return the bloom filter for a new file with the same keys in the same order.

        Raises:
            NotMovableError: this file's filter differs from one that would be made now.
        """
        wanted = self.options.bloom
        if wanted is None:
            return None
        found = self.reader.bloom_filter()
        made = (wanted.kind, wanted.hashes, wanted.bits)
        if (
            found is None
            or (found.kind, found.hashes, found.bits) != made
            or found.row_entries
            not in {
                0,
                wanted.num_entries,
            }
        ):
            raise NotMovableError("the file's bloom filter is another one", path=self.reader.path)
        return found

    def repeats_key(self, group: int, column: str) -> bool:
        """Return whether a row group stores the same bytes in a column as in the record key."""
        key, other = self._chunks(group, RECORD_KEY)[0], self._chunks(group, column)
        if len(other) != 1 or other[0].length != key.length or self.schema.field(column).type != pa.string():
            return False
        return self._content(key) == self._content(other[0])

    def few_valued(self) -> list[str]:
        """Return text columns with a dictionary in all row groups."""
        names = [f.name for f in self.schema if f.type == pa.string() and f.name != RECORD_KEY]
        groups = range(len(self._footer.groups))
        return [name for name in names if all(self._chunks(group, name)[0].only_dictionary for group in groups)]

    def rewritten(self, parts: Sequence[GroupPart], avro_schema: str, bloom: BloomFilter | None) -> pa.Buffer:
        """Return the new file.

        Args:
            parts: its rows, at least one part.
            avro_schema: Avro schema with the meta fields, as JSON text, for the footer.
            bloom: bloom filter for the footer.

        Raises:
            CorruptError: a chunk to copy is damaged.
        """
        return joined([self], [self.moved(parts)], avro_schema, bloom)

    def moved(self, parts: Sequence[GroupPart]) -> MovedGroups:
        """Return row groups for a new file.

        Raises:
            CorruptError: a chunk to copy is damaged.
        """
        self._fetch(parts)
        groups = tuple(group for part in parts for group in self._groups(part))
        return MovedGroups(groups, self._key_range(parts), frozenset(self._nan_free(parts)))

    def forget(self) -> None:
        """Drop the chunks kept in memory for a later file."""
        self._contents.clear()

    @property
    def model(self) -> ParquetFooter:
        """The footer of a file with these columns and no row groups."""
        return self._model

    @property
    def group_sizes(self) -> list[int]:
        """The stored bytes of each row group."""
        return [sum(chunk.length for chunk in group.chunks) for group in self._footer.groups]

    def _groups(self, part: GroupPart) -> Iterable[tuple[int, list[MovedChunk]]]:
        if part.copied is None and RECORD_KEY not in part.rows.column_names:
            return moved_groups(encode_parquet(part.rows, self.options))
        if part.copied is None:
            return encoded_groups(part.rows, self.options)
        made = part.encoded
        if part.rows.column_names:
            made = encoded_columns(part.rows, self.options)
        kept = self._footer.groups[part.copied]
        chunks = [made.get(chunk.path) or MovedChunk(chunk, self._content(chunk)) for chunk in kept.chunks]
        return [(kept.num_rows, chunks)]

    def _chunks(self, group: int, column: str) -> list[ColumnChunk]:
        return [chunk for chunk in self._footer.groups[group].chunks if chunk.path[0] == column]

    def _fetch(self, parts: Sequence[GroupPart]) -> None:
        """Fetch the bytes to copy; adjacent ranges are combined."""
        chunks = []
        for part in parts:
            if part.copied is not None:
                encoded = {*part.rows.column_names, *(path[0] for path in part.encoded)}
                chunks += [c for c in self._footer.groups[part.copied].chunks if c.path[0] not in encoded]
        self._load(chunks)

    def _load(self, chunks: Iterable[ColumnChunk]) -> None:
        missing = [chunk for chunk in chunks if (chunk.start, chunk.length) not in self._contents]
        ranges = [(chunk.start, chunk.length) for chunk in missing]
        for chunk, content in zip(missing, self.reader.read_bytes(ranges), strict=True):
            check_pages(chunk, content, path=self.reader.path)
            self._contents[chunk.start, chunk.length] = content

    def _content(self, chunk: ColumnChunk) -> bytes:
        self._load([chunk])
        return self._contents[chunk.start, chunk.length]

    def _key_range(self, parts: Sequence[GroupPart]) -> tuple[str, str] | None:
        """Return the new file's least and greatest key; None if a key is above U+FFFF, see `RecordFooter`."""
        whole = self.reader.key_range()
        if whole is None:
            return None
        known, spans = self.reader.statistics(RECORD_KEY), []
        for part in parts:
            if RECORD_KEY in part.rows.column_names:
                keys = part.rows[RECORD_KEY]
                if has_above_ffff(keys):
                    return None
                span = pc.min_max(keys).as_py()
                spans.append((span["min"], span["max"]))
            elif part.copied is not None:
                stated = known[part.copied]
                spans.append(whole if stated is None or stated.minimum is None else (stated.minimum, stated.maximum))
        return min(low for low, _ in spans), max(high for _, high in spans)

    def _nan_free(self, parts: Sequence[GroupPart]) -> list[str]:
        """Return floating-point columns without NaN."""
        known = read_nan_free(self.reader.metadata)
        names = [f.name for f in self.schema if pa.types.is_floating(f.type)]
        for part in parts:
            free = nan_free(part.rows)
            names = [n for n in names if (n in free if n in part.rows.column_names else n in known)]
        return names


def encoded_columns(rows: pa.Table, options: ParquetOptions) -> dict[tuple[str, ...], MovedChunk]:
    """Return the chunks of some columns of one row group, by path."""
    content = encode_parquet(rows, options, most_rows=max(rows.num_rows, 1))
    return {moved.chunk.path: moved for _, chunks in moved_groups(content) for moved in chunks}


def joined(
    files: Sequence[MovableFile], moved: Sequence[MovedGroups], avro_schema: str, bloom: BloomFilter | None
) -> pa.Buffer:
    """Return a base file made of row groups of others.

    Args:
        files: the files that the row groups come from, at least one; they have the same columns.
        moved: the row groups of each.
        avro_schema: Avro schema with the meta fields, as JSON text, for the footer.
        bloom: bloom filter for the footer.
    """
    schema = files[0].schema
    spans = [each.span for each in moved if each.span is not None]
    low, high = (None, None)
    if len(spans) == len(moved):
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    free = frozenset.intersection(*(each.nan_free for each in moved))
    names = [field.name for field in schema if field.name in free]
    groups = [group for each in moved for group in each.groups]
    return assemble(files[0].model, groups, footer_metadata(avro_schema, low, high, bloom, names))
