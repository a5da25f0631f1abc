"""Write a base file from another one: unchanged parts are copied as bytes, the rest is encoded.

Hudi rewrites a file group's base file for any changed record, and stores the new file's name in each row. Row groups
without a changed record, and in other row groups columns without a changed value (usually the record keys), are copied
as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    assemble,
    check_pages,
    moved_groups,
)
from pudi.schema import RECORD_KEY

_WRITER = "parquet-cpp"
"""Files of other writers are read and rewritten: the meaning of statistics depends on the writer in the footer."""


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Some rows of a file that is made from another one.

    Attributes:
        rows: the columns to encode: all, or some with as many rows as the row group.
        copied: the row group with the chunks of the other columns; None if `rows` has all columns.
    """

    rows: pa.Table
    copied: int | None = None


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
        self._footer = reader.chunk_footer()
        self._model = model_footer(schema, options)
        path = self.reader.path
        if not self._footer.created_by.startswith(_WRITER):
            raise NotMovableError(f"a file of {self._footer.created_by}", path=path)
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
        self._fetch(parts)
        groups = [group for part in parts for group in self._groups(part)]
        low, high = self._key_range(parts) or (None, None)
        return assemble(self._model, groups, footer_metadata(avro_schema, low, high, bloom, self._nan_free(parts)))

    def _groups(self, part: GroupPart) -> Iterable[tuple[int, list[MovedChunk]]]:
        if part.copied is None:
            return encoded_groups(part.rows, self.options)
        content = encode_parquet(part.rows, self.options, most_rows=max(part.rows.num_rows, 1))
        made = {moved.chunk.path: moved for _, chunks in moved_groups(content) for moved in chunks}
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
                encoded = set(part.rows.column_names)
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
        """Return minimum and maximum key of the new file; None if a key has characters above U+FFFF, see `_Footer`."""
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
