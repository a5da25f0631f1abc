"""Byte ranges and footers of opened Parquet files, for column chunks to be copied."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pudi.errors import CorruptError, naming
from pudi.format.parquet_chunks import FOOTER_TAIL, ParquetFooter, decode_footer, footer_length
from pudi.storage import InputFile, prefetch


def read_ranges(source: InputFile, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return byte ranges `(start, length)` of a file, near ones fetched together.

    Raises:
        OSError: the file can't be read.
    """
    prefetch(source, ranges)
    found = []
    for start, length in ranges:
        source.seek(start)
        found.append(bytes(source.read(length)))
    return found


def read_chunk_footer(source: InputFile, path: str, root: str) -> ParquetFooter:
    """Return the footer of a file; raises as `decode_footer`, and OSError.

    Args:
        source: the file.
        path: its path, for errors.
        root: where it is, for errors.
    """
    size = source.seek(0, os.SEEK_END)
    with naming(path, root):
        length = footer_length(read_ranges(source, [(size - FOOTER_TAIL, FOOTER_TAIL)])[0])
        start = size - FOOTER_TAIL - length
        if start < 0:
            raise CorruptError(f"a footer of {length} bytes in a file of {size}")
        return decode_footer(read_ranges(source, [(start, length)])[0], size)
