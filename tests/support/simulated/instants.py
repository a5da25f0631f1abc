"""What the calls of a run say of the table's timeline and of its lock."""

from __future__ import annotations

import json
from typing import Any

from pudi.format import InstantFile, parse_instant_file
from support.simulated.plans import Plan
from support.simulated.world import Note

MADE = frozenset({"create", "put", "replace"})
"""Calls that make a file."""


class TimelineFolder:
    """Where the timeline of a run's table is.

    Attributes:
        folder: its path.
        layout: the layout of the timeline.
    """

    def __init__(self, plan: Plan) -> None:
        old = plan.kind.version == "6"
        self.layout: Any = 1 if old else 2
        self.folder = ".hoodie" if old else ".hoodie/timeline"

    def instant(self, path: str) -> InstantFile | None:
        """Return what the path of a file says, if it's one of an instant of the table."""
        folder, _, name = path.rpartition("/")
        return parse_instant_file(name, self.layout) if folder == self.folder else None


def holder_after(note: Note) -> tuple[str, str] | None:
    """Return who holds the lock after a call that made the lock's file: process and owner; None for nobody."""
    said = json.loads(note.data or b"{}")
    return None if said["expired"] else (note.process, said["owner"])
