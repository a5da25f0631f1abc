"""The table layouts that the suites combine: keys, partitions and ordering, as pudi, Hudi and the model take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from support.hudi import table_options
from support.model import Model
from support.model_mor import MergeOnReadModel


@dataclass(frozen=True)
class Layout:
    """One way to lay out a table of trips.

    Attributes:
        key: `simple` (uuid) or `complex` (uuid, leg).
        folders: `plain` (by city), `hive` (by city, hive style) or `flat` (not partitioned).
        merging: `event` (ordered by ts) or `commit`.
        version: version of the table's format.
        kind: `cow` or `mor`.
    """

    key: str = "simple"
    folders: str = "plain"
    merging: str = "event"
    version: int = 9
    kind: str = "cow"

    def __str__(self) -> str:
        newest = "" if self.version == 9 else f"-v{self.version}"
        kind = "" if self.kind == "cow" else f"-{self.kind}"
        return f"{self.key}-{self.folders}-{self.merging}{newest}{kind}"

    @property
    def key_fields(self) -> list[str]:
        return ["uuid"] if self.key == "simple" else ["uuid", "leg"]

    @property
    def partition_fields(self) -> list[str]:
        return [] if self.folders == "flat" else ["city"]

    @property
    def ordering(self) -> str | None:
        return "ts" if self.merging == "event" else None

    def model(self, *, logs_first: bool = False) -> Model:
        """The table's model; `logs_first` where a merge-on-read table puts new records into log files (buckets)."""
        described = self.key_fields, self.partition_fields, self.ordering, self.folders == "hive"
        if self.kind == "cow":
            return Model(*described)
        return MergeOnReadModel(*described, logs_first=logs_first)

    def create_arguments(self) -> dict[str, Any]:
        """Arguments of `pudi.create` beside path and schema."""
        options = {"hoodie.datasource.write.hive_style_partitioning": "true"} if self.folders == "hive" else {}
        if self.version != 9:
            options["hoodie.write.table.version"] = str(self.version)
        return {
            "record_key": self.key_fields,
            "partition_by": self.partition_fields or None,
            "ordering": self.ordering,
            "table_type": self.kind,
            "options": options,
        }

    def hudi_options(self, name: str) -> dict[str, str]:
        """A Hudi job's options."""
        hive = self.folders == "hive"
        options = table_options(
            name, self.key_fields, self.partition_fields, self.ordering, hive_style=hive, version=self.version
        )
        kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[self.kind]
        return options | {"hoodie.datasource.write.table.type": kind}


KEYS = ("simple", "complex")
FOLDERS = ("plain", "hive", "flat")
MERGING = ("event", "commit")
ALL = [Layout(*values) for values in product(KEYS, FOLDERS, MERGING)]
FEW = [Layout(), Layout("complex", "hive", "commit"), Layout("complex", "flat", "event")]
"""Three layouts that hold each value at least once."""
MERGED = [Layout("simple", "plain", "event", 9, "mor"), Layout("complex", "hive", "commit", 6, "mor")]
"""Two merge-on-read layouts."""


def pairwise(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Few combinations that hold every pair of values of every two factors; the same ones each time."""
    places = list(combinations(range(len(factors)), 2))
    whole = list(product(*factors))
    open_pairs = {(i, row[i], j, row[j]) for row in whole for i, j in places}
    chosen = []
    while open_pairs:
        best = max(whole, key=lambda row: len({(i, row[i], j, row[j]) for i, j in places} & open_pairs))
        open_pairs -= {(i, best[i], j, best[j]) for i, j in places}
        chosen.append(best)
    return chosen
