"""Tables with random options, types and services: Hudi writes, both read; pudi goes on, then Hudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.random_tables import draw, play

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(30))
def test_both_read_and_continue_it(spark: Any, tmp_path: Path, seed: int) -> None:
    random_table = draw(seed)
    played = play(spark, tmp_path / "table", random_table, on_spark=seed % 4 == 3)
    assert not played.different, "\n".join([random_table.about(), *played.different])
