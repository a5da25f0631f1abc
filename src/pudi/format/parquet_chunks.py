"""Copy column chunks of Parquet files into new files as bytes, without decoding or encoding them.

A chunk's pages don't contain their position; only the footer does. So a new footer is made with the offsets in the new
file. Page indexes and Parquet's own bloom filters, which are elsewhere in the file, are left out; statistics of chunks
and pages stay.

Source: parquet-format, src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pudi.errors import CorruptError, NotSupportedError, naming
from pudi.format.thrift_compact import BINARY, I32, I64, LIST, STRUCT, Items, Struct, decode_struct, encode_struct

MAGIC: Final = b"PAR1"
"""The first and last bytes of Parquet files."""
FOOTER_TAIL: Final = 8
"""Number of bytes after the footer: its length and `MAGIC`."""

_UNMOVED_FIELDS: Final = {10, 14, 15}
"""Fields of ColumnMetaData: index page, and position of the bloom filter."""
_DICTIONARY_PAGE: Final = 2
_PAGES: Final = {0: 5, _DICTIONARY_PAGE: 7, 3: 8}
"""Page types, each with the page header's field that has its number of values."""
_BY_DICTIONARY: Final = {2, 8}
"""Numbers of the dictionary encodings."""
_NO_ITEMS: Final = (LIST, Items(STRUCT, []))
CODECS: Final = {"uncompressed": 0, "snappy": 1, "gzip": 2, "lzo": 3, "brotli": 4, "lz4": 5, "zstd": 6, "lz4_raw": 7}
"""Numbers of compression codecs by name."""


