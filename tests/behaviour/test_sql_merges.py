"""MERGE INTO gives the rows that Apache Hudi gave, or an error where Hudi gave one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.statement import local
from support.sql_merges import SCRIPTS, Script, expected, run_script

KNOWN = expected()
SCRIPTS_OF_BOTH = [pytest.param(script, id=str(n)) for n, script in enumerate(SCRIPTS) if script.name in KNOWN]


def _check(script: Script, found: dict[str, Any]) -> None:
    told = KNOWN[script.name]
    assert ("error" in found) == ("error" in told), f"{script.name}: {found}"
    assert "error" in told or found == told, script.name


@pytest.mark.sampled(60)
@pytest.mark.parametrize("script", SCRIPTS_OF_BOTH)
def test_on_this_machine(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())

    def sql(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pudi.sql(text).to_pylist()]

    _check(script, run_script(script, tmp_path / "t", sql, "merged"))


@pytest.mark.spark
@pytest.mark.sampled(6)
@pytest.mark.parametrize("script", SCRIPTS_OF_BOTH)
def test_on_spark(script: Script, tmp_path: Path, spark: Any, request: pytest.FixtureRequest) -> None:
    def sql(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    _check(script, run_script(script, tmp_path / "t", sql, f"merged_{request.node.callspec.id}"))
