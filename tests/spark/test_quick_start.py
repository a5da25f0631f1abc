"""Hudi's quick start as docs/quick-start.md has it, top to bottom, on the Spark of this environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi.spark

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "quick-start.md"


@pytest.fixture
def names(spark: Any, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the page takes for granted: a session, a warehouse, and two paths."""
    before = {row[0] for row in spark.sql("SET").collect()}
    spark.conf.set("pudi.sql.warehouse", str(tmp_path / "warehouse"))
    yield {"spark": spark, "base_path": str(tmp_path / "trips"), "cdc_path": str(tmp_path / "changes")}
    for key in {row[0] for row in spark.sql("SET").collect()} - before:
        spark.conf.unset(key)


def test_the_page(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    spark = names["spark"]
    for language, text in re.findall(r"```(python|sql|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if language == "python":
            exec(text, names)
        elif language == "sql":
            for statement in filter(str.strip, text.split(";")):
                shown = pudi.spark.sql(spark, statement)
            shown.show()
        else:
            said = capsys.readouterr().out
            assert said.rstrip().endswith(text.rstrip()), said
    assert pudi.spark.sql(spark, "SHOW INDEXES FROM hudi_indexed_table").collect() == []
    changed = {row[0]: row[1] for row in names["changed"].select("rider", "fare").collect()}
    assert changed == {"rider-A": 19.1, "rider-C": 27.7, "rider-D": 339.0, "rider-J": 17.85}
    found = pudi.spark.sql(spark, "SELECT rider FROM hudi_indexed_table WHERE driver = 'driver-N'").collect()
    assert [row[0] for row in found] == ["rider-B"]
