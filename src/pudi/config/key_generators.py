"""Hudi's key generators: their names, what Hudi infers, and settings of folders named by time.

Source: `TimestampKeyGeneratorConfig`, `HoodieDateTimeParser`; Hudi stores them as they're given to the first write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pudi.config.option import Option, Value, text_of
from pudi.config.table_options import OtherTableOptions, TimebasedOptions
from pudi.errors import NotSupportedError

_PACKAGE = "org.apache.hudi.keygen."
_CLASSES = {
    "SimpleKeyGenerator": "SIMPLE",
    "SimpleAvroKeyGenerator": "SIMPLE_AVRO",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX_AVRO",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION_AVRO",
    "TimestampBasedKeyGenerator": "TIMESTAMP",
    "TimestampBasedAvroKeyGenerator": "TIMESTAMP_AVRO",
    "CustomKeyGenerator": "CUSTOM",
    "CustomAvroKeyGenerator": "CUSTOM_AVRO",
    "GlobalDeleteKeyGenerator": "GLOBAL_DELETE",
    "GlobalAvroDeleteKeyGenerator": "GLOBAL_DELETE_AVRO",
}
_EXTRACTORS = "org.apache.hudi.hive."


def type_of_class(name: str) -> str:
    """The key generator type of a class name; USER_PROVIDED for a class that is not Hudi's (`KeyGeneratorType`)."""
    return _CLASSES.get(name.removeprefix(_PACKAGE), "USER_PROVIDED")


def class_of_type(name: str) -> str | None:
    """The name of the class of a key generator type; None for one that isn't Hudi's."""
    found = next((each for each, kind in _CLASSES.items() if kind == name), None)
    return None if found is None else _PACKAGE + found


def inferred_type(record_key_fields: Sequence[str], partition_fields: Sequence[str]) -> str:
    """Return the key generator that Hudi chooses if a table names none (`KeyGenUtils.inferKeyGeneratorType`).

    Args:
        record_key_fields: names of the record key's columns.
        partition_fields: names of the partition path's columns, a custom generator's `:type` included.
    """
    if not partition_fields:
        return "NON_PARTITION"
    if ":" in partition_fields[0]:
        return "CUSTOM"
    return "SIMPLE" if len(partition_fields) == 1 and len(record_key_fields) <= 1 else "COMPLEX"


def partition_extractor(partition_fields: Sequence[str], *, hive_style: bool) -> str:
    """The hint for Hive sync that Hudi stores (`HoodieTableConfigUtils.inferPartitionValueExtractorClass`)."""
    if not partition_fields:
        return _EXTRACTORS + "NonPartitionedExtractor"
    if len(partition_fields) > 1:
        return _EXTRACTORS + "MultiPartKeysValueExtractor"
    return _EXTRACTORS + ("HiveStylePartitionValueExtractor" if hive_style else "SinglePartPartitionValueExtractor")


_DELIMITER = re.compile(r"(?:\\s[*+]?|\\[^\w\s]|\[[^\[\]\\^&]+\]|[^\\.*+?()\[\]{}|^$#])+")
ZONE, INPUT_ZONE, OUTPUT_ZONE = TimebasedOptions.zone, TimebasedOptions.input_zone, TimebasedOptions.output_zone


@dataclass(frozen=True, slots=True)
class Timebased:
    """The settings.

    Attributes:
        kind: `timestamp.type`.
        unit: `timestamp.scalar.time.unit`.
        input_formats: `input.dateformat`, split.
        output_format: `output.dateformat`.
        input_zone: id of the time zone of texts; None where the table doesn't say.
        output_zone: id of the time zone of folders; None where the table doesn't say.
    """

    kind: str
    unit: str
    input_formats: tuple[str, ...]
    output_format: str
    input_zone: str | None
    output_zone: str | None


def timebased(properties: Mapping[str, str], given: Mapping[str, Value]) -> Timebased | None:
    """The settings of a table.

    Args:
        properties: the table's; they decide.
        given: a writer's options, for settings that the table leaves open: time zones; all of them if it has no
            timestamp type, since Hudi stores none for a custom key generator.

    Returns:
        None where neither says what the timestamps are.

    Raises:
        InvalidArgumentError: a value is none that Hudi has.
        NotSupportedError: the separator is a pattern that may mean something else in Java.
    """
    settled = tells_type(properties)

    def said(declared: Option[Any]) -> str | None:
        text = _text(properties, declared)
        if text is not None:
            return text_of(declared.parse(text))
        value = None if settled else given.get(declared.key)
        return text_of(value) if value else None

    kind = said(TimebasedOptions.kind)
    if kind is None:
        return None
    return Timebased(
        kind=kind,
        unit=said(TimebasedOptions.unit) or TimebasedOptions.unit.default,
        input_formats=_split(said(TimebasedOptions.input_format) or "", said(TimebasedOptions.input_delimiter)),
        output_format=said(TimebasedOptions.output_format) or "",
        input_zone=_zone(properties, given, INPUT_ZONE),
        output_zone=_zone(properties, given, OUTPUT_ZONE),
    )


def tells_type(properties: Mapping[str, str]) -> bool:
    """Return whether a table states the type of its timestamps; Hudi's defaults then hold for other settings."""
    return _text(properties, TimebasedOptions.kind) is not None


def zone_defaults(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a new table persists so that no JVM substitutes its own time zone."""
    if properties.get(ZONE.key):
        return {}
    return {side.key: "UTC" for side in (INPUT_ZONE, OUTPUT_ZONE) if not properties.get(side.key)}


def other_parser(properties: Mapping[str, str]) -> str | None:
    """The class that the table parses dates by, where it is not Hudi's own."""
    text = _text(properties, OtherTableOptions.datetime_parser)
    return None if text == OtherTableOptions.datetime_parser.default else text


def _text(properties: Mapping[str, str], declared: Option[Any]) -> str | None:
    return next((properties[key] for key in (declared.key, *declared.aliases) if properties.get(key)), None)


def persisted_zone(properties: Mapping[str, str], side: Option[str | None]) -> str | None:
    """The time zone that a table has for one side: the one of both sides goes before (HoodieDateTimeParser)."""
    for zone in (ZONE, side):
        for key in (zone.key, *zone.aliases):
            if properties.get(key, "").strip():
                return properties[key]
    return None


def _zone(properties: Mapping[str, str], given: Mapping[str, Value], side: Option[str | None]) -> str | None:
    found = persisted_zone(properties, side)
    if found is not None:
        return found
    return ZONE.value_in(given) or side.value_in(given)


def _split(formats: str, delimiter: str | None) -> tuple[str, ...]:
    pattern = (delimiter or "").strip() or ","
    if not _DELIMITER.fullmatch(pattern):
        raise NotSupportedError(
            f"{TimebasedOptions.input_delimiter}={pattern!r}: use plain characters, escaped ones, [a set] and \\s*"
        )
    parts = re.split(pattern, formats)
    while len(parts) > 1 and not parts[-1]:  # as Java's String.split
        parts.pop()
    return tuple(part.strip() for part in parts) if formats else ()
