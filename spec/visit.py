"""Visit all states that steps lead to, breadth first, up to one that breaks an invariant."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple


class Visited(NamedTuple):
    """What a search found.

    Attributes:
        states: number of different states.
        depth: number of steps to the farthest one.
        broken: the invariant that doesn't hold in the last state; None if all hold in all states.
        story: the steps to it.
    """

    states: int
    depth: int
    broken: str | None
    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"{self.states:,} states, {self.depth} steps deep"
        if self.broken is None:
            return f"{said}: no invariant is broken"
        return "\n  ".join((f"{said}: {self.broken} doesn't hold after", *self.story))


def visit(
    first: Iterable[Any],
    steps: Callable[[Any], Iterator[tuple[str, Any]]],
    broken_invariant: Callable[[Any], str | None],
) -> Visited:
    """Visit the states that steps lead to, nearest first, up to one that breaks an invariant.

    Args:
        first: the states to begin with.
        steps: yields each step that is enabled in a state, and the state after it.
        broken_invariant: the name of an invariant that doesn't hold in a state.
    """
    came: dict[Hashable, tuple[Hashable, str] | None] = {}
    level, depth = [], -1
    for table in first:
        came[table.key] = None
        level.append(table)
    while level:
        depth += 1
        following = []
        for table in level:
            broken = broken_invariant(table)
            if broken is not None:
                return Visited(len(came), depth, broken, _story(came, table.key))
            for name, after in steps(table):
                if after.key not in came:
                    came[after.key] = table.key, name
                    following.append(after)
        level = following
    return Visited(len(came), depth, None)


def _story(came: dict[Hashable, tuple[Hashable, str] | None], key: Hashable) -> tuple[str, ...]:
    names = []
    while (before := came[key]) is not None:
        key, name = before
        names.append(name)
    return tuple(reversed(names))
