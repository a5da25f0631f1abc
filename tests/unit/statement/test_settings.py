"""SET on this machine: what would give statements another meaning is refused, all else is kept."""

from __future__ import annotations

import pytest

import pudi

pytest.importorskip("duckdb")


@pytest.mark.parametrize(
    "statement",
    [
        "SET spark.sql.session.timeZone = Asia/Shanghai",
        "SET TIME ZONE 'Asia/Shanghai'",
        "SET TIME ZONE INTERVAL 1 HOURS",
        "SET spark.sql.ansi.enabled = false",
        "SET spark.sql.ansi.doubleQuotedIdentifiers = true",
        "SET spark.sql.caseSensitive = true",
        "SET spark.sql.parser.escapedStringLiterals = true",
        "SET spark.sql.storeAssignmentPolicy = LEGACY",
        "SET spark.sql.legacy.timeParserPolicy = LEGACY",
    ],
)
def test_another_meaning_is_refused(statement: str) -> None:
    with pytest.raises(pudi.NotSupportedError, match=r"spark\.sql"):
        pudi.sql(statement)
    assert "2024" in str(pudi.sql("SELECT CAST(TIMESTAMP '2024-01-01 00:00:00' AS STRING) AS t")["t"][0])


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("SET spark.sql.session.timeZone = UTC", "UTC"),
        ("SET TIME ZONE 'Etc/UTC'", "Etc/UTC"),
        ("SET spark.sql.ansi.enabled=TRUE", "TRUE"),
        ("SET spark.sql.shuffle.partitions = 3", "3"),
    ],
)
def test_what_means_the_same_is_kept(statement: str, value: str) -> None:
    (row,) = pudi.sql(statement).to_pylist()
    assert row["value"] == value
    assert row in pudi.sql("SET").to_pylist()
