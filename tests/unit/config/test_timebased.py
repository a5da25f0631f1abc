"""Settings of folders named by time, from a table's properties and a writer's options."""

from __future__ import annotations

import pytest

from pudi.config import timebased
from pudi.errors import InvalidArgumentError, NotSupportedError

PREFIX = "hoodie.keygen.timebased."
KIND = {f"{PREFIX}timestamp.type": "DATE_STRING"}


def test_without_a_type_there_are_none() -> None:
    assert timebased({f"{PREFIX}output.dateformat": "yyyy"}, {}) is None


@pytest.mark.parametrize(
    ("formats", "delimiter", "expected"),
    [
        ("yyyy-MM-dd, yyyy", None, ("yyyy-MM-dd", "yyyy")),
        ("yyyy|yyyy-MM", r"\|", ("yyyy", "yyyy-MM")),
        ("yyyy ; yyyy-MM,", "[;,]", ("yyyy", "yyyy-MM")),
        ("yyyy", ";", ("yyyy",)),
        ("", ",", ()),
    ],
)
def test_formats_are_split(formats: str, delimiter: str | None, expected: tuple[str, ...]) -> None:
    properties = {**KIND, f"{PREFIX}input.dateformat": formats}
    if delimiter is not None:
        properties[f"{PREFIX}input.dateformat.list.delimiter.regex"] = delimiter
    found = timebased(properties, {})
    assert found is not None
    assert found.input_formats == expected


@pytest.mark.parametrize("delimiter", ["(a+)+", ".", "a|b", "\\w", "^,"])
def test_patterns_as_delimiters_are_refused(delimiter: str) -> None:
    key = f"{PREFIX}input.dateformat.list.delimiter.regex"
    with pytest.raises(NotSupportedError, match="delimiter"):
        timebased({**KIND, f"{PREFIX}input.dateformat": "yyyy", key: delimiter}, {})


def test_the_table_decides_and_options_fill_in() -> None:
    zone = f"{PREFIX}timezone"
    output = f"{PREFIX}output.timezone"
    found = timebased({**KIND, output: "Asia/Tokyo"}, {zone: "UTC"})
    assert found is not None
    assert (found.input_zone, found.output_zone) == ("UTC", "Asia/Tokyo")
    found = timebased({**KIND, zone: "UTC", output: "Asia/Tokyo"}, {})
    assert found is not None
    assert (found.input_zone, found.output_zone) == ("UTC", "UTC")
    found = timebased(KIND, {})
    assert found is not None
    assert (found.input_zone, found.output_zone) == (None, None)
    old = {"hoodie.deltastreamer.keygen.timebased.timestamp.type": "SCALAR"}
    assert timebased(old, {}) is not None


def test_all_is_a_writers_where_the_table_says_nothing() -> None:
    given = {f"{PREFIX}timestamp.type": "SCALAR", f"{PREFIX}timestamp.scalar.time.unit": "DAYS"}
    found = timebased({}, given)
    assert found is not None
    assert (found.kind, found.unit) == ("SCALAR", "DAYS")
    settled = timebased({f"{PREFIX}timestamp.type": "SCALAR"}, given)
    assert settled is not None
    assert settled.unit == "SECONDS"


def test_types_that_hudi_does_not_have() -> None:
    with pytest.raises(InvalidArgumentError, match=r"timestamp\.type"):
        timebased({f"{PREFIX}timestamp.type": "DAYS"}, {})
