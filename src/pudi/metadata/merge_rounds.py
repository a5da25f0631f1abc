"""Split the versions of several records into rounds; all versions of a round are merged together."""

from __future__ import annotations

import numpy as np


def merge_rounds(record: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Split versions into rounds with at most one version of a record, oldest first.

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
