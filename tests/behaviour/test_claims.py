"""Pessimistic writes: writers of the same file groups queue, and nobody works in vain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.concurrency import Claimed
from pudi.format import CLAIMS_DIR
from pudi.writes import commit_write
from support.hudi import HudiTable, table_options
from support.spark import to_frame

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
CLAIMS = {"pudi.write.claim.file.groups": "true"}
NO_WAIT = {**CLAIMS, "pudi.write.claim.wait.time.ms": "0"}


def rows(*values: tuple[str, int], part: str = "p") -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "part": part, "v": v} for key, v in values], SCHEMA)


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part", table_type=request.param)
    made.insert(pa.concat_tables([rows(("a", 1)), rows(("z", 1), part="q")]))
    return made


@pytest.fixture
def in_writing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Runs a function once, while the next write works on its files."""
    work = commit_write._run_tasks

    def register(function: Callable[[], object]) -> None:
        left = [function]

        def wrapped(*arguments: Any) -> Any:
            if left:
                left.pop()()
            return work(*arguments)

        monkeypatch.setattr(commit_write, "_run_tasks", wrapped)

    return register


def values(table: pudi.Table) -> dict[str, int]:
    return {row["id"]: row["v"] for row in pudi.Table(table.path).scan().to_arrow().to_pylist()}


def claims(table: pudi.Table) -> list[Path]:
    return sorted(Path(table.path, CLAIMS_DIR).glob("*"))


def test_a_later_write_waits_for_the_earlier_and_then_plans_on_its_rows(
    table: pudi.Table, in_writing: Callable[[Callable[[], object]], None]
) -> None:
    results: list[pudi.CommitResult | None] = []
    later = threading.Thread(
        target=lambda: results.append(pudi.Table(table.path, options=CLAIMS).update({"v": "v + 10"}, where="id = 'a'"))
    )

    def begin() -> None:
        later.start()
        end = time.monotonic() + 300
        while len(claims(table)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(claims(table)) == 2, "the later write has claimed the same file group, and waits"

    in_writing(begin)
    first = pudi.Table(table.path, options=CLAIMS).upsert(rows(("a", 2)))
    later.join(300)
    assert first.attempts == 1
    assert results[0] is not None
    assert results[0].attempts == 1, "it lost nothing: it planned on what the first one wrote"
    assert values(table) == {"a": 12, "z": 1}
    assert claims(table) == []


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        (lambda t: t.upsert(rows(("a", 3))), True),
        (lambda t: t.upsert(rows(("z", 3), part="q")), False),
        (lambda t: t.update({"v": "5"}, where="v = 1"), True),  # it reads each partition
        (lambda t: t.delete(where="part = 'p'"), True),
        (lambda t: t.delete_partitions(["p"]), True),
        (lambda t: t.insert_overwrite(rows(("n", 3))), True),
    ],
    ids=["same group", "other partition", "update where", "delete where", "delete partition", "overwrite"],
)
def test_what_waits_for_what(
    table: pudi.Table,
    in_writing: Callable[[Callable[[], object]], None],
    other: Callable[[pudi.Table], object],
    waits: bool,
) -> None:
    refused: list[bool] = []

    def meanwhile() -> None:
        try:
            other(pudi.Table(table.path, options=NO_WAIT))
        except pudi.BlockedError as error:
            assert error.retryable
            assert CLAIMS_DIR in str(error)
            refused.append(True)
        else:
            refused.append(False)

    in_writing(meanwhile)
    pudi.Table(table.path, options=CLAIMS).upsert(rows(("a", 2)))
    assert refused == [waits]
    assert values(table)["a"] == 2
    assert claims(table) == []


@pytest.mark.spark
def test_a_spark_write_whose_tasks_find_the_file_groups_claims_its_partitions(
    table: pudi.Table,
    in_writing: Callable[[Callable[[], object]], None],
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pudi.engine.spark.engine._DRIVER_RECORDS", 0)
    seen: list[Claimed] = []

    def meanwhile() -> None:
        seen.extend(Claimed.from_json(path.read_bytes()) for path in claims(table))
        with pytest.raises(pudi.BlockedError):
            pudi.Table(table.path, options=NO_WAIT).upsert(rows(("a", 3)))
        pudi.Table(table.path, options=NO_WAIT).upsert(rows(("z", 3), part="q"))

    in_writing(meanwhile)
    pudi.Table(table.path, options=CLAIMS).upsert(to_frame(spark, rows(("a", 2))))
    assert seen == [Claimed(partitions=frozenset({"p"}))]
    assert values(table) == {"a": 2, "z": 3}
    assert claims(table) == []


@pytest.mark.interop
@pytest.mark.spark
def test_hudi_passes_over_claims(table: pudi.Table, spark: Any) -> None:
    """Its writer neither fails on the folder, with early detection too, nor takes a claim away."""
    folder = Path(table.path, CLAIMS_DIR)
    folder.mkdir(parents=True)
    (folder / "1-x").write_text(json.dumps({"all": True}))
    early = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.concurrency.early.conflict.detection.enable": "true",
        "hoodie.write.markers.type": "DIRECT",
    }
    hudi = HudiTable(spark, Path(table.path), {**table_options("t", "id", "part"), **early})
    hudi.write("upsert", rows(("a", 5)))
    assert claims(table) == [folder / "1-x"]
    assert values(table) == {"a": 5, "z": 1}


def test_the_claim_of_a_dead_process_holds_nobody_up(table: pudi.Table) -> None:
    script = (
        "import os, sys, pudi\n"
        "from pudi.writes import commit_write\n"
        "commit_write._run_tasks = lambda *a: os.kill(os.getpid(), 9)\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from behaviour.test_claims import rows, CLAIMS\n"
        "pudi.Table(sys.argv[1], options=CLAIMS).upsert(rows(('a', 7)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, table.path, str(Path(__file__).parents[1])], check=False, timeout=120
    )
    assert done.returncode == -9
    assert len(claims(table)) == 1
    assert pudi.Table(table.path, options=NO_WAIT).upsert(rows(("a", 2))).attempts == 1
    assert values(table)["a"] == 2
    assert claims(table) == []


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"groups": 1}', b'{"groups": [[]], "partitions": [], "inserts": []}', b"\xff" * 100]
)
def test_a_damaged_claim_stops_nobody(table: pudi.Table, content: bytes) -> None:
    folder = Path(table.path, CLAIMS_DIR)
    folder.mkdir(parents=True)
    (folder / "0-x").write_bytes(content)
    assert pudi.Table(table.path, options=NO_WAIT).upsert(rows(("a", 2))) is not None


def test_a_live_claim_is_no_leftover_and_a_dead_one_goes(table: pudi.Table) -> None:
    """`maintain` deletes what dead writers left, and nothing of living ones."""
    folder = Path(table.path, CLAIMS_DIR)
    folder.mkdir(parents=True)
    living, dead = folder / "1-x", folder / "2-x"
    living.write_text(json.dumps({"all": True}))
    dead.write_text(json.dumps({"all": True}))
    os.utime(dead, (1, 1))
    table.maintain()
    assert claims(table) == [living]
    living.unlink()


def test_a_large_write_claims_its_partitions() -> None:
    many = Claimed(frozenset(("p", f"f{n}") for n in range(10_000)))
    stored = Claimed.from_json(json.dumps(many.to_json()).encode())
    assert stored == Claimed(partitions=frozenset({"p"}))
    assert stored.meets(Claimed(frozenset({("p", "other")})))
    wide = Claimed(frozenset((f"p{n}", "f") for n in range(10_000)))
    everything = Claimed.from_json(json.dumps(wide.to_json()).encode())
    assert everything.all
    assert everything.meets(Claimed(inserts=frozenset({"q"})))
    assert not Claimed(inserts=frozenset({"p"})).meets(Claimed(inserts=frozenset({"p"}))), "new file groups don't meet"
