"""A topic for tests: in this process, with the methods of a consumer that a source calls; or one of a broker.

A real broker is Kafka's server from Maven Central, which Ivy fetches once, as Spark does Hudi's bundle; or that of the
jars in the folder that `PUDI_KAFKA_LIBS` names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

_SERVER = ("org.apache.kafka", "kafka_2.13", "3.9.1")


@dataclass
class FakeTopic:
    """Events of a topic by partition; None stands for the mark of a transaction, which no consumer sees."""

    name: str
    partitions: dict[int, list[bytes | None]] = field(default_factory=dict)
    oldest: dict[int, int] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)

    def send(self, partition: int, *values: Any) -> None:
        held = self.partitions.setdefault(partition, [])
        held += [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]

    def client(self, settings: Mapping[str, Any]) -> FakeConsumer:
        assert settings["enable.auto.commit"] is False
        return FakeConsumer(self)


class FakeConsumer:
    """A consumer of one topic, which gives few events at a time, partition by partition in turns."""

    def __init__(self, topic: FakeTopic) -> None:
        self.topic = topic
        self.places: dict[int, int] = {}

    def list_topics(self, topic: str, timeout: float) -> Any:
        known = self.topic.partitions if topic == self.topic.name else {}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=dict(known))})

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return self.topic.oldest.get(place.partition, 0), len(self.topic.partitions[place.partition])

    def assign(self, places: list[Any]) -> None:
        self.places = {place.partition: place.offset for place in places}

    def consume(self, count: int, timeout: float) -> list[Any]:
        found = []
        for number in list(self.places):
            events = self.topic.partitions[number]
            for offset in range(self.places[number], min(len(events), self.places[number] + 3)):
                self.places[number] = offset + 1
                if events[offset] is not None:
                    found.append(_message(number, offset, events[offset]))
            if self.places[number] >= len(events):
                found.append(_message(number, len(events), None, KafkaError(KafkaError._PARTITION_EOF)))
                del self.places[number]
        return found

    def close(self) -> None:
        self.places = {}


def _message(partition: int, offset: int, value: bytes | None, error: Any = None) -> Any:
    return SimpleNamespace(partition=lambda: partition, offset=lambda: offset, value=lambda: value, error=lambda: error)


def server_classpath(folder: Path) -> str | None:
    """The class path of Kafka's server; None if it can't be had here."""
    if libs := os.environ.get("PUDI_KAFKA_LIBS"):
        return f"{libs}/*"
    pyspark = importlib.util.find_spec("pyspark")
    ivy = [] if pyspark is None or pyspark.origin is None else list(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))
    if not ivy or shutil.which("java") is None:
        return None
    found = folder / "classpath"
    command = ["java", "-Xmx256m", "-jar", str(ivy[0]), "-dependency", *_SERVER, "-confs", "default", "-cachepath"]
    done = subprocess.run([*command, str(found)], capture_output=True, timeout=300, check=False)
    return found.read_text().strip() if done.returncode == 0 and found.exists() else None


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something listens."""
    end = time.monotonic() + 180
    while time.monotonic() < end and running.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("localhost", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the broker didn't start: {log.read_text(errors='replace')[-3000:]}")


@contextmanager
def broker(folder: Path, libs: str) -> Iterator[str]:
    """A broker of one node, of the server on a class path; yields its address."""
    port, other = _free_port(), _free_port()
    (folder / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@localhost:{other}\n"
        f"listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{other}\n"
        f"advertised.listeners=PLAINTEXT://localhost:{port}\n"
        "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
        f"log.dirs={folder / 'data'}\noffsets.topic.replication.factor=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
    )
    java = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", libs]
    storage = [*java, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]
    subprocess.run([*storage, str(folder / "server.properties")], check=True, capture_output=True)
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([*java, "kafka.Kafka", str(folder / "server.properties")], stdout=log, stderr=log)
        try:
            _wait(port, running, folder / "log")
            yield f"localhost:{port}"
        finally:
            running.kill()
            running.wait()


@dataclass
class BrokerTopic:
    """A topic of a broker with the face of a `FakeTopic`; a None ends a transaction around the event before it."""

    address: str
    name: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")
    client: Any = None

    def __post_init__(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result(120)

    @property
    def config(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.address}

    def send(self, partition: int, *values: Any) -> None:
        from confluent_kafka import Producer

        marked = None in values
        settings = {"transactional.id": self.name} if marked else {}
        producer = Producer({"bootstrap.servers": self.address, **settings})
        if marked:
            producer.init_transactions()
            producer.begin_transaction()
        for value in values:
            if value is not None:
                text = value if isinstance(value, bytes) else json.dumps(value).encode()
                producer.produce(self.name, text, partition=partition)
        producer.flush()
        if marked:
            producer.commit_transaction()
