"""Parquet files: Hudi's entries and statistics in footers, and content with a checksum on each page.

All Parquet is written with checksums here, and verified when read. A flipped bit in a page that holds one (CRC-32 in
the page header, of the page as it is stored) is an error and never another value. Files of writers that make none are
read as they are.

Source: HoodieBloomFilterWriteSupport.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.bloom import DYNAMIC_V0, SIMPLE, BloomFilter

MIN_RECORD_KEY: Final = b"hoodie_min_record_key"
"""Least record key of the file."""
MAX_RECORD_KEY: Final = b"hoodie_max_record_key"
"""Greatest record key of the file."""
BLOOM_FILTER: Final = b"org.apache.hudi.bloomfilter"
"""Bloom filter over the record keys, base64."""
OLD_BLOOM_FILTER: Final = b"com.uber.hoodie.bloomfilter"
"""The same in files of old."""
BLOOM_FILTER_TYPE: Final = b"hoodie_bloom_filter_type_code"
"""Type of the bloom filter; absent when it is SIMPLE."""
AVRO_SCHEMA: Final = b"parquet.avro.schema"
"""Avro schema of the file, meta fields included."""
NAN_FREE_COLUMNS: Final = b"pudi.columns.without.nan"
"""Floating-point columns without NaN, one a line: pudi's own key, since Arrow's statistics leave NaN out unsaid."""
WRITER_MODEL: Final = b"writer.model.name"
"""The writer of the file: `avro`, or absent."""


@dataclass(frozen=True, slots=True)
class FooterKeys:
    """Hudi's entries in the footer of a base file; each may be missing.

    Attributes:
        min_key: least record key.
        max_key: greatest record key.
        avro_schema: JSON of the file's Avro schema, meta fields included.
        has_bloom: whether there is a bloom filter (`read_bloom_filter` decodes it).
    """

    min_key: str | None
    max_key: str | None
    avro_schema: str | None
    has_bloom: bool


def read_footer_keys(metadata: pq.FileMetaData, *, path: str | None = None) -> FooterKeys:
    """Read Hudi's entries from a footer.

    Args:
        metadata: footer of the file.
        path: path of the file, for errors.

    Raises:
        CorruptError: a text that is not UTF-8.
    """
    found = _key_values(metadata)
    return FooterKeys(
        min_key=_text(found, MIN_RECORD_KEY, path),
        max_key=_text(found, MAX_RECORD_KEY, path),
        avro_schema=_text(found, AVRO_SCHEMA, path),
        has_bloom=BLOOM_FILTER in found or OLD_BLOOM_FILTER in found,
    )


def read_key_range(metadata: pq.FileMetaData, *, path: str | None = None) -> tuple[str, str] | None:
    """Least and greatest record key by the footer; None where it doesn't say. Arguments, errors: `read_footer_keys`."""
    keys = read_footer_keys(metadata, path=path)
    return None if keys.min_key is None or keys.max_key is None else (keys.min_key, keys.max_key)


def read_bloom_filter(metadata: pq.FileMetaData, *, path: str | None = None) -> BloomFilter | None:
    """Return the bloom filter of the record keys; None without one.

    Args:
        metadata: footer of the file.
        path: path of the file, for errors.

    Raises:
        CorruptError: it can't be decoded.
        NotSupportedError: a type or a hash function that pudi doesn't know.
    """
    return bloom_filter_in(_key_values(metadata), path=path)


def bloom_filter_in(found: Mapping[bytes, bytes], *, path: str | None = None) -> BloomFilter | None:
    """Return the bloom filter among the key-value metadata of a file of any format; raises as `read_bloom_filter`."""
    text = found.get(BLOOM_FILTER, found.get(OLD_BLOOM_FILTER))
    if text is None:
        return None
    kind = found.get(BLOOM_FILTER_TYPE, SIMPLE.encode())
    if kind.upper() == DYNAMIC_V0.encode():
        return BloomFilter.from_base64(text, DYNAMIC_V0, path=path)
    if kind.upper() == SIMPLE.encode():
        return BloomFilter.from_base64(text, SIMPLE, path=path)
    raise NotSupportedError(f"bloom filter of type {kind!r}: pudi knows {SIMPLE} and {DYNAMIC_V0}", path=path)