class NotMovableError(NotSupportedError):
    """The column chunks of a Parquet file can't be copied; the file must be read and rewritten instead."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column chunk.

    Attributes:
        metadata: its ColumnMetaData.
        start: offset of its first page in the source file.
        length: size of its pages in bytes.
    """

    metadata: Struct
    start: int
    length: int

    @property
    def path(self) -> tuple[str, ...]:
        """The column's path in the schema."""
        return tuple(part.decode("utf-8", "replace") for part in self.metadata[3][1].values)

    @property
    def codec(self) -> int:
        """The compression codec's number."""
        return int(self.metadata[4][1])

    @property
    def only_dictionary(self) -> bool:
        """Return whether all pages certainly refer to a dictionary."""
        kinds = [(page[1][1], page[2][1]) for page in self.metadata.get(13, _NO_ITEMS)[1].values]
        data = [encoding for kind, encoding in kinds if kind != _DICTIONARY_PAGE]
        return bool(data) and all(encoding in _BY_DICTIONARY for encoding in data)

    @property
    def bounds(self) -> tuple[bytes, bytes] | None:
        """The encoded minimum and maximum; None unless both are known exactly."""
        kind, known = self.metadata.get(12, (STRUCT, {}))
        if kind != STRUCT or not all(known.get(number, (0, False))[1] is True for number in (7, 8)):
            return None
        low, high = known.get(6, (0, None))[1], known.get(5, (0, None))[1]
        return (low, high) if isinstance(low, bytes) and isinstance(high, bytes) else None

    def named(self, name: str) -> ColumnChunk:
        """Return a chunk with the same values for another top-level column of the same type."""
        return replace(self, metadata=self.metadata | {3: (LIST, Items(BINARY, [name.encode()]))})


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group.

    Attributes:
        num_rows: number of rows.
        chunks: its column chunks, in the order of the schema's leaves.
    """

    num_rows: int
    chunks: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """The footer of a file whose chunks can be copied.

    Attributes:
        fields: the FileMetaData.
        groups: the row groups.
    """

    fields: Struct
    groups: tuple[RowGroup, ...]

    @property
    def created_by(self) -> str:
        """The program that wrote the file."""
        return str(self.fields[6][1].decode("utf-8", "replace")) if 6 in self.fields else ""

    def has_schema_of(self, other: ParquetFooter) -> bool:
        """Return whether both files have exactly the same columns, and the same order of their bounds."""
        return all(self.fields.get(number) == other.fields.get(number) for number in (2, 7))


def footer_length(tail: bytes) -> int:
    """Return the size of a footer without its length and the final magic.

    Args:
        tail: the file's last `FOOTER_TAIL` bytes.

    Raises:
        NotMovableError: the footer is encrypted.
        CorruptError: it is not a Parquet file.
    """
    if tail[4:] == b"PARE":
        raise NotMovableError("the footer is encrypted")
    if len(tail) != FOOTER_TAIL or tail[4:] != MAGIC:
        raise CorruptError(f"a Parquet file ends with {MAGIC!r}, and this with {tail[4:]!r}")
    return int.from_bytes(tail[:4], "little")


def decode_footer(data: bytes, file_bytes: int) -> ParquetFooter:
    """Parse the footer of a Parquet file in order to copy chunks.

    Args:
        data: the footer's bytes, `footer_length` of them.
        file_bytes: size of the file; chunks lie before the footer.

    Raises:
        NotMovableError: columns are encrypted or in other files.
        CorruptError: it is not a footer, or chunks have impossible positions.
    """
    most = file_bytes - FOOTER_TAIL - len(data)
    fields, _ = decode_struct(data)
    try:
        if 8 in fields:
            raise NotMovableError("columns are encrypted")
        groups = tuple(_row_group(group, most) for group in _structs(fields, 4))
        leaves = _leaves(_structs(fields, 2))
        if any([chunk.path for chunk in group.chunks] != leaves for group in groups):
            raise CorruptError("a row group doesn't have the columns that its Parquet file says")
        if sum(group.num_rows for group in groups) != _number_of(fields, 3, I64):
            raise CorruptError("row groups of a Parquet file don't have the rows that the file says")
    except KeyError as error:
        raise CorruptError(f"a Parquet footer lacks field {error}") from None
    return ParquetFooter(fields, groups)


def footer_in(content: pa.Buffer) -> ParquetFooter:
    """Return the footer of a file in memory that was just written."""
    length = footer_length(content[-FOOTER_TAIL:].to_pybytes())
    end = content.size - FOOTER_TAIL
    return decode_footer(content[end - length : end].to_pybytes(), content.size)


def moved_groups(content: pa.Buffer) -> list[tuple[int, list[MovedChunk]]]:
    """Return the row groups of a file in memory that was just written: rows and chunks of each."""
    view = memoryview(content)
    return [
        (group.num_rows, [MovedChunk(chunk, view[chunk.start : chunk.start + chunk.length]) for chunk in group.chunks])
        for group in footer_in(content).groups
    ]


def check_pages(chunk: ColumnChunk, content: bytes, *, path: str | None = None) -> None:
    """Check the pages of a chunk to copy: their bytes, number of values and checksums.

    Args:
        chunk: the chunk.
        content: its bytes.
        path: path of the file, for errors.

    Raises:
        CorruptError: they differ from the footer, or a page differs from its checksum.
        NotMovableError: a page has a type that pudi does not copy.
    """
    with naming(path):
        _check_pages(chunk, content)


def _check_pages(chunk: ColumnChunk, content: bytes) -> None:
    name = ".".join(chunk.path)
    at = values = 0
    view = memoryview(content)
    if len(content) != chunk.length:
        raise CorruptError(f"column {name}: {len(content)} of {chunk.length} bytes are there")
    while at < len(content):
        header, at = decode_struct(content, at)
        try:
            kind, size = _number_of(header, 1, I32), _number_of(header, 3, I32)
            if kind not in _PAGES:
                raise NotMovableError(f"column {name}: a page of kind {kind}")
            count = _number_of(_struct_of(header, _PAGES[kind]), 1, I32)
            checksum = _number_of(header, 4, I32) if 4 in header else None
        except KeyError as error:
            raise CorruptError(f"column {name}: a page header lacks field {error}") from None
        if count < 0 or not 0 <= size <= len(content) - at:
            raise CorruptError(f"column {name}: a page of {size} bytes, {len(content) - at} are left")
        if checksum is not None and zlib.crc32(view[at : at + size]) != checksum & 0xFFFFFFFF:
            raise CorruptError(f"column {name}: a page isn't what its checksum says")
        at += size
        values += 0 if kind == _DICTIONARY_PAGE else count
    if values != chunk.metadata[5][1]:
        raise CorruptError(f"column {name}: {values} of {chunk.metadata[5][1]} values are there")


@dataclass(frozen=True, slots=True)
class MovedChunk:
    """A chunk to write to another file.

    Attributes:
        chunk: its source.
        content: its pages.
    """

    chunk: ColumnChunk
    content: bytes | memoryview


def assemble(
    model: ParquetFooter, groups: Iterable[tuple[int, Sequence[MovedChunk]]], key_values: Mapping[bytes, bytes]
) -> pa.Buffer:
    """Build a Parquet file from column chunks.

    Args:
        model: footer of a file with the same columns and writer; its row groups are ignored.
        groups: for each row group its number of rows and its chunks, in the order of the schema's leaves.
        key_values: the footer's key-value metadata.

    Returns:
        The file's content.
    """
    content: list[bytes | memoryview] = [
        MAGIC
    ]  # joined in one step: a stream would copy everything each time that it grows
    at, rows, made = len(MAGIC), 0, []
    for count, chunks in groups:
        columns: list[Struct] = []
        first, plain, stored = at, 0, 0
        for moved in chunks:
            metadata = _moved(moved.chunk, at)
            columns.append({2: (I64, 0), 3: (STRUCT, metadata)})
            content.append(moved.content)
            at += moved.chunk.length
            plain += metadata[6][1]
            stored += moved.chunk.length
        group: Struct = {1: (LIST, Items(STRUCT, columns)), 2: (I64, plain), 3: (I64, count)}
        made.append(group | {5: (I64, first), 6: (I64, stored)})
        rows += count
    pairs: list[Struct] = [{1: (BINARY, key), 2: (BINARY, value)} for key, value in key_values.items()]
    changed: Struct = {3: (I64, rows), 4: (LIST, Items(STRUCT, made)), 5: (LIST, Items(STRUCT, pairs))}
    if not pairs:
        del changed[5]
    fields = {number: value for number, value in model.fields.items() if number != 5} | changed
    footer = encode_struct(dict(sorted(fields.items())))
    return pa.py_buffer(b"".join((*content, footer, len(footer).to_bytes(4, "little") + MAGIC)))


def _moved(chunk: ColumnChunk, start: int) -> Struct:
    """Return the ColumnMetaData of a chunk for another position."""
    fields = {number: value for number, value in chunk.metadata.items() if number not in _UNMOVED_FIELDS}
    for number in (9, 11):
        if number in fields:
            fields[number] = (I64, fields[number][1] - chunk.start + start)
    return fields


def _row_group(group: Struct, most: int) -> RowGroup:
    rows = _number_of(group, 3, I64)
    if rows < 0:
        raise CorruptError(f"a row group of {rows} rows")
    return RowGroup(rows, tuple(_column_chunk(column, most) for column in _structs(group, 1)))


def _column_chunk(column: Struct, most: int) -> ColumnChunk:
    """Return a column chunk; `most` is the offset of the footer."""
    if 8 in column or 9 in column:
        raise NotMovableError("columns are encrypted")
    if column.get(1, (0, b""))[1]:
        raise NotMovableError("columns lie in other files")
    if 3 not in column:
        raise NotMovableError("the footer doesn't have what is known of a column")
    metadata = _struct_of(column, 3)
    _number_of(metadata, 4, I32)
    length, start, values = _number_of(metadata, 7, I64), _number_of(metadata, 9, I64), _number_of(metadata, 5, I64)
    if min(length, values, _number_of(metadata, 6, I64)) < 0 or _list(metadata, 3, BINARY) == []:
        raise CorruptError("what a footer says of a column can't be")
    for page in _list(metadata, 13, STRUCT) if 13 in metadata else []:
        _number_of(page, 1, I32)
        _number_of(page, 2, I32)
    if not length and not values:  # of a row group without rows, whose positions mean nothing
        raise NotMovableError("a row group has no rows")
    if 10 in metadata:
        raise NotMovableError("a column has an index page")
    if 11 in metadata:
        dictionary = _number_of(metadata, 11, I64)
        if not len(MAGIC) <= dictionary < start < dictionary + length:  # some writers write 0 for none
            raise NotMovableError(f"a dictionary at {dictionary}, its data at {start}")
        start = dictionary
    if start < len(MAGIC) or start + length > most:
        raise CorruptError(f"{length} bytes of a column at {start}: the footer begins at {most}")
    return ColumnChunk(metadata, start, length)


def _leaves(schema: Sequence[Struct]) -> list[tuple[str, ...]]:
    """Return the paths of leaf columns; in the schema parents precede their children."""
    leaves: list[tuple[str, ...]] = []
    open_parents: list[tuple[tuple[str, ...], int]] = []
    for element in schema:
        name = element[4][1]
        if not isinstance(name, bytes):
            raise CorruptError("a column's name is no text")
        parents: tuple[str, ...] = ()
        while open_parents and not open_parents[-1][1]:
            open_parents.pop()
        if open_parents:
            parents, left = open_parents.pop()
            open_parents.append((parents, left - 1))
        whole = (*parents, name.decode("utf-8", "replace")) if element is not schema[0] else ()
        children = _number_of(element, 5, I32) if 5 in element else 0
        if children > 0:
            open_parents.append((whole, children))
        elif element is not schema[0]:
            leaves.append(whole)
    return leaves


def _structs(fields: Struct, number: int) -> list[Struct]:
    return _list(fields, number, STRUCT)


def _list(fields: Struct, number: int, kind: int) -> list[Any]:
    value = fields[number][1]
    if not isinstance(value, Items) or (value.values and value.kind != kind):
        raise CorruptError(f"field {number} of a Parquet footer is no list of type {kind}")
    return value.values


def _struct_of(fields: Struct, number: int) -> Struct:
    """Return a struct field; raises KeyError if it is missing, CorruptError if it has another type."""
    kind, value = fields[number]
    if kind != STRUCT:
        raise CorruptError(f"field {number} of a Parquet struct has type {kind}, and {STRUCT} is expected")
    found: Struct = value
    return found


def _number_of(fields: Struct, number: int, expected: int) -> int:
    """Return a number field of a type; raises KeyError if it is missing, CorruptError if it has another type."""
    kind, value = fields[number]
    if kind != expected:
        raise CorruptError(f"field {number} of a Parquet struct has type {kind}, and {expected} is expected")
    return int(value)


Elements: TypeAlias = "tuple[Struct, ...]"
"""The schema elements of one top-level column: itself, and what it encloses, depth first."""

_NAME, _REPETITION, _CHILDREN, _FIELD_ID = 4, 3, 5, 9
_CREATED_BY, _SCHEMA, _ORDERS = 6, 2, 7
_STATISTICS, _BY_ORDER = 12, {3, 4, 5, 6, 7, 8}
"""Statistics of a chunk; of these the fields that follow column orders. The deprecated bounds follow none."""


def schema_columns(footer: ParquetFooter, *, path: str | None = None) -> dict[str, Elements]:
    """Return the elements of each top-level column, by name, in their order.

    Args:
        footer: a footer.
        path: path of the file, for errors.

    Raises:
        CorruptError: the schema is no tree, or a name comes twice.
    """
    elements: list[Struct] = footer.fields[_SCHEMA][1].values[1:]
    found: dict[str, Elements] = {}
    at = 0
    while at < len(elements):
        end = _end(elements, at, path)
        name = elements[at][_NAME][1].decode("utf-8", "replace")
        if name in found:
            raise CorruptError(f"column {name!r} comes twice in a Parquet schema", path=path)
        found[name] = tuple(elements[at:end])
        at = end
    return found


def is_stored_alike(one: Elements, other: Elements) -> bool:
    """Return whether two columns are stored in the same types; one may be required where the other is optional."""
    return [_told(each, at) for at, each in enumerate(one)] == [_told(each, at) for at, each in enumerate(other)]


def with_columns(model: ParquetFooter, columns: Sequence[Elements], created_by: str) -> ParquetFooter:
    """Return a footer without row groups for other columns, as if another program had written the file.

    Args:
        model: footer of a file with as many leaf columns.
        columns: the columns in their order.
        created_by: the program, by which readers judge statistics and pages.
    """
    root = model.fields[_SCHEMA][1].values[0]
    elements = [each for own in columns for each in without_field_ids(own)]
    changed: Struct = {
        _SCHEMA: (LIST, Items(STRUCT, [root, *elements])),
        _CREATED_BY: (BINARY, created_by.encode()),
    }
    return replace(model, fields=model.fields | changed, groups=())


def renamed(column: Elements, name: str) -> Elements:
    """Return a column without children under another name."""
    return ({**column[0], _NAME: (BINARY, name.encode())},)


def without_field_ids(column: Elements) -> Elements:
    """Return a column's elements without the ids that some writers give columns."""
    return tuple({number: value for number, value in each.items() if number != _FIELD_ID} for each in column)


