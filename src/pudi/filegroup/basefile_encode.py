"""Encode rows of base files as Parquet: choose dictionaries and row group sizes, and encode equal columns once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.format import BloomOptions
from pudi.format.parquet import parquet_writer as page_writer
from pudi.format.parquet_chunks import MovedChunk, ParquetFooter, assemble, footer_in, moved_groups
from pudi.schema import COMMIT_SEQNO, RECORD_KEY

_SAMPLE_ROWS = 5_000
_SAMPLE_REPEATS = 0.8
"""A column gets a dictionary when a sample of it has fewer distinct values than this share of its rows."""

MOST_GROUP_ROWS = 128 << 10
"""Maximum rows of a row group: one without a changed record is copied when its file is rewritten."""

_LEAST_ASSEMBLED = 20_000
"""Number of rows above which making a footer is faster than encoding a column twice, including comparing the keys."""

MakeFooter: TypeAlias = Callable[["tuple[str, str] | None"], Mapping[bytes, bytes]]
"""Makes the key-value metadata of a base file from its minimum and maximum record key, if these are known."""


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """Options of base files.

    Attributes:
        codec: compression codec by Hudi's name (`zstd`, `gzip`, `snappy`, `uncompressed`).
        row_group_bytes: uncompressed size at which a row group is closed (hoodie.parquet.block.size).
        page_bytes: size of data pages (hoodie.parquet.page.size).
        dictionary: whether columns may be dictionary encoded (hoodie.parquet.dictionary.enabled).
        bloom: bloom filter of record keys in the footer; None writes none.
    """

    codec: str = "zstd"
    row_group_bytes: int = 120 << 20
    page_bytes: int = 1 << 20
    dictionary: bool = True
    bloom: BloomOptions | None = None


def encode_parquet(
    rows: pa.Table,
    options: ParquetOptions,
    footer: Mapping[bytes, bytes] | None = None,
    *,
    most_rows: int | None = None,
) -> pa.Buffer:
    """Encode rows as a Parquet file.

    Args:
        rows: meta fields first, then the table's columns; low-cardinality ones may be dictionary encoded.
        options: the options; the bloom filter is part of the footer.
        footer: key-value metadata; None for none.
        most_rows: maximum rows of a row group; None to use the options.
    """
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, rows, options) as writer:
        writer.write_table(rows, row_group_size=most_rows or group_rows(rows, options))
        if footer:
            writer.add_key_value_metadata(dict(footer))
    return sink.getvalue()


def parquet_writer(sink: pa.NativeFile, rows: pa.Table, options: ParquetOptions) -> pq.ParquetWriter:
    """Open a writer for rows like the given ones."""
    return page_writer(
        sink,
        rows.schema.with_metadata(None),
        options.codec,
        data_page_size=options.page_bytes,
        use_dictionary=_repeating(rows) if options.dictionary else False,
        write_statistics=[name for name in rows.schema.names if name != COMMIT_SEQNO],
        coerce_timestamps="us",
    )


def group_rows(rows: pa.Table, options: ParquetOptions) -> int:
    """Maximum rows of a row group."""
    per_row: int = max(1, rows.nbytes // max(1, rows.num_rows))
    return min(MOST_GROUP_ROWS, max(1024, options.row_group_bytes // per_row))


def encode_base_file(rows: pa.Table, options: ParquetOptions, footer: MakeFooter) -> pa.Buffer:
    """Encode rows as a base file.

    Args:
        rows: all columns of a base file.
        options: the options of the file.
        footer: makes the key-value metadata; gets the minimum and maximum record key if they are known.
    """
    if rows.num_rows < _LEAST_ASSEMBLED or RECORD_KEY not in rows.column_names:
        return encode_parquet(rows, options, footer(None))
    groups = encoded_groups(rows, options)
    return assemble(model_footer(rows.schema, options), groups, footer(_key_range(groups)))


def _key_range(groups: list[tuple[int, list[MovedChunk]]]) -> tuple[str, str] | None:
    """Return minimum and maximum record key from the statistics of the key's chunks; None if they lack them."""
    known = [moved.chunk.bounds for _, chunks in groups for moved in chunks if moved.chunk.path == (RECORD_KEY,)]
    spans = [bounds for bounds in known if bounds is not None]
    if not spans or len(spans) < len(groups):
        return None
    return min(low for low, _ in spans).decode(), max(high for _, high in spans).decode()


