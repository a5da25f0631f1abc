"""The metadata table that a new table has without being asked: what is in it, what it costs, and how to do without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.errors import UnavailableError
from pudi.storage import CountingStorage, open_storage
from pudi.testing import FaultStorage
from support.engines import Engine
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUT = {"record_key": "uuid", "partition_by": "city", "ordering": "ts"}
STATISTICS = {"column_stats", "files", "partition_stats"}


@pytest.mark.parametrize(
    ("version", "partitioned", "expected"),
    [
        ("9", True, STATISTICS),
        ("8", True, STATISTICS),
        ("6", True, {"column_stats", "files"}),
        ("9", False, {"column_stats", "files"}),
    ],
)
def test_its_partitions_are_those_that_hudi_makes_on_spark(
    tmp_path: Path, version: str, partitioned: bool, expected: set[str]
) -> None:
    """As in the golden tables that Hudi 1.2 made by its defaults: those of version 6 have no partition_stats."""
    by = {**LAYOUT, "partition_by": "city" if partitioned else None}
    made = pudi.create(tmp_path / "t", SCHEMA, **by, options={"hoodie.write.table.version": version})
    assert set(made.config.metadata_partitions) == expected
    assert made.config.metadata_partitions_inflight == ()
    assert {path.name for path in (tmp_path / "t" / ".hoodie" / "metadata").iterdir()} - {".hoodie"} == expected
    assert [(index.kind, index.columns[:3]) for index in made.indexes()] == [
        ("column_stats", ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"))
    ]
    assert made.scan().to_arrow().num_rows == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_it_is_kept_in_step_from_the_first_write_on(engine: Engine, tmp_path: Path, kind: str) -> None:
    made = pudi.create(str(tmp_path / "t"), SCHEMA, **LAYOUT, table_type=kind)
    made.upsert(engine.frame(table(trip(n, 10) for n in range(6))))
    opened = pudi.Table(tmp_path / "t")
    opened.upsert(engine.frame(table([trip(1, 20), trip(7, 20)])))
    opened.delete(engine.frame(table([trip(2, 30)])))
    assert opened.check().ok
    assert "column_stats kept 1 of" in str(opened.scan(where="ts > 15 AND uuid = 'k0001'").explain())
    found = [(row["uuid"], row["ts"]) for row in from_arrow(opened.scan(where="ts > 15").to_arrow())]
    assert sorted(found) == [("k0001", 20), ("k0007", 20)]


def test_options_do_without(tmp_path: Path) -> None:
    off = {"hoodie.metadata.enable": "false"}
    plain = pudi.create(tmp_path / "plain", SCHEMA, **LAYOUT, options=off)
    plain.insert(table([trip(1, 10)]))
    pudi.Table(tmp_path / "plain").insert(table([trip(2, 10)]))
    assert not plain.config.metadata_partitions
    assert not (tmp_path / "plain" / ".hoodie" / "metadata").exists()
    listed = pudi.create(
        tmp_path / "listed", SCHEMA, **LAYOUT, options={"hoodie.metadata.index.column.stats.enable": "false"}
    )
    listed.insert(table([trip(1, 10)]))
    assert listed.config.metadata_partitions == ("files",)


def test_a_table_is_made_though_its_metadata_table_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoRoomBelow(FaultStorage):
        def create(self, path: str, content: bytes, *, durable: bool = False) -> None:
            if ".hoodie/metadata/column_stats" in path:
                raise UnavailableError("no room", table=self.root, path=path)
            super().create(path, content, durable=durable)

    monkeypatch.setattr("pudi.writes.create.open_storage", lambda *a, **k: NoRoomBelow(open_storage(*a, **k)))
    pudi.create(str(tmp_path / "t"), SCHEMA, **LAYOUT)
    assert "without a metadata table" in caplog.text
    opened = pudi.Table(tmp_path / "t")
    opened.insert(table([trip(1, 10)]))
    assert opened.config.metadata_partitions == ()
    opened.insert(table([trip(2, 10)]), options={"hoodie.metadata.enable": "true"})
    assert opened.config.metadata_partitions == ("files",)
    assert opened.check().ok


def calls_of(path: Path, verb: str, data: pa.Table, **options: str) -> Counter[str]:
    """The storage calls of a write of its own process, as it were: nothing is remembered of earlier ones."""
    storage = CountingStorage(open_storage(str(path)))
    opened = pudi.Table.of(MetaClient.open(str(path), None, options, Context(), storage), options)
    storage.reset()
    getattr(opened, verb)(data)
    return Counter({kind: count for kind, count in storage.calls.items() if kind != "sync"})


def test_a_small_upsert_keeps_to_its_request_budget(tmp_path: Path) -> None:
    """Beside a plain table's: opening and listing it, a log file for each file group, three steps of its commit.

    On a local disk also the commit of its base file, which says how large that is. A plain table's timeline is listed
    once more after its folders.
    """
    costs = []
    for place, options in enumerate([{"hoodie.metadata.enable": "false"}, {}]):
        path = tmp_path / str(place)
        made = pudi.create(path, SCHEMA, **LAYOUT, options=options)
        made.insert(table(trip(n, 10) for n in range(6)))
        costs.append(sum(calls_of(path, "upsert", table([trip(1, 20)]), **options).values()))
    assert costs[0] <= 25
    assert costs[1] - costs[0] <= 20


def test_making_it_keeps_to_its_request_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: dict[str, CountingStorage] = {}

    def counting(root: str, *args: object, **more: object) -> CountingStorage:
        counted[root] = CountingStorage(open_storage(root, *args, **more))  # type: ignore[arg-type]
        return counted[root]

    monkeypatch.setattr("pudi.writes.create.open_storage", counting)
    plain, whole = str(tmp_path / "plain"), str(tmp_path / "whole")
    pudi.create(plain, SCHEMA, **LAYOUT, options={"hoodie.metadata.enable": "false"})
    pudi.create(whole, SCHEMA, **LAYOUT)
    assert counted[plain].requests <= 8
    assert counted[whole].requests - counted[plain].requests <= 37
