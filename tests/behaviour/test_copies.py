"""Copies of a key that inserts spread over several file groups are updated and deleted together, as Hudi does."""

from __future__ import annotations

from pathlib import Path

import pudi
from support.engines import THREE_WAYS, Engine
from support.trips import SCHEMA, table, trip


def versions(made: pudi.Table) -> list[tuple[str, int]]:
    found = made.scan(columns=["uuid", "ts"]).to_arrow()
    return sorted(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True))


@THREE_WAYS
def test_copies_in_several_file_groups(engine: Engine, tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", ordering="ts")
    for _ in range(3):
        made.bulk_insert(engine.frame(table([trip(1, 10), trip(2, 10)])))
    made.upsert(engine.frame(table([trip(1, 5), trip(1, 20), trip(1, 15)])))
    assert versions(made) == [("k0001", 20)] * 3 + [("k0002", 10)] * 3
    made.delete(engine.frame(table([trip(2, 0)])))
    assert versions(made) == [("k0001", 20)] * 3
