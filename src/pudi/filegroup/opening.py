"""Open base files: compare their sizes with the known ones, which shows most replaced files, and read their footers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pudi.context import Storage
from pudi.errors import CorruptError, naming
from pudi.filegroup.slices import BaseFile
from pudi.format.parquet_chunks import FOOTER_TAIL, ParquetFooter, decode_footer, footer_length
from pudi.storage import InputFile, open_input, prefetch


def open_whole(storage: Storage, base: BaseFile) -> InputFile:
    """Open a base file and compare its size with the stated one.

    Args:
        storage: the table's files.
        base: the file, with the size that the metadata table or a listing gives it; 0 for an unknown one.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it has another size.
    """
    source = open_input(storage, base.path, base.size)
    size = getattr(source, "size", None)
    if size is not None:
        try:
            check_size_of(storage, base, size())
        except CorruptError:
            source.close()
            raise
    return source


def check_size_of(storage: Storage, base: BaseFile, found: int) -> None:
    """Compare the size of a base file with its stated sizes.

    Args:
        storage: the table's files.
        base: the file, as of `open_whole`.
        found: its bytes.

    Raises:
        CorruptError: it has another size.
    """
    if base.size and found != base.size:
        raise CorruptError(
            f"the base file isn't the one that was written: it has {found} bytes, but {base.size} are stated; "
            "restore the file from a copy, or roll back its commit and all later ones",
            table=storage.root,
            path=base.path,
            instant=base.instant,
        )


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
