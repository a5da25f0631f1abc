"""Runs of a plan of a table service: which one is the newest.

A plan's instant is run again by whoever takes its process for dead. Nothing tells two runs apart but their ids: each
notes its own in the place of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from pudi.context import Storage
from pudi.errors import ConflictError, NotFoundError
from pudi.format import MaxBytes, plan_run_path


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A run of a plan. Picklable.

    Attributes:
        instant: the plan's requested time.
        number: the run's id, part of the write tokens of its files.
    """

    instant: str
    number: int

    def note(self, storage: Storage) -> None:
        """Note that this run is the newest one.

        Args:
            storage: the table's files.
        """
        storage.put(plan_run_path(self.instant), self._content)

    def forget(self, storage: Storage) -> None:
        """Delete the note, after the plan's completion."""
        storage.delete([plan_run_path(self.instant)])

    def is_newest(self, storage: Storage) -> bool:
        """Return whether no other process of pudi has leased the plan since, or completed it."""
        try:
            return storage.read(plan_run_path(self.instant), MaxBytes.NOTE) == self._content
        except NotFoundError:
            return False

    def refuse_displaced(self, storage: Storage) -> None:
        """Refuse to go on when another process has leased the plan since.

        Raises:
            ConflictError: one has.
        """
        if not self.is_newest(storage):
            raise self.displaced(storage)

    def displaced(self, storage: Storage) -> ConflictError:
        """Return the error of a run that another one displaced."""
        return ConflictError(
            "another process took this run for dead and runs the plan itself; nothing of this run is visible",
            table=storage.root,
            instant=self.instant,
        )

    def own(self, path: str) -> str:
        """Return a path that no other run has."""
        return f"{path}-{self.number}"

    @property
    def _content(self) -> bytes:
        return str(self.number).encode()
