"""A merge-on-read table as plain dicts.

It differs from `support.model` in one thing: what a base file holds comes back when its key was deleted in a log file
and a record with a lower ordering value comes after. Hudi merges log records among themselves first, where the delete
goes under, and then with the base file's, which wins (FORMAT 9.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from support.model import Model, identity
from support.rows import Row


@dataclass
class MergeOnReadModel(Model):
    """The table, whose base files are never rewritten once they have log files.

    Attributes:
        logs_first: whether new records go to log files.
        stored: what base files hold, by identity.
    """

    logs_first: bool = False
    stored: dict[tuple[str, str], Row] = field(default_factory=dict)

    def insert(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Add rows with keys that aren't there, or copies."""
        if self.logs_first:
            self.upsert(rows, instant, completion)
            return
        self.bulk_insert(rows, instant, completion)

    def bulk_insert(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Add rows as they are to base files."""
        rows = list(rows)
        super().insert(rows, instant, completion)
        for row in rows:
            stamped = self._stamped(row, instant)
            self.stored[identity(stamped)] = stamped

    def upsert(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Update what is there, insert the rest; what base files hold of deleted keys takes part."""
        known = {identity(row) for row in self._rows()}
        super().upsert(rows, instant, completion)
        after = []
        for row in self.commits[-1].rows:
            who = identity(row)
            if who not in known and who not in self.stored and not self.logs_first:
                self.stored[who] = row
            after.append(row if who in known or who not in self.stored else self._winner(self.stored[who], row))
        self.commits.pop()
        self._commit(after, instant, completion)