def read_nan_free(metadata: pq.FileMetaData) -> frozenset[str]:
    """Floating-point columns that a footer says have no NaN."""
    return frozenset(_key_values(metadata).get(NAN_FREE_COLUMNS, b"").decode("utf-8", "replace").split("\n"))


def footer_metadata(
    avro_schema_json: str | None,
    min_key: str | None,
    max_key: str | None,
    bloom: BloomFilter | None,
    nan_free: Sequence[str] = (),
) -> dict[bytes, bytes]:
    """Key-value metadata for the footer of a base file, as Hudi's Avro writer fills it.

    Args:
        avro_schema_json: Avro schema of the file, meta fields included; None leaves it out.
        min_key: smallest record key in the order of Java's `String.compareTo` (UTF-16 code units), which Hudi's bloom
            index uses (BloomIndexFileInfo); None (no rows, no meta fields, unknown) omits the range.
        max_key: greatest record key, by the same order.
        bloom: filter over the record keys; None leaves it out.
        nan_free: floating-point columns without NaN, so that their bounds can be trusted.
    """
    metadata: dict[bytes, bytes] = {}
    if avro_schema_json is not None:
        metadata |= {AVRO_SCHEMA: avro_schema_json.encode(), WRITER_MODEL: b"avro"}
    if min_key is not None and max_key is not None:
        metadata |= {MIN_RECORD_KEY: min_key.encode(), MAX_RECORD_KEY: max_key.encode()}
    if bloom is not None:
        metadata[BLOOM_FILTER] = bloom.to_base64().encode()
        if bloom.kind != SIMPLE:
            metadata[BLOOM_FILTER_TYPE] = bloom.kind.encode()
    if nan_free:
        metadata[NAN_FREE_COLUMNS] = "\n".join(nan_free).encode()
    return metadata


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column in a row group: bounds, not exact values.

    Attributes:
        minimum: no value is less; None when unknown or when all values are null.
        maximum: no value is greater; None with `minimum`. Writers may shorten long texts, so neither need occur.
        null_count: number of nulls; None when unknown.
        num_rows: rows of the row group.
        has_nan: False where it's sure that no value is NaN, which bounds leave out; None when unknown.
    """

    minimum: Any | None
    maximum: Any | None
    null_count: int | None
    num_rows: int
    has_nan: bool | None = None


def column_places(metadata: pq.FileMetaData) -> dict[str, int]:
    """Numbers of the leaves that are top-level columns, neither lists, maps nor structs, by name."""
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    return {leaf.name: number for number, leaf in reversed(list(enumerate(leaves))) if _is_top_level(leaf, leaf.name)}


def column_statistics(
    metadata: pq.FileMetaData, column: str, places: Mapping[str, int] | None = None
) -> list[ColumnStatistics | None]:
    """Return the statistics of a primitive top-level column for each row group.

    Only trusted bounds are returned: pyarrow drops deprecated ones whose order is undefined for the type; a NaN, an
    unknown order, or a value that doesn't decode turns them into None.

    Args:
        metadata: footer of the file.
        column: name of the column.
        places: `column_places` of the footer, for callers that ask for several columns.

    Returns:
        One entry for each row group; None for unknown statistics (always, if the column does not exist).
    """
    index = (column_places(metadata) if places is None else places).get(column)
    if index is None:
        return [None] * metadata.num_row_groups
    floating = metadata.schema.column(index).physical_type in {"FLOAT", "DOUBLE"}
    has_nan = False if floating and not _may_hold_nan(metadata, column) else None
    return [_group_statistics(metadata.row_group(group), index, has_nan) for group in range(metadata.num_row_groups)]


def _may_hold_nan(metadata: pq.FileMetaData, column: str) -> bool:
    # parquet-mr makes NaN the maximum, and so gives no bounds where there is one (DoubleStatistics, by Double.compare)
    if str(metadata.created_by).startswith("parquet-mr"):
        return False
    return column not in read_nan_free(metadata)


def _is_top_level(column: pq.ColumnSchema, name: str) -> bool:
    return bool(column.path == name and column.name == name and column.max_repetition_level == 0)


def _group_statistics(group: pq.RowGroupMetaData, index: int, has_nan: bool | None) -> ColumnStatistics | None:
    statistics = group.column(index).statistics
    if statistics is None:
        return None
    minimum, maximum = _bounds(statistics)
    nulls = statistics.null_count
    if nulls is not None and not 0 <= nulls <= group.num_rows:
        return None
    return ColumnStatistics(minimum, maximum, nulls, group.num_rows, has_nan)


def _bounds(statistics: Any) -> tuple[Any, Any] | tuple[None, None]:
    if not statistics.has_min_max:
        return None, None
    try:
        minimum, maximum = statistics.min, statistics.max
        # False too for NaN and for bounds in the wrong order.
        ordered = bool(minimum <= maximum)
    except (ValueError, TypeError, OverflowError, NotImplementedError):
        return None, None
    return (minimum, maximum) if ordered else (None, None)


def _key_values(metadata: pq.FileMetaData) -> Mapping[bytes, bytes]:
    return cast("Mapping[bytes, bytes]", metadata.metadata or {})


def _text(found: Mapping[bytes, bytes], key: bytes, path: str | None) -> str | None:
    value = found.get(key)
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CorruptError(f"footer's {key.decode()} is not UTF-8: {error}", path=path) from error


PARQUET_ERRORS = (pa.ArrowException, OSError)
"""Errors that pyarrow raises for bytes that aren't Parquet or a page with a wrong checksum."""