def encoded_groups(rows: pa.Table, options: ParquetOptions) -> list[tuple[int, list[MovedChunk]]]:
    """Encode rows as row groups; columns with the record key's values are encoded once.

    Args:
        rows: all columns of a base file.
        options: the options of the file.

    Returns:
        For each row group its number of rows and its chunks in the order of the columns.
    """
    repeats = set(_repeating_key(rows))
    own = rows.select([name for name in rows.column_names if name not in repeats])
    groups = moved_groups(encode_parquet(own, options, most_rows=group_rows(rows, options)))
    return [(count, _with_repeats(chunks, rows.column_names, repeats)) for count, chunks in groups]


def _with_repeats(chunks: list[MovedChunk], names: list[str], repeats: set[str]) -> list[MovedChunk]:
    by_name: dict[str, list[MovedChunk]] = {}
    for moved in chunks:
        by_name.setdefault(moved.chunk.path[0], []).append(moved)
    for name in repeats:
        key = by_name[RECORD_KEY][0]
        by_name[name] = [MovedChunk(key.chunk.named(name), key.content)]
    return [moved for name in names for moved in by_name[name]]


@lru_cache(maxsize=32)
def model_footer(schema: pa.Schema, options: ParquetOptions) -> ParquetFooter:
    """Return the footer of a file with some columns and without row groups."""
    sink = pa.BufferOutputStream()
    parquet_writer(sink, pa.table([pa.array([], f.type) for f in schema], names=schema.names), options).close()
    return footer_in(sink.getvalue())


def _repeating_key(rows: pa.Table) -> list[str]:
    """Return columns with the same texts as the record key, such as a single key column."""
    key, like = rows[RECORD_KEY], rows.schema.field(RECORD_KEY)
    others = [f for f in rows.schema if f.name not in {RECORD_KEY, COMMIT_SEQNO}]
    return [f.name for f in others if f.type == like.type and f.nullable == like.nullable and rows[f.name].equals(key)]


def _repeating(rows: pa.Table) -> list[str]:
    """Return columns worth a dictionary, by a sample: trying one on unique values takes a third of the writing time."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    limit = _SAMPLE_REPEATS * sample.num_rows
    flat = [
        f
        for f in rows.schema
        if f.name not in {RECORD_KEY, COMMIT_SEQNO}
        and not pa.types.is_nested(f.type)
        and not pa.types.is_boolean(f.type)
    ]
    return [
        f.name
        for f in flat
        if pa.types.is_dictionary(f.type) or pc.count_distinct(sample[f.name], mode="all").as_py() <= limit
    ]


def has_above_ffff(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a text has a character above U+FFFF, which UTF-8 and UTF-16 order differently."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return any(_greatest_byte(chunk) >= _ABOVE_FFFF for chunk in chunks)


_ABOVE_FFFF = 0xF0
"""The smallest first byte of characters above U+FFFF in UTF-8; it occurs in no other character."""


def _greatest_byte(texts: pa.Array) -> int:
    texts = texts.drop_null().cast(pa.large_string())
    _, offsets, content = texts.buffers()
    if content is None or not len(texts):
        return 0
    places = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    used = np.frombuffer(content, dtype=np.uint8)[places[0] : places[-1]]
    return int(used.max()) if len(used) else 0


def nan_free(rows: pa.Table) -> list[str]:
    """Return floating-point columns without NaN."""
    floats = [f.name for f in rows.schema if pa.types.is_floating(f.type)]
    return [name for name in floats if not pc.any(pc.is_nan(rows[name])).as_py()]
