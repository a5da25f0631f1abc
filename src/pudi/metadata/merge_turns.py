"""Versions of several records in turns, so that those of a turn are merged side by side."""

from __future__ import annotations

import numpy as np


def turns(record: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Some versions in turns, none of which has two of one record, the oldest of each first.

    Args:
        record: for each version the number of its record.
        chosen: the versions that count, oldest first.
    """
    if not len(chosen):
        return []
    order = chosen[np.argsort(record[chosen], kind="stable")]
    grouped = record[order]
    first = np.concatenate([[True], grouped[1:] != grouped[:-1]])
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(first, place, 0))
    return [order[rank == turn] for turn in range(int(rank.max()) + 1)]
