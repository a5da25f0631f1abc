"""Makes golden tables with real Apache Hudi: `make golden`, or `python tests/golden/make.py NAME…`.

Needs PySpark 3.5 and Java; the bundle comes through Ivy. Each table is a list of writes; what Hudi reads back goes to
`expected/NAME.json`, the table itself to `NAME.zip`. Times and file names differ with each run: a table made anew is a
new table, so make only what is missing (the default) or what you name.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from support import spark as spark_support
from support.golden import FOLDER
from support.hudi import SESSION, HudiTable, commits, table_options
from support.rows import Row, from_spark, text
from support.trips import Step, steps, table, trip

KEY, CITY, TIME = "uuid", "city", "ts"


@dataclass(frozen=True)
class Recipe:
    """One table to make."""

    writes: list[Step]
    options: dict[str, str] = field(default_factory=dict)


def _numbered(first: int, count: int, ts: int, **also: Any) -> list[dict[str, Any]]:
    return [trip(number, ts, **also) for number in range(first, first + count)]


RECIPES = {
    "cow_v9_complexkey": Recipe(
        list(steps(seed=11, count=5)),
        table_options("cow_v9_complexkey", [KEY, "leg"], [CITY, "rider"], TIME, hive_style=True),
    ),
    "cow_v9_commit_time": Recipe(
        list(steps(seed=12, count=5)), table_options("cow_v9_commit_time", KEY, CITY, hive_style=True)
    ),
    "cow_v9_utc": Recipe(
        list(steps(seed=13, count=4)),
        table_options("cow_v9_utc", KEY, None, TIME) | {"hoodie.table.timeline.timezone": "UTC"},
    ),
    "cow_v9_duplicates": Recipe(
        [
            Step("bulk_insert", table(_numbered(0, 10, 10) + _numbered(5, 5, 20))),
            Step("insert", table(_numbered(0, 3, 30) + _numbered(20, 3, 30))),
        ],
        table_options("cow_v9_duplicates", KEY, CITY, TIME),
    ),
    "cow_v9_null_partition": Recipe(
        [
            Step("upsert", table([*_numbered(0, 5, 10), trip(7, 10) | {CITY: None}, trip(8, 10, city="a/b")])),
            Step("upsert", table([*_numbered(0, 2, 20), trip(7, 20) | {CITY: None}, trip(8, 20, city="a/b")])),
            Step("delete", table([trip(7, 0) | {CITY: None}, trip(0, 0)])),
        ],
        table_options("cow_v9_null_partition", KEY, CITY, TIME),
    ),
}


def _answer(frame: Any) -> dict[str, Any]:
    rows: list[Row] = sorted(from_spark(frame), key=text)
    return {"schema": frame.schema.jsonValue(), "rows": rows}


def make(spark: Any, name: str, recipe: Recipe, folder: Path) -> None:
    """Write the table, ask Hudi all queries, pack both."""
    hudi = HudiTable(spark, folder / name, recipe.options)
    for step in recipe.writes:
        hudi.write(step.verb, step.data)
    expected: dict[str, Any] = {
        "name": name,
        "hudi": "1.2.0",
        "options": dict(sorted(recipe.options.items())),
        "instants": [[requested, completed, "commit"] for requested, completed in commits(hudi.path)],
        "snapshot": _answer(hudi.frame()),
    }
    for requested, _ in commits(hudi.path):
        expected[f"as_of:{requested}"] = _answer(hudi.frame(**{"as.of.instant": requested}))
    for since in ["000", *(completed for _, completed in commits(hudi.path))]:
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": since,
        }
        expected[f"incremental_after:{since}"] = _answer(hudi.frame(**options))
    (FOLDER / "expected" / f"{name}.json").write_text(json.dumps(expected, sort_keys=True, ensure_ascii=False), "utf-8")
    with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(hudi.path.rglob("*")):
            if not file.name.endswith(".crc"):
                archive.write(file, file.relative_to(folder))


def main(names: list[str]) -> None:
    """Make the named tables, or all that are missing."""
    unknown = set(names) - set(RECIPES)
    if unknown:
        sys.exit(f"no recipe for {', '.join(sorted(unknown))}; there are {', '.join(RECIPES)}")
    wanted = names or [name for name in RECIPES if not (FOLDER / f"{name}.zip").exists()]
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_support.start(Path(folder), SESSION)
        for name in wanted:
            make(spark, name, RECIPES[name], Path(folder))
            print(f"made {name}: {(FOLDER / f'{name}.zip').stat().st_size // 1024} KiB")
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
