"""A pudi table and its model, written together and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from support.engines import Engine
from support.layouts import Layout
from support.model import Model
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow
from support.trips import SCHEMA, table, trip

NINE = [trip(number, 10) for number in range(9)]


class Pair:
    """The two, empty at first."""

    def __init__(self, engine: Engine, path: Path, layout: Layout) -> None:
        self.pudi = PudiTable.create(engine, path, SCHEMA, layout)
        self.model: Model = layout.model()

    def write(self, verb: str, data: pa.Table | list[dict[str, Any]]) -> str:
        """Run a verb on both; the commit's requested time."""
        data = table(data) if isinstance(data, list) else data
        done = self.pudi.write(verb, data)
        getattr(self.model, verb)(from_arrow(data), *done)
        return done[0]

    def check(self, about: str = "snapshot") -> list[Row]:
        """Compare the snapshots."""
        rows = self.pudi.snapshot()
        assert_same(rows, self.model.snapshot(), PLACE_FIELDS, about)
        return rows
