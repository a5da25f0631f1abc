"""What clusterings gained, as `explain` and `doctor` say it: by column statistics, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from support.layouts import Layout

STATS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
FEW = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
SIDE = 64


def square(first: int = 0) -> pa.Table:
    """All points of a square, in no order."""
    points = np.random.default_rng(1).permutation(SIDE * SIDE)
    ids = pa.array([f"k{first + number}" for number in points])
    place = {
        "x": pa.array(points % SIDE),
        "y": pa.array(points // SIDE),
        "name": pa.array([f"n{p % 7}" for p in points]),
    }
    return pa.table({"id": ids, **place})


def made(path: Path, options: dict[str, str], layout: Layout | None = None) -> pudi.Table:
    version, kind = ("9", "cow") if layout is None else (str(layout.version), layout.kind)
    told = {"hoodie.write.table.version": version} | options
    pudi.create(path, square().schema, record_key="id", table_type="mor" if kind == "mor" else "cow", options=told)
    mine = pudi.Table(path, options=FEW | options)
    whole = square()
    for first in range(8):
        mine.bulk_insert(whole.slice(first * 512, 512))
    return mine


def clustered(mine: pudi.Table, layout: str = "zorder") -> str:
    size = sum(each.base.size for each in mine.file_slices() if each.base)
    done = mine.cluster(order_by=["x", "y"], layout=layout, options={TARGET: str(-(-size // 16))})
    assert done is not None
    return done.instant


def told(mine: pudi.Table, where: str) -> list[str]:
    lines = pudi.Table(mine.path).scan(where=where).explain().splitlines()
    return [line for line in lines if line.startswith("clustering ")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("layout", [Layout(version=v, kind=k) for v in (6, 8, 9) for k in ("cow", "mor")], ids=str)
@pytest.mark.parametrize("options", [STATS, {"hoodie.metadata.enable": "false"}], ids=["statistics", "footers"])
def test_explain_compares_with_the_files_before(tmp_path: Path, layout: Layout, options: dict[str, str]) -> None:
    mine = made(tmp_path / "square", options, layout)
    assert told(mine, "x < 6") == []
    instant = clustered(mine)
    after = len(mine.file_slices())
    for where in ("x < 6", "y >= 60", "x = 3 AND y = 3"):
        kept = len(pudi.Table(mine.path, STATS).scan(where=where).plan.slices) if options is STATS else None
        (line,) = told(mine, where)
        assert line.startswith(f"clustering  {instant} by x, y: the filter keeps ")
        assert line.endswith(f" of {after} of its files, 8 of 8 before it")
        now = int(line.split("keeps ")[1].split(" of")[0])
        assert now < after / 2
        assert kept in (None, now)
    assert told(mine, "length(name) > 1") == [] or "8 of 8 before" in told(mine, "length(name) > 1")[0]
    assert pudi.Table(mine.path).scan().explain().count("clustering") == 0


def test_nothing_is_said_without_the_statistics_of_both(tmp_path: Path) -> None:
    mine = made(tmp_path / "square", STATS)
    clustered(mine)
    mine.clean(options={"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"})
    assert told(mine, "x < 6") == []
    found = mine.doctor().clustering
    assert found is not None
    assert [each.before for each in found.overlaps] == [None, None]
    assert all(each.after is not None and each.after < 0.4 for each in found.overlaps)


def test_an_older_snapshot_sees_no_later_clustering(tmp_path: Path) -> None:
    mine = made(tmp_path / "square", STATS)
    before = mine.timeline.commits[-1].requested
    clustered(mine)
    assert "clustering" not in pudi.Table(mine.path).scan(where="x < 6", as_of=before).explain()


@pytest.mark.parametrize("options", [STATS, {"hoodie.metadata.enable": "false"}], ids=["statistics", "footers"])
def test_doctor_tells_the_last_clustering(tmp_path: Path, options: dict[str, str]) -> None:
    mine = made(tmp_path / "square", options)
    assert mine.doctor().clustering is None
    instant = clustered(mine)
    found = mine.doctor().clustering
    assert found is not None
    files = len(mine.file_slices())
    assert (found.instant, found.columns, found.layout, found.groups) == (instant, ("x", "y"), "ZORDER", 1)
    assert (found.files_before, found.files_after) == (8, files)
    for each in found.overlaps:
        assert each.before == 1
        assert each.after is not None
        assert 1 / files <= each.after <= 0.4, "of a grid of four by four files a filter keeps a column or a row"
        assert each.now == each.after
    assert not [each for each in mine.doctor().advice if "pudi cluster again" in each.text]
    shown = CliRunner().invoke(app, ["doctor", mine.path])
    assert f"clustering {instant}" in " ".join(shown.output.split()), shown.output


def test_doctor_advises_a_clustering_when_order_is_lost(tmp_path: Path) -> None:
    mine = made(tmp_path / "square", STATS)
    clustered(mine)
    more = square(first=SIDE * SIDE)
    for first in range(16):
        mine.bulk_insert(more.slice(first * 256, 256))
    advice = [each.text for each in mine.doctor().advice if "pudi cluster again" in each.text]
    assert len(advice) == 2
    assert "one value of x keeps" in advice[0]


def test_linear_order_leaves_filters_over_its_first_column_one_file(tmp_path: Path) -> None:
    mine = made(tmp_path / "square", STATS)
    clustered(mine, "linear")
    found = mine.doctor().clustering
    assert found is not None
    assert found.layout is None, "plans state only curves"
    first, second = (each.after for each in found.overlaps)
    assert first is not None
    assert second is not None
    assert first <= 2 / found.files_after
    assert second > 0.9
