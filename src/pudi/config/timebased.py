"""Settings of folders named by time (`hoodie.keygen.timebased.*`): what a table says, and what a new one is to say.

Source: `TimestampKeyGeneratorConfig`, `HoodieDateTimeParser`; Hudi stores them as they're given to the first write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pudi.config.option import Value, text_of
from pudi.config.resolve import option
from pudi.errors import NotSupportedError

_PREFIX = "hoodie.keygen.timebased."
ZONE, INPUT_ZONE, OUTPUT_ZONE = f"{_PREFIX}timezone", f"{_PREFIX}input.timezone", f"{_PREFIX}output.timezone"
_DELIMITER = re.compile(r"(?:\\s[*+]?|\\[^\w\s]|\[[^\[\]\\^&]+\]|[^\\.*+?()\[\]{}|^$#])+")
_PARSER = "hoodie.keygen.datetime.parser.class"


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
        given: a writer's options, for what the table leaves open: time zones, and all where it has no type of
            timestamps, since Hudi stores none of it for a custom key generator.

    Returns:
        None where neither says what the timestamps are.

    Raises:
        InvalidArgumentError: a value is none that Hudi has.
        NotSupportedError: the separator is a pattern that may mean something else in Java.
    """
    settled = tells_type(properties)

    def said(key: str) -> str | None:
        declared = option(key)
        text = next((properties[name] for name in (key, *declared.aliases) if properties.get(name)), None)
        if text is not None:
            return text_of(declared.parse(text))
        value = None if settled else given.get(key)
        return text_of(value) if value else None

    kind = said(f"{_PREFIX}timestamp.type")
    if kind is None:
        return None
    return Timebased(
        kind=kind,
        unit=said(f"{_PREFIX}timestamp.scalar.time.unit") or "SECONDS",
        input_formats=_split(
            said(f"{_PREFIX}input.dateformat") or "", said(f"{_PREFIX}input.dateformat.list.delimiter.regex")
        ),
        output_format=said(f"{_PREFIX}output.dateformat") or "",
        input_zone=_zone(properties, given, INPUT_ZONE),
        output_zone=_zone(properties, given, OUTPUT_ZONE),
    )


def tells_type(properties: Mapping[str, str]) -> bool:
    """Whether a table says what its timestamps are, so that what else it leaves out is as Hudi's defaults have it."""
    declared = option(f"{_PREFIX}timestamp.type")
    return any(properties.get(name) for name in (declared.key, *declared.aliases))


def is_timebased(key: str) -> bool:
    """Whether a key is of these settings."""
    return key.startswith(_PREFIX)


def zone_defaults(properties: Mapping[str, str]) -> dict[str, str]:
    """What a new table says beside its properties, so that no JVM takes its own time zone."""
    if properties.get(ZONE):
        return {}
    return {key: "UTC" for key in (INPUT_ZONE, OUTPUT_ZONE) if not properties.get(key)}


def other_parser(properties: Mapping[str, str]) -> str | None:
    """The class that the table parses dates by, where it is not Hudi's own."""
    declared = option(_PARSER)
    text = next((properties[name] for name in (_PARSER, *declared.aliases) if properties.get(name)), None)
    return None if text in {None, declared.default} else text


def persisted_zone(properties: Mapping[str, str], key: str) -> str | None:
    """The time zone that a table has for one side: the one of both sides goes before (HoodieDateTimeParser)."""
    for name in (ZONE, key):
        for spelled in (name, *option(name).aliases):
            if properties.get(spelled, "").strip():
                return properties[spelled]
    return None


def _zone(properties: Mapping[str, str], given: Mapping[str, Value], key: str) -> str | None:
    found = persisted_zone(properties, key)
    if found is not None:
        return found
    value = given.get(ZONE) or given.get(key)
    return None if value is None else text_of(value)


def _split(formats: str, delimiter: str | None) -> tuple[str, ...]:
    pattern = (delimiter or "").strip() or ","
    if not _DELIMITER.fullmatch(pattern):
        raise NotSupportedError(
            f"hoodie.keygen.timebased.input.dateformat.list.delimiter.regex={pattern!r}: use plain characters, "
            "escaped ones, [a set] and \\s*"
        )
    parts = re.split(pattern, formats)
    while len(parts) > 1 and not parts[-1]:  # as Java's String.split
        parts.pop()
    return tuple(part.strip() for part in parts) if formats else ()
