"""Open base files and compare their sizes with the known ones, which shows most replaced files."""

from __future__ import annotations

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup.slices import BaseFile
from pudi.storage import InputFile, open_input


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
