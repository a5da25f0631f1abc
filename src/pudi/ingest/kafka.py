"""Records of a Kafka topic, by confluent-kafka; offsets are the checkpoint (KafkaOffsetGen, JsonKafkaSource)."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import fastavro
import pyarrow as pa

from pudi.config.arguments import count_given, map_given, text_given
from pudi.context import Context
from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError, SetupError, UnavailableError
from pudi.ingest.parsing import MOST_SHOWN, Parsed, check_count, parse_json
from pudi.ingest.source import BadRecord, Batch, Checkpoint
from pudi.schema import avro_to_arrow

_PREFIX: Final = struct.Struct(">bI")
"""Header of an event: 0, and the id of its schema (Confluent's wire format)."""
_MISSING: Final = 404
_NUMBERS: Final = {
    "timeout",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
}


@dataclass(slots=True)
class RegistryValues:
    """Decodes events of a topic. Each is read by the schema that it names, as the newest schema of the topic has it.

    Attributes:
        config: settings of the registry's client: `url`, `basic.auth.user.info` and the like.
        client: makes the client; for tests.
    """

    config: Mapping[str, str]
    client: Callable[[Mapping[str, str]], Any] | None = None
    _schemas: dict[int, Any] = field(default_factory=dict)

    def parse(self, values: Sequence[bytes], topic: str) -> Parsed:
        """Return the records of events; what isn't Avro, or of another schema, is a bad record.

        Raises:
            UnavailableError: the registry doesn't answer.
            NotFoundError: it has no schema of the topic.
            NotSupportedError: a schema isn't Avro, or refers to others.
            InvalidArgumentError: a wrong setting of the client.
            SetupError: the client isn't installed.
            CorruptError: too many are bad.
        """
        registry = (self.client or _client)(self.config)
        newest = self._asked(lambda: registry.get_latest_version(f"{topic}-value").schema, f"topic {topic!r}")
        reader = _parsed(newest, f"topic {topic!r}")
        records, bad = [], []
        for number, value in enumerate(values):
            try:
                records.append(self._record(value, registry, reader))
            except (ValueError, EOFError, KeyError, IndexError, TypeError, struct.error) as error:
                text = value[:MOST_SHOWN].decode("utf-8", "replace")
                bad.append(BadRecord(topic, number, text, f"{type(error).__name__}: {error}"[:500]))
                check_count(bad, topic, topic)
        return Parsed(pa.Table.from_pylist(records, avro_to_arrow(newest.schema_str)), tuple(bad))

    def _record(self, value: bytes, registry: Any, reader: Any) -> Any:
        magic, number = _PREFIX.unpack_from(value)
        if magic != 0:
            raise ValueError("the event isn't Avro with the id of its schema in front")
        if number not in self._schemas:
            found = self._asked(lambda: registry.get_schema(number), f"schema {number}")
            self._schemas[number] = _parsed(found, f"schema {number}")
        rest = io.BytesIO(value[_PREFIX.size :])
        record = fastavro.schemaless_reader(rest, self._schemas[number], reader)
        if rest.read(1):
            raise ValueError("bytes follow the record")
        return record

    def _asked(self, ask: Callable[[], Any], what: str) -> Any:
        try:
            return ask()
        except Exception as error:  # of a client that isn't imported here
            if getattr(error, "http_status_code", None) == _MISSING:
                raise NotFoundError(f"the schema registry has no {what}: {error}") from error
            raise UnavailableError(f"the schema registry doesn't give {what}: {error}") from error


def _parsed(schema: Any, what: str) -> Any:
    kind = schema.schema_type or "AVRO"
    if kind != "AVRO" or schema.references:
        raise NotSupportedError(f"{what}: a schema of type {kind}{', with references' if schema.references else ''}")
    return fastavro.parse_schema(json.loads(schema.schema_str))


def _client(config: Mapping[str, str]) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - optional
    except ImportError as error:
        raise SetupError(f"a schema registry needs its client ({error}): pip install 'pudi[kafka]'") from error
    try:
        return SchemaRegistryClient({key: float(value) if key in _NUMBERS else value for key, value in config.items()})
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"settings of the schema registry: {error}") from error


