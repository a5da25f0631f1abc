"""Events of Avro whose schemas are in a schema registry, by confluent-kafka's client (AvroKafkaSource)."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
import pyarrow as pa

from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError, SetupError, UnavailableError
from pudi.ingest.parsing import MOST_SHOWN, Parsed, check_count
from pudi.ingest.source import BadRecord
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
