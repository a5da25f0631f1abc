"""Random histories of a table beside a model of plain dicts, see `support.histories`.

42 seeds in a row meet each table type, format version and index type together once (`support.histories.setups`).
The seed draws the rest: merge mode, keys, partitions and their names, metadata table, retention, services after writes.
`python -m support.histories --seed 7` repeats a history, shrinks it if it fails, and tells it as lines of Python;
`--seeds 1000` searches.
"""

from __future__ import annotations

import pytest

from support.histories.place import one_thread
from support.histories.run import play
from support.histories.setups import Setup

SEEDS = range(42)

pytestmark = pytest.mark.metadata_by_default


@pytest.mark.sampled(14)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_stays_what_its_model_is(seed: int) -> None:
    with one_thread():
        played = play(Setup.of(seed))
    assert not played.problem, played.story()
