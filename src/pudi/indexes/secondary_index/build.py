"""Build a secondary index: the record keys of each value of a column.

Source: HoodieBackedTableMetadataWriter.initializeSecondaryIndexPartition,
HoodieIndexUtils.validateEligibilityForSecondaryOrExpressionIndex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pudi.client.changed_groups import key_reading
from pudi.config import MetadataOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice
from pudi.format import WriteStat, staging_dir
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.indexes.record_index.build import RecordIndexBuilder
from pudi.indexes.record_index.state import record_index_spec
from pudi.indexes.secondary_index.changes import hashes_whole_keys
from pudi.metadata.record_index import may_be_secondary, secondary_value
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import IndexBuilder, group_ids
from pudi.metadata_write.client import Stats
from pudi.metadata_write.index_defs import IndexSpec
from pudi.schema import avro_to_arrow
from pudi.task.index_entries import SecondaryReading
from pudi.task.index_keys import KeyTask, ShardTask
from pudi.task.staged_keys import StagedKeys, portions_by_shard, staged_of

IDENTITY = "identity"
"""Function of a definition that stands for a column's own values (HoodieExpressionIndex.IDENTITY_TRANSFORM)."""


@dataclass(slots=True)
class SecondaryIndexBuilder(IndexBuilder):
    """Builds a secondary index."""

    _count: int = field(default=0, init=False)

    def spec(self) -> IndexSpec:
        """The index over one column of the table; see `IndexBuilder`."""
        work, meta = self.work, self.work.meta
        root, name = meta.storage.root, work.spec.partition
        if meta.config.version < work.spec.type.since:
            raise NotSupportedError(
                f"{name}: tables of version {meta.config.version} have no secondary indexes: Table.upgrade",
                table=root,
            )
        if len(work.spec.columns) != 1:
            raise InvalidArgumentError(f"{name}: a secondary index is over one column", table=root)
        kind = leaf_type(avro_to_arrow(work.snapshot.schema.avro), work.spec.columns[0])
        if kind is None:
            raise InvalidArgumentError(f"{name}: the table has no column {work.spec.columns[0]!r}", table=root)
        if not may_be_secondary(kind):
            raise InvalidArgumentError(
                f"{name}: no secondary index is made over column {work.spec.columns[0]!r} of type {kind}; texts, "
                "numbers, dates and points in time have them",
                table=root,
            )
        if RECORD_INDEX not in meta.config.metadata_partitions:
            raise InvalidArgumentError(
                f"{name}: a secondary index leads to record keys, which a record index finds; make that one first, "
                f"or give option {MetadataOptions.record_index}=true",
                table=root,
            )
        return replace(work.spec, function=IDENTITY)

    def groups(self) -> Sequence[str]:
        """Return as many file groups as for a record index, which has as many entries."""
        record_index = RecordIndexBuilder(replace(self.work, spec=record_index_spec(partitioned=False)))
        self._count = len(record_index.groups())
        return group_ids(self.work.spec.partition, self._count)

    def fill(self) -> Stats:
        """Write each pair of value and key, by tasks: no key passes through this process."""
        return {self.work.spec.partition: self._bases(self._staged(self.work.slices()))}

    def _staged(self, slices: Sequence[FileSlice]) -> list[StagedKeys]:
        work, spec = self.work, self.work.spec
        reading = SecondaryReading(key_reading(work.snapshot), spec.columns[0])
        folder, value = staging_dir(work.requested), secondary_value()
        whole = hashes_whole_keys(spec)
        jobs = [
            KeyTask(n, reading, "", value, self._count, f"{folder}/{spec.partition}-{n}", None, each, whole_key=whole)
            for n, each in enumerate(slices)
        ]
        return staged_of(work.run(jobs))

    def _bases(self, staged: Sequence[StagedKeys]) -> tuple[WriteStat, ...]:
        ids, work = group_ids(self.work.spec.partition, self._count), self.work
        tasks = []
        for number, ((_, shard), portions) in enumerate(portions_by_shard(staged).items()):
            target = FileSlice(work.spec.partition, ids[shard], None)
            layout = work.meta.store.layout
            tasks.append(ShardTask(number, work.requested, layout, target, portions, bootstrap=True))
        return tuple(stat for result in work.run(tasks) for stat in result.stats)
