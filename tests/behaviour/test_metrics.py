"""Metrics: each action is measured under Hudi's names, and reported to Prometheus, OpenTelemetry or the log."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pytest
from opentelemetry import metrics as otel
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

import pudi
from pudi.metrics.reporters import Gauges, close_reporters
from support.endpoint import endpoint
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

ON, TYPE, PREFIX = "hoodie.metrics.on", "hoodie.metrics.reporter.type", "hoodie.metrics.reporter.metricsname.prefix"
PORT, LABELS = "hoodie.metrics.prometheus.port", "hoodie.metrics.pushgateway.report.labels"
LAYOUTS = [Layout(version=version, kind=kind) for version, kind in product((6, 8, 9), ("cow", "mor"))]
SIX = [trip(number, 10) for number in range(6)]


def free_port() -> int:
    """Return a free port of this process's own ten, which are below those that systems give to whoever connects."""
    first = 20_000 + 10 * (os.getpid() % 1_000)
    for port in range(first, first + 10):
        with socket.socket() as one, suppress(OSError):
            one.bind(("0.0.0.0", port))
            return port
    raise AssertionError(f"the ports from {first} on are taken")


def millis(instant: str) -> int:
    """Return an instant's time in milliseconds since the epoch."""
    moment = datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f").replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


@pytest.fixture(scope="module", autouse=True)
def closed_reporters() -> Iterator[None]:
    """Reporters live as long as their process: later tests would see what they log."""
    yield
    close_reporters()


@pytest.fixture(scope="module")
def port() -> int:
    """The port of this module's endpoint, which all its tables share."""
    return free_port()


def prometheus(port: int, prefix: str) -> dict[str, str]:
    return {ON: "true", TYPE: "PROMETHEUS", PORT: str(port), PREFIX: prefix}


def scraped(port: int, prefix: str) -> dict[str, float]:
    """What a scrape gives of one table, by name without the prefix."""
    text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return {each.name.removeprefix(f"{prefix}_"): each.value for each in samples if each.name.startswith(f"{prefix}_")}


@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, [Layout(), Layout(kind="mor")]), indirect=["engine"])
def test_prometheus_scrapes_what_a_commit_did(engine: Engine, layout: Layout, tmp_path: Path, port: int) -> None:
    prefix = f"commit_{engine.name}_{layout}".replace("-", "_")
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, prometheus(port, prefix))
    trips.write("bulk_insert", table(SIX))
    done = trips.table.upsert(engine.frame(table([trip(1, 20), trip(7, 20), trip(2, 20)])))
    assert done is not None
    action = "commit" if layout.kind == "cow" else "deltacommit"
    found = {k.removeprefix(f"{action}_"): v for k, v in scraped(port, prefix).items() if k.startswith(f"{action}_")}
    assert found["totalPartitionsWritten"] == 2
    assert found["totalInsertRecordsWritten"] == done.records_inserted == 1
    assert found["totalUpdateRecordsWritten"] == done.records_updated == 2
    assert found["totalRecordsDeleted"] == 0
    assert found["totalBytesWritten"] == done.bytes_written
    assert found["totalFilesInsert"] + found["totalFilesUpdate"] == done.files_written
    assert found["success_counter"] == 2
    assert found["duration"] > 0
    assert found["commitTime"] == millis(done.instant)
    trips.write("delete", table([trip(1, 30)]))
    assert scraped(port, prefix)[f"{action}_totalRecordsDeleted"] == 1


