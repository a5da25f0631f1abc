"""The examples of the pages on bringing data in run, in their order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips_parquet" / "city=nyc").mkdir(parents=True)
    rows = pa.table({"uuid": ["a", "b"], "ts": [1, 2], "fare": [5.0, 15.0]})
    pq.write_table(rows, tmp_path / "trips_parquet" / "city=nyc" / "part.parquet")
    names: dict[str, object] = {}
    for block in blocks("bootstrap.md"):
        exec(block, names)
    assert pudi.Table("trips").partitions() == ["city=nyc"]
    assert (tmp_path / "expensive" / "part-00000.csv").read_text().splitlines()[1].endswith('"b",2,15,"nyc"')


def test_ingestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "landing").mkdir()
    rows = [{"uuid": "a", "ts": 1, "fare": 5.4}, {"uuid": "b", "ts": 2, "fare": 15.6}]
    (tmp_path / "landing" / "one.json").write_text("\n".join([*map(json.dumps, rows), "{"]))
    names: dict[str, object] = {}
    for number, block in enumerate(blocks("ingestion.md")):
        exec(block, names)
        if not number:
            assert json.loads(capsys.readouterr().out)["bad"] == 1
            (tmp_path / "landing" / "one.json").write_text("\n".join(map(json.dumps, rows)))
    assert pudi.Table("trips").scan(meta_fields=False).to_arrow().sort_by("uuid").to_pylist() == rows
    found = pudi.Table("fares").scan(meta_fields=False).to_arrow().sort_by("uuid").to_pylist()
    assert found == [{"uuid": "a", "twice": 10.0}, {"uuid": "b", "twice": 30.0}]