def has_column_orders(footer: ParquetFooter) -> bool:
    """Return whether the file says by which order its bounds were found; without it they mean nothing."""
    return _ORDERS in footer.fields


def with_known_bounds(chunk: ColumnChunk, *, ordered: bool) -> ColumnChunk:
    """Return a chunk with only those statistics whose meaning is certain.

    Args:
        chunk: a chunk of any writer.
        ordered: whether its file has column orders.
    """
    kind, known = chunk.metadata.get(_STATISTICS, (STRUCT, {}))
    kept = {number: value for number, value in known.items() if number in _BY_ORDER} if kind == STRUCT else {}
    if not ordered:
        kept = {number: value for number, value in kept.items() if number in {3, 4}}
    metadata = {number: value for number, value in chunk.metadata.items() if number != _STATISTICS}
    if kept:
        metadata[_STATISTICS] = (STRUCT, kept)
    return replace(chunk, metadata=dict(sorted(metadata.items())))


def _told(element: Struct, at: int) -> Mapping[int, object]:
    """Return what an element says of stored values; of the top-level column without its name's and rows' freedom."""
    skipped = {_FIELD_ID, _REPETITION} if at == 0 and element.get(_REPETITION, (0, 0))[1] in {0, 1} else {_FIELD_ID}
    return {number: value for number, value in element.items() if number not in skipped}


def _end(elements: Sequence[Struct], at: int, path: str | None) -> int:
    """Return the place after a column's elements."""
    left = 1
    while left:
        if at >= len(elements):
            raise CorruptError("a Parquet schema ends within a column", path=path)
        left += elements[at].get(_CHILDREN, (0, 0))[1] - 1
        at += 1
    return at
