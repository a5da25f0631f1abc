"""Findings of check jobs: small values that are merged after all jobs, so that no key passes through the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.task.jobs import FileResult

SHOWN = 5
"""Maximum number of keys named in one finding."""

DATA_FILES = "data files"
"""The index name in findings about the table's own files."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference that a check found.

    Attributes:
        index: a partition of the metadata table, `DATA_FILES` or `record keys`.
        path: the file, the file group or the partition concerned, relative to the table's root.
        what: the stated and the actual state; for record keys the rest of a sentence that begins with them.
        keys: number of record keys; 0 for other findings.
        sample: some of the keys.
    """

    index: str
    path: str
    what: str
    keys: int = 0
    sample: tuple[str, ...] = ()

    @classmethod
    def of_keys(cls, index: str, path: str, keys: pa.Array | pa.ChunkedArray, what: str) -> Finding:
        """A finding about record keys."""
        return cls(index, path, what, len(keys), tuple(keys.slice(0, SHOWN).to_pylist()))

    @property
    def text(self) -> str:
        """Return the finding as text, without its path."""
        if not self.keys:
            return self.what
        shown = ", ".join(map(repr, self.sample))
        more = f", and {self.keys - len(self.sample):,} more" if self.keys > len(self.sample) else ""
        subject = f"{self.keys:,} record keys ({shown}{more}) are" if self.keys > 1 else f"record key {shown} is"
        return f"{subject} {self.what}"


@dataclass(frozen=True, slots=True)
class Findings(FileResult):
    """The findings of one check job.

    Attributes:
        found: all findings.
        unread: numbers of unreadable file groups.
    """

    found: tuple[Finding, ...] = ()
    unread: tuple[int, ...] = ()


def merge_findings(parts: Iterable[Findings]) -> Sequence[Finding]:
    """Merge the findings of all jobs about the same thing; ordered by path."""
    folded: dict[tuple[str, str, str], Finding] = {}
    for part in parts:
        for each in part.found:
            place = (each.path, each.index, each.what)
            known = folded.get(place)
            if known is None:
                folded[place] = each
            elif each.keys:
                sample = tuple(sorted({*known.sample, *each.sample})[:SHOWN])
                folded[place] = Finding(each.index, each.path, each.what, known.keys + each.keys, sample)
    return [folded[place] for place in sorted(folded)]
