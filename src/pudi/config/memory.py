"""How much memory merging may take, and where it goes on when that isn't enough (HoodieMemoryConfig of 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pudi.config.option import Option, Scope, Value

_LIMIT, _COMPACTION = "hoodie.memory.merge.max.size", "hoodie.memory.compaction.max.size"
_FOLDER = "hoodie.memory.spillable.map.path"
_DEFAULT, _LEAST = 1 << 30, 1 << 20
_setting = partial(Option, scope=Scope.READ)

MEMORY_OPTIONS: tuple[Option, ...] = (
    _setting(
        key=_LIMIT,
        doc="Bytes of memory for merging one file slice, its largest log block and row group apart; what needs more "
        "goes through a temporary file. Slices are merged side by side, as many as there are threads or Spark tasks.",
        kind=int,
        default=_DEFAULT,
        minimum=_LEAST,
    ),
    _setting(
        key=_COMPACTION,
        doc=f"The same for compactions; {_LIMIT} where it isn't given.",
        kind=int,
        minimum=_LEAST,
    ),
    _setting(
        key=_FOLDER,
        doc="Folder for those temporary files, on each machine that merges; the system's where it isn't given.",
    ),
)
"""Settings of memory, for readers and writers alike."""

MEMORY_KEYS: frozenset[str] = frozenset(option.key for option in MEMORY_OPTIONS)
"""Their keys."""

_MOST = 512 << 20
"""No more of one column than this is put in one array, whose offsets have 31 bits."""


@dataclass(frozen=True, slots=True)
class MergeMemory:
    """How much memory merging one slice may take; picklable.

    Attributes:
        limit: bytes.
        compaction: bytes, in compactions; None for the same.
        folder: where to go on when that isn't enough; None for the system's temporary folder.
    """

    limit: int = _DEFAULT
    compaction: int | None = None
    folder: str | None = None

    @property
    def share(self) -> int:
        """Bytes of records held at once: there are up to four copies of them, or of parts of them, while merging."""
        return max(1 << 16, min(self.limit // 4, _MOST))

    @property
    def of_compaction(self) -> MergeMemory:
        """The same for a compaction."""
        return self if self.compaction is None else replace(self, limit=self.compaction)

    @classmethod
    def of(cls, given: Mapping[str, Value]) -> MergeMemory:
        """From values by canonical key; those of other settings are passed over."""
        limit, compaction, folder = (given.get(key) for key in (_LIMIT, _COMPACTION, _FOLDER))
        return cls(
            limit if isinstance(limit, int) else _DEFAULT,
            compaction if isinstance(compaction, int) else None,
            str(folder) if folder else None,
        )
