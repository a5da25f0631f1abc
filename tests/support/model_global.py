"""The model of a table with a global index: a key is one record in the whole table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from support.model import Model
from support.rows import Row


@dataclass
class GlobalModel(Model):
    """`Model` by key alone, for tables in which plain inserts add no key twice.

    Attributes:
        moves: whether a record that comes with another partition moves there; else it's updated where it is.
        restamps: whether a record that came too late to move is written again as it was, as Hudi does: its commit
            time is the late one's. pudi leaves it alone.
    """

    moves: bool = True
    restamps: bool = False

    def upsert(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        winners: dict[str, Row] = {}
        for row in rows:
            new = self._stamped(row, instant)
            old = winners.get(new["_hoodie_record_key"])
            winners[new["_hoodie_record_key"]] = new if old is None else self._winner(old, new)
        merged = []
        for old in self._rows():
            new = winners.pop(old["_hoodie_record_key"], None)
            if new is None:
                merged.append(old)
                continue
            away = new["_hoodie_partition_path"] != old["_hoodie_partition_path"]
            if not self.moves:
                new = {**new, "_hoodie_partition_path": old["_hoodie_partition_path"]}
            kept = self._winner(old, new)
            if kept is old and away and self.moves and self.restamps:
                kept = {**old, "_hoodie_commit_time": instant}
            merged.append(kept)
        self._commit([*merged, *winners.values()], instant, completion)

    def delete(self, rows: Iterable[Row], instant: str, completion: str) -> None:
        gone = {self.record_key(row) for row in rows}
        self._commit([old for old in self._rows() if old["_hoodie_record_key"] not in gone], instant, completion)
