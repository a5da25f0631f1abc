"""Limit the memory of merging, and name the folder for what exceeds it (HoodieMemoryConfig of 1.2)."""

from __future__ import annotations

from dataclasses import replace

from pudi.config.option import Declare, OptionsView, Scope

_option = Declare(Scope.READ)
_LIMIT = "hoodie.memory.merge.max.size"
_MOST = 512 << 20
"""Maximum bytes of one column per array, since offsets have 31 bits."""


class MergeMemory(OptionsView):
    """Memory that merging one slice may take; picklable."""

    __slots__ = ()

    limit = _option(
        _LIMIT,
        "Bytes of memory for merging one file slice, in addition to its largest log block and row group. Larger "
        "merges use a temporary file. Each thread or Spark task merges one slice at a time. 256 KiB is the least in "
        "effect; Hudi takes any number, and so does pudi.",
        default=1 << 30,
    )
    compaction = _option(
        "hoodie.memory.compaction.max.size",
        f"Bytes of memory for merging one file slice in a compaction; {_LIMIT} by default.",
        kind=int,
    )
    spillable_map_path = _option(
        "hoodie.memory.spillable.map.path",
        "Folder for temporary files of merges, on each machine; the system's temporary folder by default.",
    )

    @property
    def share(self) -> int:
        """Bytes of records in memory: merging holds up to four copies of them, or of parts of them."""
        return max(1 << 16, min(self.limit // 4, _MOST))

    @property
    def folder(self) -> str | None:
        """Return the folder for records beyond that memory; None for the system's temporary folder."""
        return self.spillable_map_path or None

    @property
    def of_compaction(self) -> MergeMemory:
        """The same for a compaction."""
        return self if self.compaction is None else replace(self, given={**self.given, _LIMIT: self.compaction})
