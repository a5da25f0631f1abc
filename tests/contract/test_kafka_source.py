"""The Kafka source: a topic in this process, and one of a real broker where there is one."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import pudi
from pudi.ingest import Ingestion, KafkaSource, RegistryValues, debezium_events
from pudi.ingest.debezium import debezium_options
from pudi.ingest.source import Checkpoint
from support.kafka import BrokerTopic, FakeTopic, broker, server_classpath

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kafka")
    libs = server_classpath(folder)
    if libs is None:
        pytest.skip("neither Maven Central nor PUDI_KAFKA_LIBS has Kafka's server")
    with broker(folder, libs) as found:
        yield found


@pytest.fixture(params=["double", pytest.param("broker", marks=pytest.mark.slow)])
def topic(request: pytest.FixtureRequest) -> Any:
    if request.param == "double":
        made = FakeTopic("trips")
        made.partitions = {0: [], 1: []}
        return made
    return BrokerTopic(request.getfixturevalue("address"))


def source(topic: Any, **settings: Any) -> KafkaSource:
    return KafkaSource(topic.name, topic.config, client=topic.client, **settings)


def job(path: Path, of: KafkaSource, **settings: Any) -> Ingestion:
    roles = {"record_key": "id", "schema": SCHEMA, **settings}
    return Ingestion(of, path / "t", **roles)


def read(path: Path, name: str = "t") -> list[dict[str, Any]]:
    return pudi.Table(path / name).scan(meta_fields=False).to_arrow().sort_by("id").to_pylist()


def event(number: int, value: str = "a") -> dict[str, Any]:
    return {"id": number, "v": value}


def test_offsets_are_the_checkpoint_and_events_come_once(topic: Any, tmp_path: Path) -> None:
    topic.send(0, *map(event, range(10)))
    topic.send(1, *map(event, range(10, 13)))
    seen: list[Any] = []
    assert job(tmp_path, source(topic, max_events=8), operation="insert", report=seen.append).run() == 2
    assert [each.more for each in seen] == [True, False]
    assert seen[-1].checkpoint == f"{topic.name},0:10,1:3"
    assert [row["id"] for row in read(tmp_path)] == list(range(13))
    assert job(tmp_path, source(topic), operation="insert").run() == 0
    topic.send(1, event(13), event(14), None)  # the last offset is the mark of a transaction
    assert job(tmp_path, source(topic), operation="insert").run() == 1
    assert job(tmp_path, source(topic), operation="insert").run() == 0
    assert [row["id"] for row in read(tmp_path)] == list(range(15))
    table = pudi.Table(tmp_path / "t")
    metadata = table._meta.store.read_commit_metadata(table.timeline.commits[-1]).extra_metadata
    assert metadata["streamer.checkpoint.key.v2"] == f"{topic.name},0:10,1:6"


def test_a_place_that_no_commit_states_is_said(topic: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topic.send(0, event(1))
    late = job(tmp_path, source(topic, start="latest"))
    assert late.run() == 1
    assert f"give it checkpoint='{topic.name},0:1" in caplog.text
    topic.send(0, event(2))
    reached = late._reached
    assert reached is not None
    assert job(tmp_path, source(topic, start="latest"), checkpoint=reached.value).run() == 1
    assert [row["id"] for row in read(tmp_path)] == [2]


def test_the_client_refuses_a_setting(tmp_path: Path) -> None:
    of = KafkaSource("t", {"bootstrap.servers": "localhost:1", "nonsense": "1"})
    with pytest.raises(pudi.InvalidArgumentError, match="nonsense"):
        job(tmp_path, of).run()


def test_latest_bad_events_and_wrong_checkpoints(topic: Any, tmp_path: Path) -> None:
    topic.send(0, event(1), event(2))
    late = source(topic, start="latest")
    ingestion = job(tmp_path, late, error_table=tmp_path / "bad")
    assert ingestion.run_once().result is None  # nothing to write, and a place to go on
    topic.send(0, event(3), b"{", event(4))
    topic.send(1, b'{"id": "x"}')
    assert ingestion.run_once().bad == 2
    assert [row["id"] for row in read(tmp_path)] == [3, 4]
    bad = pudi.Table(tmp_path / "bad").scan(["source", "position", "record"]).to_arrow().sort_by("source").to_pylist()
    assert bad == [
        {"source": f"{topic.name}-0", "position": 3, "record": "{"},
        {"source": f"{topic.name}-1", "position": 0, "record": '{"id": "x"}'},
    ]
    for text, why in [("other,0:1", "isn't one of topic"), (f"{topic.name},0:x", "isn't one"), ("17", "isn't one")]:
        with pytest.raises(pudi.InvalidArgumentError, match=why):
            source(topic).next(Checkpoint(text), None, None)
    with pytest.raises(pudi.InvalidArgumentError, match="created again"):
        source(topic).next(Checkpoint(f"{topic.name},0:99"), None, None)
    with pytest.raises(pudi.NotFoundError, match="no topic"):
        replace(source(topic), topic="nothing-here").next(Checkpoint(), None, None)


def test_events_that_are_gone_are_an_error_or_passed_over(tmp_path: Path) -> None:
    topic = FakeTopic("trips")
    topic.send(0, *map(event, range(5)))
    topic.oldest[0] = 3
    with pytest.raises(pudi.NotFoundError, match="offsets 1 to 2 are gone"):
        source(topic).next(Checkpoint("trips,0:1"), SCHEMA, None)
    batch = source(topic, fail_on_data_loss=False).next(Checkpoint("trips,0:1"), SCHEMA, None)
    assert batch is not None
    assert batch.data["id"].to_pylist() == [3, 4]


def change(op: str, lsn: int, row: dict[str, Any]) -> dict[str, Any]:
    before, after = (row, None) if op == "d" else (None, row)
    return {"payload": {"op": op, "before": before, "after": after, "ts_ms": 9, "source": {"lsn": lsn, "ts_ms": 8}}}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_changes_of_a_database_are_applied_in_its_order(topic: Any, tmp_path: Path, table_type: str) -> None:
    changes = [
        change("r", 10, event(1, "old")),
        change("c", 11, event(2, "new")),
        change("u", 14, event(1, "newest")),
        change("u", 12, event(1, "between")),  # late
        change("c", 13, event(3, "gone")),
        change("d", 15, event(3, "gone")),
        change("d", 9, event(2, "new")),  # older than its insert
    ]
    options = debezium_options("postgres")
    steps = [debezium_events("postgres")]
    topic.send(0, *changes)
    roles = {"record_key": "id", "transforms": steps, "options": options, "table_type": table_type}
    assert Ingestion(source(topic), tmp_path / "t", **roles).run() == 1
    assert Ingestion(source(topic, max_events=1), tmp_path / "s", **roles).run() == len(changes)
    for name in ("t", "s"):
        assert [(row["id"], row["v"]) for row in read(tmp_path, name)] == [(1, "newest"), (2, "new")], name
    assert pudi.Table(tmp_path / "t").config.ordering_fields == ("_event_lsn",)
    with pytest.raises(pudi.SchemaError, match="no events of Debezium"):
        steps[0](pa.table({"id": [1]}))


def schema_text(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "trip", "fields": [{"name": "id", "type": "long"}, *fields]})


class Registry:
    """Confluent's own client over a registry in memory, and what a producer writes by it."""

    def __init__(self) -> None:
        self.client = SchemaRegistryClient.new_client({"url": "mock://registry"})

    def values(self) -> RegistryValues:
        return RegistryValues({"url": "mock://registry"}, lambda _: self.client)

    def sent(self, text: str, *records: dict[str, Any]) -> list[bytes]:
        serialize = AvroSerializer(self.client, text)
        return [serialize(record, SerializationContext("trips", MessageField.VALUE)) for record in records]


