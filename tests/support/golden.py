"""Golden tables: archives of what Apache Hudi wrote, beside what the same Hudi then read back.

`tests/golden/NAME.zip` holds a table in the folder NAME, `tests/golden/expected/NAME.json` queries and their rows in
the plain form of `support.rows`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_UTF8 = 0x800

FOLDER = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class Golden:
    """One golden table, not unpacked."""

    name: str

    @property
    def archive(self) -> Path:
        return FOLDER / f"{self.name}.zip"

    def expected(self) -> dict[str, Any]:
        """Everything that Hudi said of the table."""
        return _expected(self.name)

    def queries(self) -> list[str]:
        """The queries that Hudi answered or refused: `snapshot`, `as_of:T`, `incremental_after:T`, `cdc_after:T`."""
        return [name for name, value in self.expected().items() if isinstance(value, dict) and name != "options"]

    def unpack(self, folder: Path) -> Path:
        """Unzip below `folder`; the table's path. A table that is there already is not unzipped again."""
        path = folder / self.name
        if not path.exists():
            with zipfile.ZipFile(self.archive) as archive:
                for entry in archive.infolist():
                    if not entry.flag_bits & _UTF8:  # the names are UTF-8 even where the archive doesn't say so
                        entry.filename = entry.filename.encode("cp437").decode("utf-8")
                    archive.extract(entry, folder)
        return path


@cache
def _expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "expected" / f"{name}.json").read_text("utf-8"))
    return found


def tables(prefix: str) -> list[Golden]:
    """All golden tables whose names begin with `prefix`."""
    return [Golden(path.stem) for path in sorted(FOLDER.glob(f"{prefix}*.zip"))]


def queries(of: Iterable[Golden]) -> list[Any]:
    """Parameter sets of engine (indirect), table and query: every query of the tables on either engine.

    On Spark each table's snapshot and one of its incremental queries are for every run; the others are for the full
    product. Queries for change data have no counterpart yet.
    """
    cases = []
    for table in of:
        kinds = {"read_optimized", "as_of"}
        for query in table.queries():
            kind = query.partition(":")[0]
            if kind == "cdc_after":
                continue
            name = f"{table.name}-{query}"
            cases.append(pytest.param("local", table, query, id=f"local-{name}"))
            marks = [pytest.mark.spark, *([pytest.mark.slow] if kind in kinds else [])]
            cases.append(pytest.param("spark", table, query, id=f"spark-{name}", marks=marks))
            kinds.add(kind)
    return cases
