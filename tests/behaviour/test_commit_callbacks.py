"""Commit callbacks: called after each completed commit, over HTTP or as functions; a failure leaves the commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.endpoint import Endpoint, endpoint
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

ON, CLASS = "hoodie.write.commit.callback.on", "hoodie.write.commit.callback.class"
URL, KEY = "hoodie.write.commit.callback.http.url", "hoodie.write.commit.callback.http.api.key"
SECONDS = "hoodie.write.commit.callback.http.timeout.seconds"
HEADERS = "hoodie.write.commit.callback.http.custom.headers"
HTTP = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
LAYOUTS = [Layout(version=version, kind=kind) for version, kind in product((6, 8, 9), ("cow", "mor"))]


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as kept:
        yield kept


@pytest.fixture
def told() -> list[pudi.CommitMessage]:
    """What the registered callback `told` was told."""
    messages: list[pudi.CommitMessage] = []
    pudi.register_commit_callback("told", messages.append)
    return messages


def made(folder: Path, layout: Layout | None = None, engine: Engine | None = None, **options: str) -> PudiTable:
    return PudiTable.create(engine or LocalEngine(), folder / "trips", SCHEMA, layout or Layout(), options)


@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, [Layout(kind="mor")]), indirect=["engine"])
def test_an_endpoint_gets_hudis_message(engine: Engine, layout: Layout, tmp_path: Path, server: Endpoint) -> None:
    options = {ON: "true", URL: f"{server.url}/hook?table=trips", KEY: "s3cret", HEADERS: "X-Team:trips; X-At : a:b ;"}
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, options)
    trips.write("insert", table([trip(number, 10) for number in range(6)]))
    instant, _ = trips.write("upsert", table([trip(1, 20)]))
    method, path, headers, body = server.requests[-1]
    assert (len(server.requests), method, path) == (2, "POST", "/hook?table=trips")
    assert (headers["hudi-callback-key"], headers["x-team"], headers["x-at"]) == ("s3cret", "trips", "a:b")
    assert headers["content-type"] == "application/json; charset=UTF-8"
    message = json.loads(body)
    assert (message["commitTime"], message["tableName"], message["basePath"]) == (instant, "trips", trips.table.path)
    (stat,) = message["hoodieWriteStat"]
    assert (stat["partitionPath"], stat["numUpdateWrites"]) == ("sao_paulo", 1)
    assert (trips.path / stat["path"]).is_file()


def test_a_function_is_called_after_the_commit_is_visible(tmp_path: Path) -> None:
    seen = []

    def look(message: pudi.CommitMessage) -> None:
        rows = pudi.Table(message.base_path).scan(as_of=message.commit_time).to_arrow().num_rows
        seen.append((message.commit_time, message.action, message.operation, rows))

    pudi.register_commit_callback("look", look)
    trips = made(tmp_path, Layout(kind="mor"), **{ON: "true", CLASS: "look"})
    first = trips.table.upsert(table([trip(1, 10), trip(2, 10)]))
    gone = trips.table.delete(where="uuid = 'k0001'")
    over = trips.table.insert_overwrite_table(table([trip(3, 10)]))
    assert first and gone and over
    assert seen == [
        (first.instant, "deltacommit", "UPSERT", 2),
        (gone.instant, "deltacommit", "DELETE", 1),
        (over.instant, "replacecommit", "INSERT_OVERWRITE_TABLE", 1),
    ]


def test_a_message_says_what_the_commit_did(tmp_path: Path, told: list[pudi.CommitMessage]) -> None:
    trips = made(tmp_path, **{ON: "true", CLASS: "told"})
    done = trips.table.insert(table([trip(1, 10), trip(4, 10)]))
    assert done is not None
    (message,) = told
    assert (message.completion_time, message.table_name) == (done.completion_time, "trips")
    assert sum(stat.num_inserts for stat in message.write_stats) == 2
    assert "fare" in message.extra_metadata["schema"]
    trips.table.add_column("tip", pa.float64())
    assert [each.operation for each in told] == ["INSERT", "ALTER_SCHEMA"]
    assert json.loads(told[-1].to_json())["hoodieWriteStat"] == []


def test_services_and_the_metadata_table_announce_nothing(tmp_path: Path, told: list[pudi.CommitMessage]) -> None:
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    options = {ON: "true", CLASS: "told", "hoodie.metadata.enable": "true"}
    trips = made(tmp_path, Layout(kind="mor"), **inline, **options)
    for ts in (10, 20, 30):
        trips.write("upsert", table([trip(1, ts)]))
    trips.table.cluster()
    trips.table.clean(options={"hoodie.cleaner.commits.retained": "1"})
    assert [each.operation for each in told] == ["UPSERT"] * 3
    assert any(each.action.value == "commit" for each in trips.table.timeline.commits), "no compaction ran"


@pytest.mark.parametrize("layout", [Layout(version=6), Layout(kind="mor")], ids=str)
def test_a_failing_callback_leaves_the_commit(layout: Layout, tmp_path: Path, told: list[pudi.CommitMessage]) -> None:
    def fail(message: pudi.CommitMessage) -> None:
        raise ValueError("the pager is off")

    pudi.register_commit_callback("fail", fail)
    trips = made(tmp_path, layout, **{ON: "true", CLASS: "fail, told"})
    done = trips.table.upsert(table([trip(1, 10)]))
    assert done is not None
    assert done.failed_services == {"callback fail": "ValueError: the pager is off"}
    assert "callback fail failed: ValueError: the pager is off" in str(done)
    assert len(told) == 1, "other callbacks are called"
    assert trips.table.timeline.pending == ()
    trips.write("upsert", table([trip(2, 10)]))
    assert len(from_arrow(trips.table.scan().to_arrow())) == 2
    altered = trips.table.add_column("tip", pa.float64())
    assert altered.failed_services == {"callback fail": "ValueError: the pager is off"}


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_status_of_300_or_more_is_a_failure(status: int, tmp_path: Path, server: Endpoint) -> None:
    server.status = status
    trips = made(tmp_path, **{ON: "true", URL: f"{server.url}/hook?token=t0ken"})
    done = trips.table.upsert(table([trip(1, 10)]))
    assert done is not None
    (failure,) = done.failed_services.values()
    assert failure == f"RefusedError: {server.url}/hook answered with status {status}"
    assert len(server.requests) == 1, "a redirect is not followed"


def test_an_endpoint_that_hangs_or_is_gone_is_a_failure(tmp_path: Path, server: Endpoint) -> None:
    server.answers.clear()
    trips = made(tmp_path, **{ON: "true", URL: server.url, SECONDS: "1"})
    done = trips.table.upsert(table([trip(1, 10)]))
    assert done is not None
    assert done.failed_services[f"callback {HTTP}"].startswith("UnavailableError: http://127.0.0.1:")
    gone = made(tmp_path / "gone", **{ON: "true", URL: "http://127.0.0.1:1/"}).table.upsert(table([trip(1, 10)]))
    assert gone is not None
    assert "http://127.0.0.1:1/ can't be reached" in gone.failed_services[f"callback {HTTP}"]
    assert trips.table.scan().to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({}, pudi.InvalidArgumentError, URL),
        ({URL: "file:///etc/passwd"}, pudi.InvalidArgumentError, URL),
        ({URL: "http://"}, pudi.InvalidArgumentError, URL),
        ({URL: "http://h:99999/"}, pudi.InvalidArgumentError, URL),
        ({URL: "http://h", HEADERS: "no colon"}, pudi.InvalidArgumentError, HEADERS),
        ({URL: "http://h", HEADERS: "A:b\nC: d"}, pudi.InvalidArgumentError, HEADERS),
        ({URL: "http://h", KEY: "a\r\nb"}, pudi.InvalidArgumentError, KEY),
        ({URL: "http://h", SECONDS: "0"}, pudi.InvalidArgumentError, SECONDS),
        ({CLASS: "os.system"}, pudi.NotSupportedError, "os.system.*register_commit_callback"),
        ({CLASS: f"{HTTP}Two"}, pudi.NotSupportedError, "never loads a class"),
    ],
)
def test_what_cant_be_called_is_refused_before_anything_is_written(
    options: dict[str, str], error: type[Exception], names: str, tmp_path: Path
) -> None:
    trips = made(tmp_path)
    with pytest.raises(error, match=names):
        trips.table.upsert(table([trip(1, 10)]), options={ON: "true", **options})
    assert trips.table.timeline.instants == ()
    assert trips.table.upsert(table([trip(1, 10)]), options={**options, ON: "false", SECONDS: "1"}) is not None


@pytest.mark.parametrize(("name", "callback"), [("", print), ("a,b", print), (HTTP, print), ("mine", None)])
def test_a_wrong_registration_is_refused(name: str, callback: object) -> None:
    with pytest.raises(pudi.InvalidArgumentError):
        pudi.register_commit_callback(name, callback)  # type: ignore[arg-type]
