"""Describe the merge of a read's slices as one value: the merge rule, and the blocks that count."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from pudi.config import MergeMemory
from pudi.filegroup import LogScope
from pudi.merge import MergeRule
from pudi.merge.deletes import delete_columns
from pudi.record import KeyGenerator
from pudi.schema import RECORD_KEY


@dataclass(frozen=True, slots=True)
class Merging:
    """The merge of a read's slices; picklable.

    Attributes:
        rule: which version wins.
        scope: the instants whose log blocks count.
        keys: makes record keys of columns, where files have no meta fields; None where they have.
        memory: how much of it merging one slice may take.
        by_position: whether log records may be matched with base rows by the positions that blocks say.
    """

    rule: MergeRule
    scope: LogScope
    keys: KeyGenerator | None = None
    memory: MergeMemory = field(default_factory=MergeMemory)
    by_position: bool = False

    def columns(self, schema: pa.Schema) -> set[str]:
        """The columns that merging looks at."""
        if self.rule.merger is not None:
            return set(schema.names)
        wanted = {RECORD_KEY} if self.keys is None else set(self.keys.columns)
        if self.rule.compares:
            wanted |= set(self.rule.ordering_columns)
        return wanted | set(delete_columns(schema.empty_table(), self.rule.delete_marker))
