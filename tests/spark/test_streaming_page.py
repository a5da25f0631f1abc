"""The examples of docs/streaming.md, run in order on one session: also the pipeline of three tables by Spark."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import pudi

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "streaming.md"


def test_the_examples_run_and_add_up(tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {"pudi": pudi, "spark": spark, "folder": str(tmp_path)}
    rows = [{"id": n, "city": f"c{n % 3}", "fare": float(n % 5), "ts": n} for n in range(30)]
    rows += [{"id": n, "city": f"c{n % 3}", "fare": 7.0, "ts": 100 + n} for n in range(4)]
    (tmp_path / "incoming").mkdir()
    for number, part in enumerate((rows[:20], rows[20:])):
        (tmp_path / "incoming" / f"{number}.json").write_text("\n".join(map(json.dumps, part)), encoding="utf-8")
        for block in blocks:
            exec(block, names)
        latest = {row["id"]: row for row in rows[: 20 if number == 0 else None]}
        expected: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        for row in latest.values():
            if row["fare"] > 0:
                fares, trips = expected[row["city"]]
                expected[row["city"]] = fares + row["fare"], trips + 1
        found = pudi.Table(tmp_path / "cities").scan(["city", "fares", "trips"]).to_arrow().to_pylist()
        assert {row["city"]: (row["fares"], row["trips"]) for row in found} == expected
    assert capsys.readouterr().out.splitlines() == ["0 20 records", "1 14 records"]
