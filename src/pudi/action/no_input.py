"""Writes without input records: they change what is in the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pudi.action.write import Write


@dataclass(frozen=True, slots=True)
class NoRecords:
    """Stands in for the records of a write."""

    counts: Mapping[str, int] = field(default_factory=dict)
    record_bytes: float | None = None

    def release(self) -> None:
        """Nothing is held."""


@dataclass
class WriteWithoutInput(Write):
    """A write that takes no records in."""

    def _prepare_input(self, data: Any, schema: pa.Schema) -> NoRecords:
        return NoRecords()

    def _is_noop(self, records: Any) -> bool:
        return False

    def _next_schema(self, records: Any) -> str:
        return self.schema_before
