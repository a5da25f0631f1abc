"""Small trips to write: seeded, with what real feeds bring (duplicates in a batch, late events, ties, missing keys)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

CITIES = ("nyc", "sao_paulo", "chennai")

FIELDS: list[tuple[str, pa.DataType]] = [
    ("uuid", pa.string()),
    ("leg", pa.int32()),
    ("ts", pa.int64()),
    ("rider", pa.string()),
    ("fare", pa.float64()),
    ("city", pa.string()),
]
SCHEMA = pa.schema(FIELDS)
REPLACING = ("insert_overwrite", "insert_overwrite_table", "delete_partitions")
"""Verbs that take file groups out of a table; the last one takes trips for the partitions that they fall into."""


def trip(number: int, ts: int | None, rider: str | None = "ann", city: str | None = None) -> dict[str, Any]:
    """One trip; its leg follows from its number, so (uuid, leg) is a key as good as uuid."""
    return {
        "uuid": f"k{number:04}",
        "leg": number % 3,
        "ts": ts,
        "rider": rider,
        "fare": number + (ts or 0) / 1000,
        "city": CITIES[number % len(CITIES)] if city is None else city,
    }


def table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Trips as an Arrow table."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


@dataclass(frozen=True)
class Step:
    """One verb and what to give it."""

    verb: str
    data: pa.Table


def steps(seed: int, count: int, verbs: Sequence[str] = ("insert", "upsert", "upsert", "delete")) -> Iterator[Step]:
    """A random sequence: a bulk insert of 30 trips, then `count - 1` verbs on new, known and unknown keys.

    A key keeps to its city mostly; now and then it comes with another one, which in a partitioned table with an index
    that isn't global is another record.
    """
    chance = random.Random(seed)
    known, clock = 30, 1000
    yield Step("bulk_insert", table(trip(number, clock) for number in range(known)))
    for _ in range(count - 1):
        clock += 100
        verb = chance.choice(list(verbs))
        if verb == "insert":
            size = chance.randint(1, 8)
            yield Step(verb, table(trip(known + i, clock, chance.choice([None, "bob"])) for i in range(size)))
            known += size
        elif verb in REPLACING:
            city = chance.choice(CITIES)
            numbers = chance.sample(range(known + 5), 6)
            yield Step(verb, table(trip(number, clock, "over", city) for number in numbers))
            known += 5
        elif verb == "delete":
            numbers = [*chance.sample(range(known), 5), known + 1000]
            yield Step(verb, table(trip(number, 0) for number in numbers))
        else:
            numbers = [chance.randrange(known + 5) for _ in range(12)]
            numbers += numbers[:3]  # duplicates in the batch
            yield Step(verb, table(_moved(chance, number, clock, place) for place, number in enumerate(numbers)))
            known += 5


def _moved(chance: random.Random, number: int, clock: int, place: int) -> dict[str, Any]:
    ts = clock + chance.choice([-500, -100, -100, 0, 0, 50])  # late, tied with the commit before, newer
    city = chance.choice(CITIES) if chance.random() < 0.15 else None
    return trip(number, ts, f"rider-{clock}-{place}", city)
