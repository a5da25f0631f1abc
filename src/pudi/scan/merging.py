"""Choose what a scan of a merge-on-read table leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pudi.filegroup import FileSlice


def base_files_only(slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices of a read-optimized query: their base files, none where there are log files alone."""
    return [replace(s, logs=()) if s.logs else s for s in slices if s.base is not None]