def test_avro_by_a_schema_registry(tmp_path: Path) -> None:
    topic, registry = FakeTopic("trips"), Registry()
    moment = {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None}
    when = dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc)
    topic.send(0, *registry.sent(schema_text(), {"id": 1}))
    topic.send(0, *registry.sent(schema_text(moment), {"id": 2, "at": when}, {"id": 3, "at": None}))
    seen: list[Any] = []
    ingestion = job(tmp_path, source(topic, values=registry.values()), schema=None, report=seen.append)
    assert ingestion.run() == 1
    rows = [(row["id"], row["at"]) for row in read(tmp_path)]
    assert rows == [(1, None), (2, when), (3, None)]
    assert seen[-1].checkpoint == "trips,0:3"


def test_events_that_are_no_avro_are_bad_records(tmp_path: Path) -> None:
    topic, registry = FakeTopic("trips"), Registry()
    (good,) = registry.sent(schema_text({"name": "v", "type": "string"}), {"id": 1, "v": "a"})
    huge = good[:6] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + good[6:]
    topic.send(0, good, b'{"id": 2}', good[:-1], good + b"\x00", huge, b"\x00")
    ingestion = job(tmp_path, source(topic, values=registry.values()), error_table=tmp_path / "bad")
    assert ingestion.run() == 1
    assert [row["id"] for row in read(tmp_path)] == [1]
    assert len(pudi.Table(tmp_path / "bad").scan().to_arrow()) == 5


def test_a_schema_registry_that_lacks_schemas(tmp_path: Path) -> None:
    topic, registry = FakeTopic("trips"), Registry()
    topic.send(0, b"\x00\x00\x00\x00\x09\x02")
    with pytest.raises(pudi.NotFoundError, match="no topic 'trips'"):
        job(tmp_path, source(topic, values=registry.values())).run()
    registry.sent(schema_text(), {"id": 1})
    with pytest.raises(pudi.NotFoundError, match="no schema 9"):
        job(tmp_path, source(topic, values=registry.values())).run()
    registry.client.register_schema("trips-value", Schema("{}", "JSON"))
    with pytest.raises(pudi.NotSupportedError, match="type JSON"):
        job(tmp_path, source(topic, values=registry.values())).run()
    with pytest.raises(pudi.InvalidArgumentError, match="nonsense"):
        job(tmp_path, source(topic, values=RegistryValues({"url": "http://127.0.0.1:1", "nonsense": "1"}))).run()
    away = RegistryValues({"url": "http://127.0.0.1:1", "timeout": "1", "max.retries": "0"})
    with pytest.raises(pudi.UnavailableError, match="schema registry"):
        job(tmp_path, source(topic, values=away)).run()
