"""Random writes, services and days that pass, beside a plain model: exactly the old partitions are deleted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.context.clock import ManualClock
from pudi.storage import open_storage
from support.layouts import Layout
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
HOUR, DAY = 3600, 24 * 3600
OPTIONS = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.parquet.small.file.limit": "0",
}
DAYS, TYPE = "hoodie.partition.ttl.strategy.days.retain", "hoodie.partition.ttl.management.strategy.type"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_random_sequences(tmp_path: Path, layout: Layout, seed: int) -> None:
    chance, clock, path = random.Random(seed), ManualClock(), tmp_path / "trips"
    pudi.create(path, SCHEMA, **layout.create_arguments())
    cities = [f"city{number}" for number in range(6)]
    there: dict[str, dict[str, int]] = {}
    made: dict[str, int] = {}
    last: dict[str, int] = {}
    told: list[str] = []
    for step in range(30):
        client = MetaClient.open(str(path), None, OPTIONS, Context(clock=clock), open_storage(str(path)))
        mine = pudi.Table.of(client, OPTIONS)
        what = chance.choice(
            ["upsert", "upsert", "upsert", "run_ttl", "inline", "delete_partitions", "serve", "delete"]
        )
        city, days = chance.choice(cities), chance.randint(1, 8)
        by = chance.choice(["KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"])
        told.append(f"{what} {city} {days} {by} at {clock.now_ms()}")
        options = {DAYS: str(days), TYPE: by}
        if what in {"upsert", "inline"}:
            numbers = chance.sample(range(20), 3)
            inline = {"hoodie.partition.ttl.inline": "true"} if what == "inline" else {}
            done = mine.upsert(
                table(trip(each + 100 * cities.index(city), step, city=city) for each in numbers),
                options={**options, **inline},
            )
            assert done is not None
            assert not done.failed_services
            there.setdefault(city, {}).update({f"k{each + 100 * cities.index(city):04}": step for each in numbers})
            last[city] = clock.now_ms()
            made.setdefault(city, clock.now_ms())
        elif what == "delete" and there.get(city):
            key = chance.choice(sorted(there[city]))
            mine.delete(table([trip(int(key[1:]), 1000, city=city)]))
            del there[city][key]
            last[city] = clock.now_ms()
        elif what == "delete_partitions":
            mine.delete_partitions([city])
            there.pop(city, None)
        elif what == "serve":
            chance.choice([mine.clean, mine.archive, mine.maintain])()
        elif what == "run_ttl":
            mine.run_ttl(options=options)
        if what in {"run_ttl", "inline"}:
            since = last if by == "KEEP_BY_TIME" else made
            for each in [c for c in there if clock.now_ms() - since[c] > days * DAY * 1000]:
                del there[each]
        read = {row["uuid"]: row["ts"] for row in from_arrow(mine.scan().to_arrow())}
        assert read == {key: ts for keys in there.values() for key, ts in keys.items()}, "; ".join(told)
        clock.advance(chance.randint(1, 40) * HOUR)
    assert mine.check().ok
