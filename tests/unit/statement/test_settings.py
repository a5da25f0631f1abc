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
    before = pudi.sql("SET").to_pylist()
    with pytest.raises(pudi.NotSupportedError, match=r"spark\.sql"):
        pudi.sql(statement)
    assert pudi.sql("SET").to_pylist() == before


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


@pytest.mark.parametrize(
    "key",
    ["pudi.polaris.credential", "pudi.polaris.token", "hoodie.aws.secret.key", "hoodie.aws.access.key", "my.PASSWORD"],
)
def test_secrets_are_not_shown(key: str) -> None:
    try:
        for statement in (f"SET {key} = hush", f"SET {key}", "SET"):
            shown = {row["key"]: row["value"] for row in pudi.sql(statement).to_pylist()}
            assert shown[key] == "*********(redacted)"
            assert "hush" not in shown.values()
    finally:
        pudi.sql(f"RESET {key}")


def test_statements_about_a_table_of_duckdb_go_to_it() -> None:
    pudi.sql("CREATE TABLE kept_by_duckdb (id INT, v STRING)")
    try:
        pudi.sql("INSERT INTO kept_by_duckdb VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        pudi.sql("UPDATE kept_by_duckdb SET v = 'z' WHERE id = 2")
        pudi.sql("DELETE FROM kept_by_duckdb WHERE id = 1")
        pudi.sql(
            "MERGE INTO kept_by_duckdb t USING (SELECT 3 AS id, 'n' AS v) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v"
        )
        found = pudi.sql("SELECT * FROM kept_by_duckdb ORDER BY id").to_pylist()
        assert found == [{"id": 2, "v": "z"}, {"id": 3, "v": "n"}]
    finally:
        pudi.sql("DROP TABLE IF EXISTS kept_by_duckdb")
    for statement in ("INSERT INTO kept_by_duckdb VALUES (1, 'a')", "DROP TABLE kept_by_duckdb"):
        with pytest.raises(pudi.TableNotFoundError, match="kept_by_duckdb"):
            pudi.sql(statement)