def open_parquet(
    source: Any,
    *,
    dictionary: Sequence[str] = (),
    pre_buffer: bool = True,
    metadata: pq.FileMetaData | None = None,
) -> pq.ParquetFile:
    """A Parquet file opened for reading.

    Args:
        source: what pyarrow reads from: an opened file or a buffer.
        dictionary: text columns to read dictionary encoded.
        pre_buffer: whether pyarrow fetches near ranges of the source together.
        metadata: the footer, where it's known.

    Opening it, and each read, raises one of `PARQUET_ERRORS` where the bytes are damaged.
    """
    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=pre_buffer,
        read_dictionary=list(dictionary),
        page_checksum_verification=True,
    )


def read_groups(
    file: pq.ParquetFile, groups: Sequence[int] | None, columns: Sequence[str] | None, *, use_threads: bool = True
) -> pa.Table:
    """Rows of row groups, however much text there is.

    Args:
        file: the file.
        groups: the row groups; None for all.
        columns: top-level columns; None for all.
        use_threads: whether pyarrow reads columns side by side.

    Raises one of `PARQUET_ERRORS` where the bytes are damaged.
    """
    groups = list(range(file.metadata.num_row_groups)) if groups is None else list(groups)
    columns = None if columns is None else list(columns)
    try:
        return file.read_row_groups(groups, columns=columns, use_threads=use_threads)
    except pa.ArrowNotImplementedError:  # texts in lists, maps or structs that one array has no room for
        for rows in _FEWER_ROWS:
            with suppress(pa.ArrowNotImplementedError):
                parts = file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=use_threads)
                return pa.Table.from_batches(list(parts))
        raise


_FEWER_ROWS = (1 << 16, 1 << 11, 1 << 6, 1)


def parquet_writer(sink: Any, schema: pa.Schema, codec: str, **settings: Any) -> pq.ParquetWriter:
    """A writer of a Parquet file.

    Args:
        sink: where the bytes go.
        schema: the columns, in physical types.
        codec: compression codec by Hudi's name (`zstd`, `gzip`, `snappy`, `uncompressed`).
        settings: more of `pyarrow.parquet.ParquetWriter`'s.
    """
    compression = "none" if codec == "uncompressed" else codec
    return pq.ParquetWriter(
        sink, schema, compression=compression, store_schema=False, write_page_checksum=True, **settings
    )


def damaged_columns(
    file: pq.ParquetFile, columns: Collection[str] | None, groups: Sequence[int] | None = None
) -> list[str]:
    """Return the columns that can't be read, after a read of several failed: reads each one alone.

    Args:
        file: the file.
        columns: the top-level columns that were read; None for all.
        groups: the row groups that were; None for all.
    """
    wanted = list(range(file.metadata.num_row_groups)) if groups is None else list(groups)
    return [
        name
        for name in file.schema_arrow.names
        if (columns is None or name in columns) and not _is_readable(file, name, wanted)
    ]


def _is_readable(file: pq.ParquetFile, column: str, groups: list[int]) -> bool:
    try:
        read_groups(file, groups, [column], use_threads=False)
    except PARQUET_ERRORS:
        return False
    return True
