"""What lies on disk, for tests that say that nothing changed there."""

from __future__ import annotations

import hashlib
from pathlib import Path


def tree(path: Path) -> dict[str, str]:
    """Every file below a folder: relative path → digest of its content."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def base_files(path: Path) -> list[Path]:
    """A table's Parquet files, in order of their instants."""
    found = (file for file in path.rglob("*.parquet") if ".hoodie" not in file.relative_to(path).parts)
    return sorted(found, key=lambda file: file.stem.rpartition("_")[2])