def test_every_action_is_measured(tmp_path: Path, port: int) -> None:
    options = prometheus(port, "every") | {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.compact.max.delta.commits": "1",
        "hoodie.write.set.null.for.missing.columns": "true",
    }
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(kind="mor"), options)
    trips.write("insert", table(SIX))
    for ts in (20, 30, 40):
        trips.write("upsert", table([trip(1, ts), trip(2, ts)]))
    mine = trips.table
    assert mine.compact() is not None
    assert mine.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "ts"}) is not None
    mine.clean()
    mine.archive()
    mine.add_column("tip", pa.float64())
    kept = mine.savepoint()
    trips.write("upsert", table([trip(4, 50)]))
    trips.write("insert_overwrite", table([trip(5, 50)]))
    mine.create_index("bloom_filters")
    mine.restore(kept.instant)
    done = mine.upsert(table([trip(4, 60)]))
    assert done is not None
    mine.rollback(done.instant)
    mine.upgrade(8)
    found = scraped(port, "every")
    counter = "_success_counter"
    counted = {name.removesuffix(counter): count for name, count in found.items() if name.endswith(counter)}
    assert counted.keys() == {
        *("deltacommit", "compaction", "clustering", "clean", "archive", "savepoint", "replacecommit", "indexing"),
        *("restore", "rollback", "upgrade", "metadata_deltacommit", "metadata_compaction"),
        *{"metadata_clean", "metadata_archive", "metadata_rollback"} & counted.keys(),
    }
    assert counted["deltacommit"] == 7
    assert found["clean_numFilesDeleted"] > 0
    assert found["compaction_totalLogFilesCompacted"] > 0
    assert found["compaction_totalCompactedRecordsUpdated"] > 0
    for name in counted.keys() - {"savepoint"}:
        assert found[f"{name}_duration"] >= 0, name


def test_failures_are_counted(tmp_path: Path, port: int) -> None:
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), prometheus(port, "failing"))
    trips.write("insert", table(SIX))

    def refuse(before: Any, after: Any) -> None:
        raise ValueError("no")

    def interfere(before: Any, after: Any) -> None:
        pudi.Table(trips.path).upsert(table([trip(1, 50)]))

    for name, function, error in (("refuse", refuse, pudi.ValidationError), ("other", interfere, pudi.ConflictError)):
        pudi.register_validator(name, function)
        with pytest.raises(error):
            trips.table.upsert(table([trip(1, 20)]), options={"hoodie.precommit.validators": name})
    found = scraped(port, "failing")
    assert (found["commit_failure_counter"], found["commit_success_counter"]) == (2, 1)
    assert found["conflict_resolution_failure_counter"] == 1


def test_a_commit_doesnt_fail_by_its_metrics(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Gauges, *figures: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(Gauges, "report", broken)
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(kind="mor"), prometheus(port, "broken"))
    trips.write("insert", table(SIX))
    assert len(trips.snapshot()) == 6
    assert "metrics of its deltacommit are lost" in caplog.text


def test_labels_and_names_of_tables(tmp_path: Path, port: int) -> None:
    options = prometheus(port, "named.by.dots") | {LABELS: "team:trips, stage:test"}
    PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options).write("insert", table(SIX))
    options.pop(PREFIX)
    pudi.create(tmp_path / "x", SCHEMA, record_key="uuid", name="by_its_name")
    pudi.Table(tmp_path / "x", options=options).insert(table(SIX))
    text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert 'named_by_dots_commit_totalInsertRecordsWritten{stage="test",team="trips"} 6.0' in text
    assert 'by_its_name_commit_totalRecordsWritten{stage="test",team="trips"} 6.0' in text
    assert 'by_its_name_metadata_deltacommit_success_counter{stage="test",team="trips"} 1.0' in text


