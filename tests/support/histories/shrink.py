"""The fewest steps of a history with which it still fails in the same way."""

from __future__ import annotations

import re

from support.histories.model import UnplayableError
from support.histories.operations import Operation
from support.histories.run import Played, play

_MOST = 120
"""Histories that a shrinking plays at most."""


def _kind(problem: str) -> str:
    """Return what stays of a problem in other runs: its beginning without numbers."""
    return re.sub(r"[0-9'\"]+.*", "", problem.splitlines()[0])[:40]


def shrink(played: Played) -> Played:
    """Leave out steps for as long as the history still fails in the same way."""
    best, left = played, _MOST
    wanted = _kind(played.problem)
    size = max(1, len(best.operations) // 2)
    while left > 0:
        place, before = 0, len(best.operations)
        while place < len(best.operations) - 1 and left > 0:
            fewer = best.operations[:place] + best.operations[place + size :]
            left -= 1
            found = _played(best, fewer) if fewer else None
            if found is not None and found.problem and _kind(found.problem) == wanted:
                best = found
            else:
                place += size
        if size == 1 and len(best.operations) == before:
            break
        size = max(1, size // 2)
    return best


def _played(best: Played, operations: list[Operation]) -> Played | None:
    try:
        return play(best.setup, operations)
    except UnplayableError:
        return None
