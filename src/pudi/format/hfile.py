"""HFiles, version 3, as Hudi's metadata tables have them: sorted keys with values, and an index of their blocks."""

from __future__ import annotations

from pudi.format.hfile_read import ENTRIES, HFileReader, open_bytes

__all__ = ["ENTRIES", "HFileReader", "open_bytes"]