_MOST_EVENTS: Final = 500_000
_TIMEOUT_S: Final = 30.0
_CHUNK: Final = 10_000
_BROKERS: Final = frozenset({"bootstrap.servers", "metadata.broker.list"})
"""Settings of the client that name brokers."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Values of a topic, as JSON, or Avro by a schema registry. Null values (tombstones) are left out.

    The checkpoint is `topic,partition:offset,…` with the next offset of each partition, as in Hudi Streamer. A batch
    takes up to the offsets that the topic had when it began.

    Args:
        topic: the topic.
        config: settings of the client: `bootstrap.servers` and the like, by Kafka's names.
        start: where a first batch begins: `earliest` or `latest`. What `latest` was is kept by the first commit: a
            job that ends before it has written anything begins at the latest offset again.
        max_events: events that one batch takes of all partitions together.
        fail_on_data_loss: whether events that Kafka deleted before they were taken in are an error; else the batch
            begins with the oldest that is there, as Hudi Streamer does by default.
        client: makes a consumer; for tests.
        values: decodes Avro by the schemas of a registry; None where values are JSON.

    Raises:
        InvalidArgumentError: another `start`, no number of events above 0, or settings that name no broker.
    """

    topic: str
    config: Mapping[str, str]
    start: str = "earliest"
    max_events: int = _MOST_EVENTS
    fail_on_data_loss: bool = True
    client: Callable[[Mapping[str, Any]], Any] | None = None
    context: Context = field(default_factory=Context)
    values: RegistryValues | None = None

    def __post_init__(self) -> None:
        text_given(self.topic, "topic")
        count_given(self.max_events, "max_events")
        if self.start not in ("earliest", "latest"):
            raise InvalidArgumentError(f"start={self.start!r}: it is earliest or latest")
        if self.client is None and not _BROKERS & set(map_given(self.config, "config")):
            raise InvalidArgumentError(
                "config names no broker: give bootstrap.servers (--kafka bootstrap.servers=host:9092)"
            )

    def next(self, after: Checkpoint, schema: pa.Schema | None, spark: Any) -> Batch | None:
        """Return the next events; see `Source`.

        Raises:
            UnavailableError: the brokers don't answer.
            NotFoundError: there is no such topic, or events are gone that follow the checkpoint; with a registry, it
                has no schema of the topic.
            NotSupportedError: a Spark session is given.
            SetupError: confluent-kafka isn't installed.
            InvalidArgumentError: the client doesn't take a setting.
        """
        if spark is not None:
            raise NotSupportedError("a topic is read by this process: ingest without spark")
        settings = {
            "group.id": "pudi-ingest",
            **self.config,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        consumer = (self.client or _consumer)(settings)
        try:
            return self._next(consumer, after, schema)
        finally:
            consumer.close()

    def _next(self, consumer: Any, after: Checkpoint, schema: pa.Schema | None) -> Batch | None:
        bounds = self._bounds(consumer)
        begin = self._begin(bounds, after)
        end = _shared(begin, {number: high for number, (_, high) in bounds.items()}, self.max_events)
        values, positions = self._consumed(consumer, begin, end)
        first = after.value is None and begin == end  # where `latest` was is to be kept
        if begin == end and not first:
            return None
        if self.values is not None:
            parsed = self.values.parse(values, self.topic)
        else:
            lines = [value.replace(b"\n", b" ") for value in values]
            parsed = parse_json(lines, range(len(lines)), schema, self.topic, self.topic)
        more = any(end[number] < bounds[number][1] for number in end)
        origin = f"{sum(end.values()) - sum(begin.values())} offsets of topic {self.topic}"
        reached = replace(after, value=offsets_text(self.topic, end), version=2, seen=())
        return Batch(parsed.rows, reached, _placed(parsed.bad, positions, self.topic), more, origin)

    def _bounds(self, consumer: Any) -> dict[int, tuple[int, int]]:
        """Return the oldest and the next offset of each partition."""
        try:
            found = consumer.list_topics(self.topic, timeout=_TIMEOUT_S).topics.get(self.topic)
            known = found is not None and found.error is None
            bounds = {
                number: consumer.get_watermark_offsets(_partition(self.topic, number), timeout=_TIMEOUT_S)
                for number in (sorted(found.partitions) if known else ())
            }
        except SetupError:
            raise
        except Exception as error:  # the client's, which isn't imported here
            brokers = ", ".join(str(self.config[name]) for name in sorted(_BROKERS & set(self.config)))
            raise UnavailableError(
                f"the brokers of topic {self.topic!r} ({brokers}) don't answer within {_TIMEOUT_S:g} s: {error}"
            ) from error
        if not bounds:
            raise NotFoundError(f"there is no topic {self.topic!r}")
        return bounds

    def _begin(self, bounds: Mapping[int, tuple[int, int]], after: Checkpoint) -> dict[int, int]:
        known = {} if after.value is None else parsed_offsets(after.value, self.topic)
        latest = after.value is None and self.start == "latest" and after.reset is None
        begin = {}
        for number, (low, high) in bounds.items():
            wanted = known.get(number, high if latest else low)  # a partition that is new has only new events
            if wanted < low and self.fail_on_data_loss:
                raise NotFoundError(
                    f"topic {self.topic!r}, partition {number}: offsets {wanted} to {low - 1} are gone; they were not "
                    "taken in. Give another checkpoint, or fail_on_data_loss=False to go on with the oldest"
                )
            if wanted > high:
                raise InvalidArgumentError(
                    f"topic {self.topic!r}, partition {number}: the checkpoint is at {wanted}, and the topic ends at "
                    f"{high}: the topic was created again, or it is another one. Give another checkpoint"
                )
            begin[number] = max(wanted, low)
        return begin

    def _consumed(
        self, consumer: Any, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> tuple[list[bytes], list[tuple[int, int]]]:
        """Return values of events with their partition and offset, ordered by these."""
        open_ones = {number for number in begin if begin[number] < end[number]}
        events: list[tuple[int, int, bytes]] = []
        if open_ones:
            consumer.assign([_partition(self.topic, number, begin[number]) for number in sorted(open_ones)])
        clock = self.context.clock
        heard = clock.monotonic()
        while open_ones:
            messages = consumer.consume(_CHUNK, timeout=1.0)
            if messages:
                heard = clock.monotonic()
            elif clock.monotonic() - heard > _TIMEOUT_S:
                raise UnavailableError(f"topic {self.topic!r}: partitions {sorted(open_ones)} give no events")
            for message in messages:
                number, offset, error = message.partition(), message.offset(), message.error()
                if error is not None:
                    if _is_end(error):  # what is left to `end` are marks of transactions
                        open_ones.discard(number)
                        continue
                    raise UnavailableError(f"topic {self.topic!r}: {error}")
                if offset < end[number] and message.value() is not None:
                    events.append((number, offset, message.value()))
                if offset >= end[number] - 1:
                    open_ones.discard(number)
        events.sort(key=lambda each: each[:2])
        return [value for _, _, value in events], [(number, offset) for number, offset, _ in events]


def offsets_text(topic: str, offsets: Mapping[int, int]) -> str:
    """Return a checkpoint of a topic (KafkaOffsetGen.CheckpointUtils.offsetsToStr)."""
    return ",".join([topic, *(f"{number}:{offset}" for number, offset in sorted(offsets.items()))])


def parsed_offsets(text: str, topic: str) -> dict[int, int]:
    """Return the offsets of a checkpoint.

    Raises:
        InvalidArgumentError: it is none, or of another topic.
    """
    name, *pairs = text.split(",")
    try:
        found = {int(number): int(offset) for number, _, offset in (pair.partition(":") for pair in pairs)}
    except ValueError:
        found = {}
    if name != topic or not found or min(found.values()) < 0:
        raise InvalidArgumentError(
            f"the checkpoint {text[:200]!r} isn't one of topic {topic!r}, which is {topic},partition:offset,…"
        )
    return found


def _shared(begin: Mapping[int, int], high: Mapping[int, int], most: int) -> dict[int, int]:
    """Return the end of a batch, limited to a number of events that partitions share evenly."""
    end = dict(begin)
    left = most
    while left > 0:
        unfinished = [number for number in end if end[number] < high[number]]
        if not unfinished:
            break
        share = max(1, left // len(unfinished))
        for number in unfinished:
            taken = min(share, high[number] - end[number], left)
            end[number] += taken
            left -= taken
    return end


def _placed(bad: tuple[BadRecord, ...], positions: list[tuple[int, int]], topic: str) -> tuple[BadRecord, ...]:
    """Return bad records, whose positions are numbers of events, with their partitions and offsets."""
    return tuple(
        replace(each, source=f"{topic}-{positions[each.position][0]}", position=positions[each.position][1])
        for each in bad
    )


def _consumer(settings: Mapping[str, Any]) -> Any:
    try:
        from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415 - optional
    except ImportError:
        raise SetupError("a Kafka source needs confluent-kafka: pip install 'pudi[kafka]'") from None
    try:
        return Consumer(dict(settings))
    except (KafkaException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"config: the Kafka client doesn't take it: {error}") from error


def _partition(topic: str, number: int, offset: int | None = None) -> Any:
    try:
        from confluent_kafka import TopicPartition  # noqa: PLC0415 - optional
    except ImportError:
        raise SetupError("a Kafka source needs confluent-kafka: pip install 'pudi[kafka]'") from None
    return TopicPartition(topic, number) if offset is None else TopicPartition(topic, number, offset)


def _is_end(error: Any) -> bool:
    from confluent_kafka import KafkaError  # noqa: PLC0415 - optional

    return bool(error.code() == KafkaError._PARTITION_EOF)