@pytest.fixture(scope="module")
def reader() -> Iterator[InMemoryMetricReader]:
    """The application's OpenTelemetry SDK, with an exporter in memory."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    otel.set_meter_provider(provider)
    yield reader
    provider.shutdown()


def collected(reader: InMemoryMetricReader, of: str) -> dict[str, Any]:
    """The points of one table, by name."""
    data = reader.get_metrics_data()
    assert data is not None
    found = {}
    for metric in (m for r in data.resource_metrics for scope in r.scope_metrics for m in scope.metrics):
        for point in metric.data.data_points:
            if point.attributes["hudi.table"] == of:
                found[metric.name] = point
    return found


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_opentelemetry_gets_sums_and_durations(engine: Engine, tmp_path: Path, reader: InMemoryMetricReader) -> None:
    prefix = f"otel_{engine.name}"
    options = {ON: "true", TYPE: "OPENTELEMETRY", PREFIX: prefix, LABELS: "team:trips"}
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, Layout(kind="mor"), options)
    trips.write("insert", table(SIX))
    instant, _ = trips.write("upsert", table([trip(1, 20), trip(7, 20)]))
    found = collected(reader, prefix)
    assert found["hudi.deltacommit.total_insert_records_written"].value == 7
    assert found["hudi.deltacommit.total_update_records_written"].value == 1
    assert found["hudi.deltacommit.success.counter"].value == 2
    assert found["hudi.deltacommit.duration"].count == 2
    assert found["hudi.deltacommit.duration"].sum > 0
    assert dict(found["hudi.deltacommit.duration"].attributes) == {"team": "trips", "hudi.table": prefix}
    assert found["hudi.deltacommit.commit_time"].value == millis(instant)
    assert collected(reader, f"{prefix}_metadata")["hudi.deltacommit.success.counter"].value >= 2


def test_the_log_gets_a_line_for_each_action(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {ON: "true", TYPE: "slf4j"}
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options)
    with caplog.at_level(logging.INFO, "pudi.metrics"):
        trips.write("insert", table(SIX))
    lines = [each.getMessage() for each in caplog.records if each.name == "pudi.metrics"]
    (line,) = [line for line in lines if line.startswith("trips.commit")]
    assert line.startswith("trips.commit: success, duration=")
    assert ", totalInsertRecordsWritten=6, " in line


def test_the_first_write_of_a_table_loses_no_metrics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {ON: "true", TYPE: "slf4j"}
    with caplog.at_level(logging.INFO, "pudi.metrics"):
        trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options)
        trips.write("insert", table(SIX))
    assert {each.levelname for each in caplog.records} == {"INFO"}
    built = [each.getMessage() for each in caplog.records if each.getMessage().startswith("trips_metadata.deltacommit")]
    assert built
    assert all("totalRecordsWritten=" in line for line in built)


def test_a_pushgateway_gets_metrics_from_time_to_time_and_at_the_end(tmp_path: Path) -> None:
    code = """
import sys, time, pyarrow as pa, pudi
path, port = sys.argv[1:]
own = "hoodie.metrics.pushgateway."
options = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "PROMETHEUS_PUSHGATEWAY", own + "port": port,
           own + "host": "127.0.0.1", own + "job.name": "feeds", own + "report.labels": "team:trips",
           own + "random.job.name.suffix": "false", own + "report.period.seconds": "1"}
