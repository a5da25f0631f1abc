"""CREATE TABLE … LIKE, comments, and what DROP TABLE … PURGE leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.statement import local

COMMENTED = """
CREATE TABLE t (id INT COMMENT 'the key', name STRING COMMENT 'it\\'s', tags ARRAY<STRING>, ts BIGINT, dt STRING)
USING hudi COMMENT 'a \\\\ b' TBLPROPERTIES (type = 'mor', primaryKey = 'id', orderingFields = 'ts', own = 'x y',
hoodie.index.type = 'BLOOM', hoodie.table.cdc.enabled = 'true') PARTITIONED BY (dt) LOCATION '{}'
"""


@pytest.fixture
def commented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table `t` that has comments and options."""
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(COMMENTED.format(tmp_path / "t"))
    return tmp_path


def _rows(text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pudi.sql(text).to_pylist()]


def test_show_create_table_makes_the_same_table(commented: Path) -> None:
    described, shown = _rows("DESCRIBE t"), pudi.sql("SHOW CREATE TABLE t")["createtab_stmt"][0].as_py()
    pudi.sql("DROP TABLE t PURGE")
    assert list(commented.iterdir()) == []
    pudi.sql(shown)
    assert _rows("DESCRIBE t") == described
    assert [row[2] for row in described if row[2]] == ["the key", "it's", "comment"]
    assert pudi.sql("SHOW CREATE TABLE t")["createtab_stmt"][0].as_py() == shown
    assert "\nCOMMENT 'a \\\\ b'\n" in shown
    assert "own = 'x y'" in shown


def test_comments_follow_their_columns(commented: Path) -> None:
    pudi.sql("ALTER TABLE t RENAME COLUMN name TO label")
    pudi.sql("ALTER TABLE t DROP COLUMN tags")
    pudi.sql("ALTER TABLE t ADD COLUMNS (tags INT)")
    pudi.sql("ALTER TABLE t ALTER COLUMN tags COMMENT 'new'")
    pudi.sql("ALTER TABLE t RENAME TO u")
    comments = {row[0]: row[2] for row in _rows("DESCRIBE u") if row[2] and row[0][0] != "#"}
    assert comments == {"id": "the key", "label": "it's", "tags": "new"}
    with pytest.raises(pudi.NotSupportedError, match="comments are kept with the name"):
        pudi.sql(f"ALTER TABLE hudi.`{commented}/t` ALTER COLUMN id COMMENT 'x'")


def test_options_of_the_other_table_are_taken_over(commented: Path) -> None:
    pudi.sql(f"CREATE TABLE u LIKE t USING hudi LOCATION '{commented}/u'")
    one, other = pudi.Table(commented / "t"), pudi.Table(commented / "u")
    assert other.schema.equals(one.schema)
    names = (
        "record_key_fields",
        "ordering_fields",
        "partition_fields",
        "table_type",
        "cdc_enabled",
        "record_merge_mode",
    )
    assert {name: getattr(other.config, name) for name in names} == {name: getattr(one.config, name) for name in names}
    properties = dict(_rows("SHOW TBLPROPERTIES u"))
    assert properties["hoodie.index.type"] == "BLOOM"
    assert "own" not in properties
    assert "COMMENT 'a" not in pudi.sql("SHOW CREATE TABLE u")["createtab_stmt"][0].as_py()


def test_keys_of_its_own_replace_those_of_the_other_table(commented: Path) -> None:
    made = {
        "merge_mode": "hoodie.record.merge.mode = 'COMMIT_TIME_ORDERING', primaryKey = 'id', orderingFields = 'ts'",
        "kinds": "hoodie.datasource.write.partitionpath.field = 'dt:simple', primaryKey = 'id'",
    }
    for name, properties in made.items():
        table = "(id INT, ts BIGINT, n INT, dt STRING) USING hudi PARTITIONED BY (dt)"
        pudi.sql(f"CREATE TABLE {name} {table} TBLPROPERTIES ({properties}) LOCATION '{commented}/{name}'")
        pudi.sql(f"CREATE TABLE {name}_b LIKE {name} USING hudi LOCATION '{commented}/{name}_b'")
        pudi.sql(
            f"CREATE TABLE {name}_c LIKE {name} USING hudi TBLPROPERTIES (primaryKey = 'id,n', preCombineField = 'n') "
            f"LOCATION '{commented}/{name}_c'"
        )
    found = {path.name: pudi.Table(path).config for path in commented.iterdir()}
    assert found["merge_mode_b"].record_merge_mode == "COMMIT_TIME_ORDERING"
    assert found["merge_mode_c"].record_merge_mode == "EVENT_TIME_ORDERING"
    assert found["merge_mode_c"].record_key_fields == ("id", "n")
    assert found["kinds_b"].key_generator_type == found["kinds"].key_generator_type == "CUSTOM"


@pytest.mark.spark
def test_a_table_like_one_of_another_format(spark: Any, tmp_path: Path) -> None:
    spark.sql(
        "CREATE TABLE plain_of_spark (id INT COMMENT 'the key', name STRING, dt STRING) USING parquet "
        f"PARTITIONED BY (dt) LOCATION '{tmp_path}/p'"
    )
    try:
        pudi.spark.sql(
            spark,
            "CREATE TABLE like_plain LIKE plain_of_spark USING hudi TBLPROPERTIES (primaryKey = 'id') "
            f"LOCATION '{tmp_path}/t'",
        )
        described = [tuple(row) for row in pudi.spark.sql(spark, "DESCRIBE like_plain").collect()]
        pudi.spark.sql(spark, "DROP TABLE like_plain")
    finally:
        spark.sql("DROP TABLE plain_of_spark")
    assert ("id", "int", "the key") in described
    config = pudi.Table(tmp_path / "t").config
    assert (config.record_key_fields, config.partition_fields) == (("id",), ("dt",))
