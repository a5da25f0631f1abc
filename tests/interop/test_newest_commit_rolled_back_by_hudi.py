"""Hudi takes back the newest commit of pudi's tables, wherever the services of the metadata table have got to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from support.engines import LocalEngine
from support.hudi import HudiTable
from support.hudi_services import HudiServices
from support.layouts import Layout
from support.newest_commit import LAYOUTS, SMALL, commits
from support.pudi_table import PudiTable
from support.rows import Row, assert_same, from_spark

pytestmark = [pytest.mark.interop, pytest.mark.spark]

READ = {"hoodie.metadata.enable": "true", "hoodie.schema.on.read.enable": "true"}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_hudi_rolls_back_each_newest_commit(spark: Any, tmp_path: Path, layout: Layout) -> None:
    path, copy = tmp_path / "trips", tmp_path / "copy"
    before: list[Row] = []
    for number, newest in commits(path, layout):
        shutil.copytree(path, copy)
        hudi = HudiTable(spark, copy, layout.hudi_options("trips") | SMALL)
        HudiServices(hudi).rollback(newest, SMALL)
        assert_same(without_new(from_spark(hudi.frame(**READ))), without_new(before), about=f"commit {number}")
        shutil.rmtree(copy)
        before = PudiTable(LocalEngine(), path).snapshot()


def without_new(rows: list[Row]) -> list[Row]:
    """Rows without the columns that are null everywhere: a table without rows has none."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
