"""Real Apache Hudi: tables written and read through the bundle in a Spark 3.5 session, and read by hudi-rs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.rows import Row, from_arrow, from_spark
from support.spark import to_frame

PACKAGE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"

SESSION = {
    "spark.jars.packages": PACKAGE,
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
}
"""What a session needs to hold Hudi."""

SMALL = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.simple.index.parallelism": "2",
    "hoodie.bloom.index.parallelism": "2",
}
"""Options for small tables: no metadata table, few tasks, small bloom filters."""

_OPERATIONS = {"delete_partitions": "delete_partition"}
"""Hudi's names of the verbs that pudi calls otherwise."""

_COMPLETED = re.compile(r"(\d+)(?:_(\d+))?\.(commit|deltacommit|replacecommit)")


def commits(path: Path) -> list[tuple[str, str]]:
    """Requested and completion times of a table's completed writes, by requested time.

    Below table version 8 the requested time stands for both: it's what incremental queries take.
    """
    files = [*(path / ".hoodie").iterdir(), *(path / ".hoodie").glob("timeline/*")]
    names = (_COMPLETED.fullmatch(file.name) for file in files)
    return sorted((name[1], name[2] or name[1]) for name in names if name)


@dataclass
class HudiTable:
    """One table, seen by Hudi.

    Attributes:
        spark: a session that holds the bundle.
        path: the table's folder.
        options: Hudi's write options.
    """

    spark: Any
    path: Path
    options: Mapping[str, str] = field(default_factory=dict)

    def write(
        self, verb: str, data: pa.Table, mode: str = "append", inline: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """Run a verb (`upsert`, …); the new commit's requested and completion time.

        With the options `inline`, services may make commits after it.
        """
        before = set(commits(self.path)) if (self.path / ".hoodie").exists() else set()
        frame = to_frame(self.spark, data).coalesce(1)  # one task keeps the batch's order, which decides ties
        operation = {"hoodie.datasource.write.operation": _OPERATIONS.get(verb, verb)}
        options = {**SMALL, **self.options, **(inline or {}), **operation}
        if verb == "delete_partitions":
            field = options["hoodie.datasource.write.partitionpath.field"]
            hive = options["hoodie.datasource.write.hive_style_partitioning"] == "true"
            paths = [f"{field}={value}" if hive else value for value in data[field].unique().to_pylist()]
            options["hoodie.datasource.write.partitions.to.delete"] = ",".join(paths)
        frame.write.format("hudi").options(**options).mode(mode).save(str(self.path))
        new = sorted(set(commits(self.path)) - before)
        assert len(new) == 1 or (inline and new), f"Hudi made {len(new)} commits where one was expected"
        return new[0]

    def frame(self, **options: str) -> Any:
        """The table as a Spark frame."""
        return (
            self.spark.read.format("hudi")
            .options(**{"hoodie.metadata.enable": "false", **options})
            .load(str(self.path))
        )

    def snapshot(self) -> list[Row]:
        """The table now."""
        return from_spark(self.frame())

    def as_of(self, instant: str) -> list[Row]:
        """The table as it was at a requested time."""
        return from_spark(self.frame(**{"as.of.instant": instant}))

    def changes(self, since: str | None = None, until: str | None = None) -> list[Row]:
        """Hudi's incremental query between completion times."""
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": since or "000",
        }
        if until is not None:
            options["hoodie.datasource.read.end.instanttime"] = until
        return from_spark(self.frame(**options))


def table_options(
    name: str,
    key: str | list[str],
    partition: str | list[str] | None = None,
    ordering: str | None = None,
    *,
    hive_style: bool = False,
    version: int = 9,
) -> dict[str, str]:
    """A Hudi job's options for a copy-on-write table, which it is not to upgrade."""
    fields = [key] if isinstance(key, str) else key
    folders = [partition] if isinstance(partition, str) else partition or []
    generator = "SimpleKeyGenerator" if len(fields) == 1 and len(folders) == 1 else "ComplexKeyGenerator"
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": ",".join(fields),
        "hoodie.datasource.write.partitionpath.field": ",".join(folders),
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen."
        + (generator if folders else "NonpartitionedKeyGenerator"),
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING" if ordering else "COMMIT_TIME_ORDERING",
    }
    if ordering:
        options["hoodie.table.ordering.fields"] = ordering
    return options


def hudi_rs_snapshot(path: Path) -> list[Row]:
    """The table now, read by hudi-rs."""
    from hudi import HudiTable as RustTable

    batches = RustTable(str(path)).read()
    return [row for batch in batches for row in from_arrow(pa.Table.from_batches([batch]))]
