"""The result of a catalog sync."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """Result of a sync for one table of a catalog.

    Attributes:
        name: database and name.
        created: whether it was registered for the first time, or anew.
        columns_changed: whether its columns changed.
        properties_changed: whether other properties than the times of the sync changed.
        added: number of partitions that were added.
        moved: number of partitions that were given another location.
        dropped: number of partitions that were dropped.
    """

    name: str
    created: bool = False
    columns_changed: bool = False
    properties_changed: bool = False
    added: int = 0
    moved: int = 0
    dropped: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether anything but the times of the sync changed."""
        return self.created or self.columns_changed or self.properties_changed or self.partitions_changed

    @property
    def partitions_changed(self) -> bool:
        """Whether partitions changed."""
        return bool(self.added or self.moved or self.dropped)

    def __str__(self) -> str:
        """Format as a few words."""
        said = ["created"] if self.created else []
        said += ["columns changed"] if self.columns_changed and not self.created else []
        said += ["properties changed"] if self.properties_changed and not self.created else []
        counts = {"added": self.added, "moved": self.moved, "dropped": self.dropped}
        said += [f"{count:,} partition{'' if count == 1 else 's'} {what}" for what, count in counts.items() if count]
        return f"{self.name}: {', '.join(said) or 'nothing to change'}"


@dataclass(frozen=True, slots=True)
class SyncResult:
    """A completed catalog sync.

    Attributes:
        catalog: address of the catalog.
        tables: the tables that stand for the Hudi table there.
        instant: requested time of the newest commit that they show; None before the first.
        complete: whether all partitions were compared, not only those that changed since the last sync.
        duration: seconds.
    """

    catalog: str
    tables: tuple[SyncedTable, ...]
    instant: str | None
    complete: bool
    duration: float

    def __str__(self) -> str:
        """Format as one line."""
        return f"{self.catalog}: {'; '.join(map(str, self.tables)) or 'written'} ({self.duration:.2f} s)"
