"""Event times in commits: real Hudi and pudi state the same for the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from behaviour.test_event_time import TRACKS, made, ranges, rows
from support.hudi import HudiTable, table_options

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_both_state_the_same(spark: Any, tmp_path: Path, kind: str) -> None:
    mine, schema = made(tmp_path / "pudi", table_type=kind)
    options = table_options("t", "id", "part", "ts") | TRACKS
    options["hoodie.datasource.write.table.type"] = "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
    hudi = HudiTable(spark, tmp_path / "hudi", options)
    first = rows(schema, 1_700_000_000, 1_600_000_000_500, 17, None)
    second = rows(schema, 1_650_000_000, 99, 1_640_000_000)
    for verb, data in (("insert", first), ("upsert", second)):
        instant, _ = hudi.write(verb, data)
        done = getattr(mine, verb)(data)
        assert ranges(hudi.path, instant) == ranges(tmp_path / "pudi", done.instant), verb
    assert pudi.Table(hudi.path).history()[0].max_event_time == mine.history()[0].max_event_time
