"""What jobs of a check find: small values, merged when all jobs are done, so that no key passes the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.task.write import FileResult

SHOWN = 5
"""Keys that are named of many with the same trouble."""

DATA_FILES = "data files"
"""What a finding about the table's own files is said of."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that isn't as it should be.

    Attributes:
        index: what is wrong: a partition of the metadata table, `DATA_FILES` or `record keys`.
        path: the file, the file group or the partition concerned, relative to the table's root.
        what: what is said and what is there; of record keys the rest of a sentence that names them.
        keys: how many record keys it is about; 0 for none.
        sample: some of them.
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
        """What it says of its path."""
        if not self.keys:
            return self.what
        shown = ", ".join(map(repr, self.sample))
        more = f", and {self.keys - len(self.sample):,} more" if self.keys > len(self.sample) else ""
        subject = f"{self.keys:,} record keys ({shown}{more}) are" if self.keys > 1 else f"record key {shown} is"
        return f"{subject} {self.what}"


@dataclass(frozen=True, slots=True)
class Findings(FileResult):
    """What one job of a check found.

    Attributes:
        found: all of it.
        unread: numbers of file groups that could not be read.
    """

    found: tuple[Finding, ...] = ()
    unread: tuple[int, ...] = ()


def merge_findings(parts: Iterable[Findings]) -> Sequence[Finding]:
    """Merge what all jobs found about the same thing; ordered by path."""
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
