"""HFiles, version 3, as Hudi's metadata tables have them: sorted keys with values, and an index of their blocks."""

from __future__ import annotations

from pudi.format.hfile_read import ENTRIES, HFileReader, open_bytes
from pudi.format.hfile_write import BLOCK_BYTES, BLOOM_BLOCK, encode_hfile

__all__ = ["BLOCK_BYTES", "BLOOM_BLOCK", "ENTRIES", "HFileReader", "encode_hfile", "open_bytes"]
