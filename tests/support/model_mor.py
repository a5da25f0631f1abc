"""A merge-on-read table as plain dicts.

It differs from `support.model` in what comes of a record that is written after its delete, with a lower ordering
value, while the base file still holds the deleted one. pudi's delete has that one's ordering value: the late record
loses to it, and no record is there. Hudi's has none, and the deleted record comes back: log records are merged among
themselves first, where the delete goes under, and then with the base file's, which wins.
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
        gone: what pudi deleted of that, by identity.
    """

    logs_first: bool = False
    stored: dict[tuple[str, str], Row] = field(default_factory=dict)
    gone: dict[tuple[str, str], Row] = field(default_factory=dict)

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
            if who in known or who not in self.stored:
                if who not in known and not self.logs_first:
                    self.stored[who] = row
                after.append(row)
            elif who not in self.gone:
                after.append(self._winner(self.stored[who], row))
            elif self._winner(self.gone[who], row) is row:
                after.append(row)
        self.commits.pop()
        self._commit(after, instant, completion)

    def delete(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Remove records by key; those in base files leave their ordering values in log files, if pudi deletes them."""
        rows = list(rows)
        meant = {identity(self._stamped(row, instant)) for row in rows} & set(self.stored)
        if self.by_hudi:
            self.gone = {who: row for who, row in self.gone.items() if who not in meant}
        else:
            self.gone |= {identity(row): row for row in self._rows() if identity(row) in meant}
        super().delete(rows, instant, completion)

    def insert_overwrite(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Put rows in place of what is in their partitions: they're in base files."""
        rows = list(rows)
        super().insert_overwrite(rows, instant, completion)
        self._rebase({self.partition_path(row) for row in rows})

    def insert_overwrite_table(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Put rows in place of all that is there, in base files."""
        super().insert_overwrite_table(rows, instant, completion)
        self._rebase({partition for partition, _ in self.stored} | {identity(row)[0] for row in self._rows()})

    def delete_partitions(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        """Remove all that is in the partitions that rows fall into."""
        rows = list(rows)
        super().delete_partitions(rows, instant, completion)
        self._rebase({self.partition_path(row) for row in rows})

    def _rebase(self, folders: set[str]) -> None:
        """What base files hold once those of some partitions were replaced by what is there now."""
        self.stored = {who: row for who, row in self.stored.items() if who[0] not in folders}
        self.gone = {who: row for who, row in self.gone.items() if who[0] not in folders}
        self.stored |= {identity(row): row for row in self._rows() if identity(row)[0] in folders}
