"""Build an expression index: the values of all files, and of whole partitions.

Source: HoodieBackedTableMetadataWriter.initializeExpressionIndexPartition,
HoodieIndexUtils.validateEligibilityForSecondaryOrExpressionIndex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pudi.client.changed_groups import key_reading
from pudi.config import MetadataOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS
from pudi.indexes.column_stats.statistics import of_whole_partitions
from pudi.indexes.expression_index.changes import (
    compute_values,
    concat_changes,
    expression_spec,
    stats_of_values,
)
from pudi.metadata import column_stats_records, partition_stats_records
from pudi.metadata.changes import Changes, bloom_changes, encode_changes
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import IndexBuilder, group_ids, write_bases
from pudi.metadata_write.client import Stats, open_metadata
from pudi.metadata_write.index_defs import IndexSpec
from pudi.schema import avro_to_arrow
from pudi.task.expression_values import ExpressionSpec, IndexedValues

EXPRESSION = "expr"
"""The setting that names the function (HoodieExpressionIndex.EXPRESSION_OPTION)."""


@dataclass(slots=True)
class ExpressionIndexBuilder(IndexBuilder):
    """Builds an expression index."""

    def spec(self) -> IndexSpec:
        """The index over an expression of one column; see `IndexBuilder`."""
        work, asked = self.work, self.work.spec
        meta, name, table = work.meta, asked.partition, work.meta.storage.root
        if meta.config.version < work.spec.type.since:
            raise NotSupportedError(
                f"{name}: tables of version {meta.config.version} have no expression indexes: Table.upgrade",
                table=table,
            )
        if len(asked.columns) != 1:
            raise InvalidArgumentError(f"{name}: an expression index is over one column", table=table)
        method = asked.method or COLUMN_STATS
        if method not in {COLUMN_STATS, BLOOM_FILTERS}:
            raise InvalidArgumentError(
                f"{name}: an expression index keeps {COLUMN_STATS} or {BLOOM_FILTERS}, not {method!r}", table=table
            )
        schema = avro_to_arrow(work.snapshot.schema.avro)
        kind = leaf_type(schema, asked.columns[0])
        if kind is None:
            raise InvalidArgumentError(f"{name}: the table has no column {asked.columns[0]!r}", table=table)
        function = asked.function or asked.options.get(EXPRESSION, "identity")
        options = {EXPRESSION: function, **asked.options} if function != "identity" else dict(asked.options)
        full = replace(asked, method=method, function=function, options=options)
        if expression_spec(full, schema) is None:
            said = ", ".join(f"{key}={value}" for key, value in options.items())
            raise NotSupportedError(
                f"{name}: pudi makes no expression index of {function} over column {asked.columns[0]!r} of type {kind} "
                f"({said}); use Apache Hudi's CREATE INDEX",
                table=table,
            )
        return full

    def groups(self) -> Sequence[str]:
        """Return as many file groups as the option says."""
        return group_ids(self.work.spec.partition, self.work.options[MetadataOptions.expression_index_groups])

    def fill(self) -> Stats:
        """Write the values of the table's files, and of whole partitions."""
        work = self.work
        schema = avro_to_arrow(work.snapshot.schema.avro)
        spec = expression_spec(work.spec, schema)
        assert spec is not None, "by spec()"
        slices = work.slices()
        files = [file for each in slices for file in each.files]
        kept = compute_values(work.run, key_reading(work.snapshot), spec, files)
        changes = self._changes(spec, kept, slices)
        if changes is None:
            return {work.spec.partition: ()}
        mdt = open_metadata(work.meta)
        return {
            work.spec.partition: write_bases(mdt, work.requested, work.spec.partition, self.groups(), changes.sorted())
        }

    def _changes(
        self, spec: ExpressionSpec, kept: Sequence[IndexedValues], slices: Sequence[FileSlice]
    ) -> Changes | None:
        if spec.bloom is not None:
            filters = [(each.partition, each.file, each.instant, each.bloom) for each in kept if each.bloom is not None]
            return bloom_changes(filters) if filters else None
        stats = stats_of_values(kept)
        if not stats.num_rows:
            return None
        parts = [encode_changes(column_stats_records(stats, spec.version))]
        if self.work.meta.config.is_partitioned:
            whole = of_whole_partitions(stats, slices, pa.schema([(spec.column, spec.value.type)]))
            parts.append(encode_changes(partition_stats_records(whole, spec.version, of_expression=True)))
        return concat_changes(parts)
