"""How tasks stage record keys for the record index, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyStaging:
    """How tasks stage the keys of the base files that they write, for the table's record index; picklable.

    Attributes:
        folder: the folder of staged keys.
        millis: time of the commit in the index, milliseconds since 1970.
        groups: the number of the index's file groups by partition path; under None for the whole table.
        partitioned: whether the index is kept for each partition by itself.
        least: the number of file groups of a partition that the index doesn't know.
    """

    folder: str
    millis: int
    groups: Mapping[str | None, int]
    partitioned: bool
    least: int

    def groups_of(self, partition: str) -> int:
        """Return the number of file groups that the keys of a partition are divided among."""
        return self.groups.get(partition if self.partitioned else None, self.least)
