"""Temporary files of this machine, for what doesn't fit in memory: a folder goes in, an open file out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from pudi.config import MergeMemory
from pudi.errors import RefusedError


def temporary_file(folder: str | None) -> BinaryIO:
    """Open a file without a name; it is deleted when it is closed or the process ends.

    Args:
        folder: where; None for the system's temporary folder.

    Raises:
        RefusedError: the folder does not exist or is full.
    """
    with temporary_errors(folder):
        return cast("BinaryIO", tempfile.TemporaryFile(dir=folder, prefix="pudi-"))


@contextmanager
def temporary_errors(folder: str | None) -> Iterator[None]:
    """Errors of the system while a temporary file is used, as pudi's."""
    try:
        yield
    except OSError as error:
        raise RefusedError(
            "what doesn't fit in memory while a file slice is merged can't be kept in "
            f"{folder or tempfile.gettempdir()}: {error}; set {MergeMemory.spillable_map_path} to a folder with room, "
            f"or {MergeMemory.limit} higher"
        ) from error
