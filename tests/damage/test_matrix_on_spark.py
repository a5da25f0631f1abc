"""A sample of the damage matrix on Spark: its own reader and its tasks meet damage that the local engine's don't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.engines import Engine
from support.matrix.judge import WrongRows, cases, judge
from support.matrix.tables import Made, make, rows

pytestmark = [
    pytest.mark.metadata_by_default,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),
]

KINDS = [
    ("cow9", "base parquet", "scan"),
    ("cow6 unlisted", "base parquet", "upsert"),
    ("mor9 unlisted", "log parquet", "scan"),
    ("mor6", "log delete", "compact"),
    ("mor9", "metadata files log hfile", "upsert"),
    ("mor9 indexed", "metadata record_index base hfile", "upsert"),
]
DAMAGES = ["gone", "nothing", "one byte less", "half", "garbage", "replaced"]


def verbs_of(engine: Engine) -> dict[str, Any]:
    """The verbs on Spark."""
    spark = engine.spark  # type: ignore[attr-defined]

    def expect(table: Any, expected: dict[str, str]) -> None:
        found = [(row["k"], row["v"]) for row in engine.read(table.scan(["k", "v"]))]
        if len(found) != len(expected) or dict(found) != expected:
            raise WrongRows(f"rows {sorted(found)} where {expected} is right")

    def scan(made: Made, table: Any) -> None:
        expect(table, made.now)

    def upsert(made: Made, table: Any) -> None:
        table.upsert(engine.frame(rows(90, "new", 0, 9, 10)))
        expect(table, made.now | {"k00": "new0", "k09": "new9", "k10": "new10"})

    def compact(made: Made, table: Any) -> None:
        table.compact(spark=spark)
        expect(table, made.now)

    return {"scan": scan, "upsert": upsert, "compact": compact}


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize(("name", "kind", "verb"), KINDS)
def test_damaged_files(engine: Engine, tmp_path: Path, name: str, kind: str, verb: str) -> None:
    (tmp_path / "made").mkdir()
    made, verbs = make(tmp_path / "made", name), verbs_of(engine)
    some = [each for each in cases(made, name, kind) if each[0].verb == verb and each[0].damage in DAMAGES]
    assert len(some) >= 5
    found = [(str(case), judge(made, case, file, damage, tmp_path, verbs)) for case, file, damage in some]
    assert [(case, wrong) for case, wrong in found if wrong is not None] == []
