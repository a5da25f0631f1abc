"""SQL on one machine means what it means on Spark: each expression gives the same there, or is refused by name.

The table has nulls, NaN, letters beyond ASCII, the greatest and least numbers, and times near midnight.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

import pudi
from support.sql_functions import cases, of_local, of_spark

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
_BATCH = 30


def _is_near(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_near, one, other))
    if one == other:
        return True
    return isinstance(one, str) and isinstance(other, str) and math.isclose(float(one), float(other), rel_tol=2e-15)


ALL = cases()
TAKEN = [case for case in ALL if case.spark is not None]


def test_there_is_a_case_of_each_kind() -> None:
    assert len(ALL) > 1200
    assert {case.local for case in ALL} == {"equal", "close", "refused", "error"}
    assert len({case.sql for case in ALL}) == len(ALL)


@pytest.mark.parametrize("begin", range(0, len(TAKEN), _BATCH))
def test_one_machine_gives_what_spark_gives(begin: int) -> None:
    pytest.importorskip("duckdb")
    wanted = TAKEN[begin : begin + _BATCH]
    found = of_local(wanted)
    differing = [
        (case.sql, case.spark, answer)
        for case, answer in zip(wanted, found, strict=True)
        if not (answer == case.spark or (case.local == "close" and _is_near(answer, case.spark)))
    ]
    assert differing == []


def test_what_has_no_translation_is_refused_by_name() -> None:
    pytest.importorskip("duckdb")
    for case in [each for each in ALL if each.local == "refused"][::2]:
        with pytest.raises(pudi.NotSupportedError, match=r"as Spark does: \w+"):
            of_local([case])


def test_a_value_without_room_in_its_type_is_an_error() -> None:
    pytest.importorskip("duckdb")
    for case in [each for each in ALL if each.local == "error"]:
        with pytest.raises(pudi.InvalidArgumentError, match=r"^SQL"):
            of_local([case])


@pytest.mark.spark
def test_spark_gives_what_is_stored(tmp_path: Path, spark: Any) -> None:
    if not spark.version.startswith("3.5"):
        pytest.skip("the answers are those of Spark 3.5 without ANSI mode")
    wanted = [case for case in ALL if case.spark is not None and case.form != "query"][::8]
    assert of_spark(spark, tmp_path, wanted) == [case.spark for case in wanted]


def _names(title: str) -> set[str]:
    section = PAGE.read_text().partition("## Functions on one machine")[2].partition("\n## ")[0]
    line = next(each for each in section.splitlines() if each.startswith(f"| {title} "))
    return set(re.findall(r"`(\w+)`", line.split("|")[2]))


def test_the_page_names_each_function() -> None:
    from pudi.statement.translate import aggregates, expressions, nested, numbers, texts, times

    assert _names("numbers") == {*numbers.NUMBERS}
    assert _names("texts") == {*texts.TEXTS}
    assert _names("days and times") == {*times.TIMES, "timestampadd", "timestampdiff"}
    assert _names("conversions") == {*expressions.FUNCTIONS} - {
        *numbers.NUMBERS,
        *texts.TEXTS,
        *times.TIMES,
        *nested.ANY,
    }
    assert _names("any type, arrays, maps, structs") == {*nested.ANY, "struct", "explode"}
    assert _names("aggregates") == {*aggregates.AGGREGATES}
    assert _names("windows") == {*aggregates.WINDOWS}


def test_the_page_names_functions_that_are_refused() -> None:
    pytest.importorskip("duckdb")
    refused = _names("refused")
    assert len(refused) > 30
    for name in refused:
        with pytest.raises(pudi.NotSupportedError, match=name):
            pudi.sql(f"SELECT {name}(1, 2)")
