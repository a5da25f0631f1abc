"""A pudi table behind the same face as `support.hudi.HudiTable`, so that tests can swap who writes and who reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import pudi
from support.engines import Engine
from support.layouts import Layout
from support.rows import Row


@dataclass
class PudiTable:
    """One table, seen by pudi.

    Attributes:
        engine: whose frames are written and read.
        path: the table's folder.
        options: of `pudi.Table`.
    """

    engine: Engine
    path: Path
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def create(
        cls, engine: Engine, path: Path, schema: pa.Schema, layout: Layout, options: Mapping[str, str] | None = None
    ) -> PudiTable:
        """Make the table, empty."""
        pudi.create(str(path), schema, **layout.create_arguments())
        return cls(engine, path, options or {})

    @property
    def table(self) -> pudi.Table:
        return pudi.Table(str(self.path), options=dict(self.options))

    def write(self, verb: str, data: pa.Table) -> tuple[str, str]:
        """Run a verb (`upsert`, …); the new commit's requested and completion time."""
        if verb == "delete_partitions":
            result: Any = self.table.delete_partitions(partition_paths(self.table, data))
        else:
            result = getattr(self.table, verb)(self.engine.frame(data))
        assert result is not None, f"{verb} of {data.num_rows} rows made no commit"
        return result.instant, result.completion_time

    def snapshot(self) -> list[Row]:
        """The table now."""
        return self.engine.read(self.table.scan())

    def as_of(self, instant: str) -> list[Row]:
        """The table as it was at a requested time."""
        return self.engine.read(self.table.scan(as_of=instant))

    def changes(self, since: str | None = None, until: str | None = None) -> list[Row]:
        """What changed between completion times."""
        return self.engine.read(self.table.changes(since, until))


def partition_paths(table: pudi.Table, data: pa.Table) -> list[str]:
    """The partitions that rows fall into, of tables with one partition column or none."""
    fields = table.config.partition_fields
    values = data[fields[0]].unique().to_pylist() if fields else []
    return [f"{fields[0]}={value}" if table.config.hive_style else value for value in values]
