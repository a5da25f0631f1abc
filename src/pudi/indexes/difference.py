"""A difference that a check reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the metadata table and the files, or a duplicate record key.

    Attributes:
        index: where the error is: a partition of the metadata table, `metadata table`, `record keys`, `data files`, or
            `timeline`.
        path: the file, the file group or the partition concerned, relative to the table's root; of the timeline the
            instant.
        what: the expected and the actual state.
    """

    index: str
    path: str
    what: str

    def to_json(self) -> dict[str, str]:
        """Return the difference as plain values."""
        return {"index": self.index, "path": self.path, "what": self.what}

    def __str__(self) -> str:
        return f"{self.index}: {self.path}: {self.what}" if self.path else f"{self.index}: {self.what}"