rows = pa.table({"id": [1, 2]})
table = pudi.create(path, rows.schema, record_key="id", name="trips")
table = pudi.Table(path, options=options)
table.insert(rows)
sys.stdin.readline()
table.insert(pa.table({"id": [3, 4, 5]}))
"""
    with endpoint() as server:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(tmp_path / "t"), server.url.rpartition(":")[2]]
        job = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        first, last = (f"trips_commit_totalInsertRecordsWritten {number}.0".encode() for number in (2, 3))
        # a write that takes long has pushed before it has completed
        until = time.monotonic() + 300
        while not any(first in body for *_, body in server.requests) and time.monotonic() < until:
            assert job.poll() is None
            time.sleep(0.05)
        _, told = job.communicate("go on\n", timeout=300)
        assert (job.returncode, told) == (0, "")
        methods = [method for method, *_ in server.requests]
        assert methods == ["POST"] * (len(methods) - 1) + ["DELETE"]
        assert {path for _, path, *_ in server.requests} == {"/metrics/job/feeds/team/trips"}
        assert any(first in body for *_, body in server.requests)
        assert last in server.requests[-2][3]


def test_a_pushgateway_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    own = "hoodie.metrics.pushgateway."
    options = {ON: "true", TYPE: "PROMETHEUS_PUSHGATEWAY", f"{own}host": "127.0.0.1", f"{own}port": "1"}
    options |= {f"{own}report.period.seconds": "3600", f"{own}job.name": "gone"}
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options)
    trips.write("insert", table(SIX))
    assert len(trips.snapshot()) == 6


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({}, pudi.NotSupportedError, "GRAPHITE"),
        *(({TYPE: kind}, pudi.NotSupportedError, kind) for kind in ("GRAPHITE", "JMX", "DATADOG", "CLOUDWATCH", "M3")),
        ({TYPE: "PROM"}, pudi.InvalidArgumentError, "PROMETHEUS_PUSHGATEWAY"),
        ({TYPE: "SLF4J", LABELS: "nothing"}, pudi.InvalidArgumentError, LABELS),
        ({TYPE: "SLF4J", "hoodie.metrics.reporter.class": "a.B"}, pudi.NotSupportedError, "never loads a class"),
        (
            {TYPE: "PROMETHEUS_PUSHGATEWAY", "hoodie.metrics.pushgateway.random.job.name.suffix": "false"},
            pudi.InvalidArgumentError,
            "hoodie.metrics.pushgateway.job.name",
        ),
    ],
)
def test_what_cant_report_is_refused(
    options: dict[str, str], error: type[Exception], names: str, tmp_path: Path
) -> None:
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout())
    with pytest.raises(error, match=names):
        pudi.Table(trips.path, options={ON: "true", **options})
    with pytest.raises(error, match=names):
        trips.table.upsert(table(SIX), options={ON: "true", **options})
    assert trips.table.timeline.instants == ()


def test_a_port_that_is_taken_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", free_port()))
        taken.listen()
        options = prometheus(taken.getsockname()[1], "taken")
        trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options)
        with pytest.raises(pudi.SetupError, match=PORT):
            trips.table.insert(table(SIX))
    assert trips.table.timeline.instants == ()
    trips.write("insert", table(SIX))


def test_closed_reporters_push_for_the_last_time_and_open_again(tmp_path: Path) -> None:
    with endpoint() as server:
        own = "hoodie.metrics.pushgateway."
        options = {ON: "true", TYPE: "PROMETHEUS_PUSHGATEWAY", f"{own}host": "127.0.0.1", f"{own}job.name": "closed"}
        options |= {f"{own}port": server.url.rpartition(":")[2], f"{own}report.period.seconds": "3600"}
        trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), options)
        trips.write("insert", table(SIX))
        pushed = len(server.requests)
        close_reporters()
        closed = server.requests[pushed:]
        assert [method for method, *_ in closed] == ["POST", "DELETE"]
        assert b"trips_commit_totalInsertRecordsWritten 6.0" in closed[0][3]
        trips.write("upsert", table([trip(1, 20)]))
        close_reporters()
        assert [method for method, *_ in server.requests[-2:]] == ["POST", "DELETE"]


def test_closed_endpoints_give_their_port_back(tmp_path: Path) -> None:
    own = free_port()
    trips = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), prometheus(own, "closing"))
    trips.write("insert", table(SIX))
    assert scraped(own, "closing")
    close_reporters()
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", own))


@pytest.mark.parametrize("kind", ["PROMETHEUS", "PROMETHEUS_PUSHGATEWAY", "OPENTELEMETRY"])
def test_a_missing_package_is_told_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    code = f"""
import sys, pyarrow as pa, pudi
sys.modules |= dict.fromkeys(("prometheus_client", "prometheus_client.core", "opentelemetry", "opentelemetry.metrics"))
rows = pa.table({{"id": [1]}})
pudi.create({str(tmp_path / "t")!r}, rows.schema, record_key="id")
options = {{"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "{kind}"}}
table = pudi.Table({str(tmp_path / "t")!r}, options=options)
try:
    table.insert(rows)
except pudi.SetupError as error:
    assert "pudi[metrics]" in str(error) and "{kind}" in str(error), error
    assert table.timeline.instants == ()
    print("refused")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr
