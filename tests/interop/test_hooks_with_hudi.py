"""Real Hudi with the same options: its callback sends the same message, its validators refuse the same writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.metrics.reporters import close_reporters
from support.endpoint import Endpoint, endpoint
from support.engines import SparkEngine
from support.hudi import HudiTable, commits
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import Row, assert_same
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

LAYOUTS = [Layout(), Layout(version=6), Layout(kind="mor"), Layout(version=6, kind="mor")]
CALLBACK = "hoodie.write.commit.callback."
VALIDATORS = "hoodie.precommit.validators"
SQL = "org.apache.hudi.client.validator.SqlQuery"
WRITES = [table(trip(number, 10) for number in range(6)), table([trip(1, 20), trip(7, 20)])]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_both_send_the_same_message(spark: Any, tmp_path: Path, layout: Layout) -> None:
    sent = {}
    for name in ("hudi", "pudi"):
        with endpoint() as server:
            options = {
                f"{CALLBACK}on": "true",
                f"{CALLBACK}http.url": f"{server.url}/",
                f"{CALLBACK}http.custom.headers": "X-A:b",
            }
            path = tmp_path / name / "trips"
            if name == "hudi":
                writer: Any = HudiTable(spark, path, {**layout.hudi_options("trips"), **options})
                writer.write("insert", WRITES[0], "overwrite")
            else:
                writer = PudiTable.create(SparkEngine(spark), path, SCHEMA, layout, options)
                writer.write("insert", WRITES[0])
            instant, _ = writer.write("upsert", WRITES[1])
            sent[name] = [(headers, json.loads(body)) for _, _, headers, body in server.requests]
            assert len(sent[name]) == 2
            assert sent[name][-1][1]["commitTime"] == instant
    for (hudis, theirs), (pudis, ours) in zip(sent["hudi"], sent["pudi"], strict=True):
        for header in ("hudi-callback-key", "content-type", "x-a"):
            assert pudis[header] == hudis[header]
        assert list(ours) == list(theirs)
        assert (ours["tableName"], ours["commitActionType"]) == (theirs["tableName"], theirs["commitActionType"])
        folders = [Path(message["basePath"].removeprefix("file:")) for message in (ours, theirs)]
        assert [folder.parent.name for folder in folders] == ["pudi", "hudi"]
        assert _by_file(ours) == _by_file(theirs)


def _by_file(message: dict[str, Any]) -> list[Any]:
    """Of each written file: partition and records, the names of its statistics, what its path looks like."""
    counts = ("partitionPath", "numWrites", "numInserts", "numUpdateWrites", "numDeletes")
    return sorted(
        (*(str(stat[each]) for each in counts), sorted(stat), re.sub(r"[0-9a-f-]+", "", stat["path"]))
        for stat in message["hoodieWriteStat"]
    )


NULLS = "select count(*) from <TABLE_NAME> where rider is null#0"
IN_PARTITIONS = "select count(*) from <TABLE_NAME>#2;select avg(leg) from <TABLE_NAME>#1.0"
COUNTS, CITIES, NEWEST = (
    f"select {what} from <TABLE_NAME>" for what in ("count(*), sum(leg)", "distinct city", "max(ts)")
)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [Layout(), Layout(version=6), Layout(folders="flat")], ids=str)
@pytest.mark.parametrize(
    ("queries", "accepted"),
    [
        ({"SingleResult": NULLS}, [1, 0]),
        ({"SingleResult": IN_PARTITIONS}, None),
        ({"Equality": COUNTS}, None),
        ({"Equality": CITIES, "Inequality": NEWEST}, [1, 0]),
    ],
    ids=["single", "partitions", "equal", "differ"],
)
def test_both_refuse_the_same_writes(
    spark: Any, tmp_path: Path, layout: Layout, queries: dict[str, str], accepted: list[int] | None
) -> None:
    """A good batch, then one with a null, a new key, and an old ordering value; `None` leaves the verdict to Hudi."""
    names = {"SingleResult": "single.value", "Equality": "equality", "Inequality": "inequality"}
    options = {VALIDATORS: ",".join(f"{SQL}{kind}PreCommitValidator" for kind in queries)}
    options |= {f"{VALIDATORS}.{names[kind]}.sql.queries": sql for kind, sql in queries.items()}
    batches = [table([trip(1, 20)]), table([trip(1, 15, None), trip(7, 15, None, "sao_paulo")])]
    hudi = HudiTable(spark, tmp_path / "hudi" / "trips", layout.hudi_options("trips"))
    hudi.write("insert", WRITES[0], "overwrite")
    ours = PudiTable.create(SparkEngine(spark), tmp_path / "pudi" / "trips", SCHEMA, layout)
    ours.write("insert", WRITES[0])
    hudi.options, ours.options = {**hudi.options, **options}, options
    verdicts = []
    for batch in batches:
        before = commits(hudi.path)
        try:
            hudi.write("upsert", batch)
            verdicts.append(1)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - Py4J's
            assert "pre-commit validation" in str(error).lower(), error
            verdicts.append(0)
        assert len(commits(hudi.path)) == len(before) + verdicts[-1]
        if verdicts[-1]:
            ours.write("upsert", batch)
        else:
            with pytest.raises(pudi.ValidationError):
                ours.write("upsert", batch)
            assert_same(_plain(ours.snapshot()), _plain(hudi.snapshot()))
    assert accepted is None or verdicts == accepted


def _plain(rows: list[Row]) -> list[Row]:
    """Rows without meta fields."""
    return [{name: value for name, value in row.items() if not name.startswith("_hoodie")} for row in rows]


@pytest.mark.slow
def test_hudi_goes_on_after_a_refused_write(spark: Any, tmp_path: Path) -> None:
    layout = Layout(kind="mor")
    ours = PudiTable.create(SparkEngine(spark), tmp_path / "trips", SCHEMA, layout)
    ours.write("insert", WRITES[0])
    ours.options = {VALIDATORS: f"{SQL}EqualityPreCommitValidator", f"{VALIDATORS}.equality.sql.queries": NEWEST}
    with pytest.raises(pudi.ValidationError):
        ours.write("upsert", WRITES[1])
    hudi = HudiTable(spark, ours.path, layout.hudi_options("trips"))
    assert_same(hudi.snapshot(), ours.snapshot())
    hudi.write("upsert", WRITES[1])
    assert_same(hudi.snapshot(), ours.snapshot())
    assert len(ours.snapshot()) == 7


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_both_report_the_same_figures(spark: Any, tmp_path: Path, layout: Layout) -> None:
    """By a Pushgateway: Hudi's endpoint for Prometheus ends with each write."""
    own = "hoodie.metrics.pushgateway."
    options = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "PROMETHEUS_PUSHGATEWAY"}
    options |= {f"{own}host": "127.0.0.1", f"{own}report.period.seconds": "1", f"{own}job.name": "j"}
    action = "commit" if layout.kind == "cow" else "deltacommit"
    with endpoint() as server:
        port = {f"{own}port": server.url.rpartition(":")[2]}
        hudi = HudiTable(spark, tmp_path / "hudi" / "trips", {**layout.hudi_options("trips"), **options, **port})
        hudi.write("insert", WRITES[0], "overwrite")
        hudi.write("upsert", WRITES[1])
        theirs = _pushed(server)
    with endpoint() as server:
        port = {f"{own}port": server.url.rpartition(":")[2]}
        ours = PudiTable.create(SparkEngine(spark), tmp_path / "pudi" / "trips", SCHEMA, layout, options | port)
        ours.write("insert", WRITES[0])
        ours.write("upsert", WRITES[1])
        close_reporters()  # pushes what there is
        found = _pushed(server)
    named = {name for name in theirs if name.startswith(f"trips_{action}_total")}
    assert len(named) > 10, sorted(theirs)
    assert {*named, f"trips_{action}_duration", f"trips_{action}_commitTime"} <= found.keys() & theirs.keys()
    same = {name for name in named if not name.endswith(("BytesWritten", "FilesSize", "Time"))}
    assert {name: found[name] for name in same} == {name: theirs[name] for name in same}


def _pushed(server: Endpoint) -> dict[str, float]:
    """The figures that were pushed last, by name."""
    posted = [body.decode() for method, _, _, body in server.requests if method == "POST"]
    lines = [line.split() for line in (posted[-1] if posted else "").splitlines() if line.startswith("trips_")]
    return {name: float(value) for name, value in lines if "{" not in name}
