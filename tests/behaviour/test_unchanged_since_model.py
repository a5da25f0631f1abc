"""`if_unchanged_since` on random histories: a write that is let through finds what its reader saw of the same keys."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import pudi
from support.archiving import archive
from support.beside import Beside, watched
from support.hudi import commits
from support.trips import CITIES, SCHEMA, table, trip

KEYS = range(24)
TABLES: dict[str, dict[str, str]] = {
    "simple": {},
    "no small files": {"hoodie.parquet.small.file.limit": "0"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "global": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "version 6": {"hoodie.write.table.version": "6"},
    "version 8": {"hoodie.write.table.version": "8"},
}
Rows = dict[str, int]


@dataclass
class Random:
    """A table that gets random commits, and readers that write back later."""

    path: Path
    options: dict[str, str]
    chance: random.Random
    archives: bool
    """Whether old commits are archived; then none replaces file groups, whose files Hudi cleans before it archives."""
    read: list[tuple[str, Rows]] = field(default_factory=list)
    written: int = 0
    refused: int = 0

    def rows(self) -> Rows:
        found = pudi.Table(self.path).scan(columns=["uuid", "ts"]).to_arrow().to_pydict()
        return dict(zip(found["uuid"], found["ts"], strict=True))

    def keys(self) -> list[int]:
        return self.chance.sample(KEYS, self.chance.choice([1, 1, 2, 4]))

    def somebody(self) -> None:
        """Another writer's commit, or none."""
        made, chance, ts = pudi.Table(self.path, self.options), self.chance, self.chance.randrange(1000)
        rows, city = table([trip(n, ts) for n in self.keys()]), chance.choice(CITIES)
        many: list[Callable[[], object]] = [
            lambda: made.upsert(rows),
            lambda: made.upsert(rows),
            lambda: made.delete(rows),
            lambda: made.update({"ts": ts}, f"city = '{city}'"),
            lambda: made.delete(where=f"uuid < 'k{chance.choice(KEYS):04}' AND city = '{city}'"),
            lambda: made.merge(rows).when_not_matched_insert().execute(),
        ]
        if not self.archives:
            many += [lambda: made.insert_overwrite(rows), lambda: made.delete_partitions([city])]
        if made.config.table_type == "MERGE_ON_READ":
            many.append(made.compact)
        chance.choice(many)()

    def write_back(self, beside: Beside, made: pudi.Table) -> None:
        """Write by what was read some time ago, others perhaps coming between."""
        at, seen = self.chance.choice(self.read[-6:])
        numbers, city = self.keys(), self.chance.choice(CITIES)
        rows, names = table([trip(n, 5000) for n in numbers]), {f"k{n:04}" for n in numbers}
        of_city = {f"k{n:04}" for n in KEYS if CITIES[n % len(CITIES)] == city}
        cities = {CITIES[n % len(CITIES)] for n in numbers}
        replaced = {f"k{n:04}" for n in KEYS if CITIES[n % len(CITIES)] in cities}
        verbs: list[tuple[set[str], Callable[[], object]]] = [
            (names, lambda: made.upsert(rows, if_unchanged_since=at)),
            (names & set(self.rows()), lambda: made.delete(rows, if_unchanged_since=at)),
            (of_city, lambda: made.update({"ts": "ts + 1"}, f"city = '{city}'", if_unchanged_since=at)),
            (of_city, lambda: made.delete(where=f"city = '{city}' AND ts < 500", if_unchanged_since=at)),
            (
                names,
                lambda: (
                    made.merge(rows, if_unchanged_since=at).when_matched_update().when_not_matched_insert().execute()
                ),
            ),
        ]
        if not self.archives:
            verbs += [
                (replaced, lambda: made.insert_overwrite(rows, if_unchanged_since=at)),
                (of_city, lambda: made.delete_partitions([city], if_unchanged_since=at)),
            ]
        before: list[Rows] = [self.rows()]

        def comes_between() -> None:
            self.somebody()
            before.append(self.rows())

        beside.then = [comes_between] if self.chance.random() < 0.4 else []
        touched, write = self.chance.choice(verbs)
        try:
            done = write()
        except pudi.ChangedSinceError:
            self.refused += 1
            return
        except pudi.ConflictError as error:
            assert error.retryable
            return
        if done is None:
            return
        self.written += 1
        for key in touched:
            assert seen.get(key) == before[-1].get(key), f"{key} changed since {at}, and was written"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_is_let_through_has_not_changed(kind: str, name: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, options = Path(folder) / "t", TABLES[name]
        made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", table_type=kind, options=options)
        made = pudi.Table(path, options)
        state = Random(path, options, random.Random(seed), archives=kind == "cow" and seed % 2 == 1)
        state.read.append((made.scan().instant, {}))
        made.insert(table([trip(n, 10) for n in range(0, len(KEYS), 2)]))
        watching, beside, _ = watched(path, options)
        for step in range(40):
            scan = made.scan(columns=["uuid", "ts"])
            found = scan.to_arrow().to_pydict()
            state.read.append((scan.instant, dict(zip(found["uuid"], found["ts"], strict=True))))
            for _ in range(state.chance.choice([0, 0, 1, 2])):
                state.somebody()
            state.write_back(beside, watching)
            if step == 25 and state.archives:
                archive(path, max(0, len(commits(path)) - 3))
        assert state.written >= 4
        assert state.refused >= 4
