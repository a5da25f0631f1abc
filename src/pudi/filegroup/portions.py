"""Divide files among jobs by their sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


def in_portions(
    items: Iterable[_Item], size_of: Callable[[_Item], int], most_bytes: int, most_items: int | None = None
) -> Iterator[tuple[_Item, ...]]:
    """Yield consecutive items in portions, each of at least one item.

    Args:
        items: the items.
        size_of: returns the size of an item in bytes.
        most_bytes: the greatest size of a portion of several items.
        most_items: the greatest number of items in a portion; None for any number.
    """
    portion: list[_Item] = []
    size = 0
    for item in items:
        own = size_of(item)
        if portion and (size + own > most_bytes or len(portion) == most_items):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(item)
        size += own
    if portion:
        yield tuple(portion)
