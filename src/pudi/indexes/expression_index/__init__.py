"""Expression indexes: statistics or bloom filters of a function of a column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pudi.client import MetaClient
from pudi.client.changed_groups import key_reading
from pudi.config import MetadataOptions, Options
from pudi.errors import InvalidArgumentError
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, EXPRESSION_INDEX_PREFIX, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.expression_index.build import EXPRESSION, ExpressionIndexBuilder
from pudi.indexes.expression_index.changes import (
    StagedExpression,
    expression_changes,
    expression_removals,
    expression_spec,
    index_value,
    stage_expressions,
)
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, LockedCommit, PlannedWrite, RemovedFiles
from pudi.indexes.kind import IndexKind, IndexRead, wrote_parquet
from pudi.metadata.changes import Changes
from pudi.metadata.table import PartitionSnapshot
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.index_defs import IndexRequest, IndexSpec, defined_index, named_spec
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.plan.skipping import ExpressionIndex, skip_by_expressions
from pudi.task.check_files import UNREADABLE, ExpressionCheck
from pudi.task.expression_values import ExpressionStaging

_METHODS = (COLUMN_STATS, BLOOM_FILTERS)
"""Kinds of entries that an expression index can keep."""


class ExpressionIndexes(IndexKind):
    """Statistics or bloom filters of an expression."""

    type = partition_type(EXPRESSION_INDEX_PREFIX)

    def accepts(self, request: IndexRequest) -> bool:
        """Whether the request names a function."""
        return request.expr is not None

    def requested(self, request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
        """Return the index over a function of one column."""
        function, method = (request.expr or "").strip().lower(), request.kind.strip().lower()
        if method not in _METHODS:
            raise InvalidArgumentError(f"of an expression {' or '.join(_METHODS)} are kept", table=table)
        if not re.fullmatch(r"\w+", function):
            raise InvalidArgumentError(
                f"expr={request.expr!r}: give the function's name, its column as columns=, and its settings in "
                "options, as in create_index('column_stats', 'ts', 'by_day', 'from_unixtime', "
                "options={'format': 'yyyy-MM-dd'})",
                table=table,
            )
        spec = request.over_one_column(self.type, version, table)
        settings = {EXPRESSION: function, **(request.settings or {})}
        return replace(spec, method=method, function=function, options=settings)

    def wanted(self, meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
        """The one index that the options name."""
        asked = MetadataOptions.of(options)
        if not asked.expression_index or not asked.expression_index_column:
            return
        column, name = asked.expression_index_column, asked.expression_index_name
        spec = named_spec(self.type, column, name, meta.config.version)
        settings = _settings(asked.expression_index_options or "", meta.storage.root)
        method = (asked.expression_index_type or MetadataOptions.expression_index_type.default).lower()
        yield replace(spec, method=method, function=settings.get(EXPRESSION, "identity"), options=settings)

    def builder(self, work: Building) -> IndexBuilder:
        """See `ExpressionIndexBuilder`."""
        return ExpressionIndexBuilder(work)

    def must_change(self, written: CommitMetadata) -> bool:
        """Whether the commit wrote base files of Parquet; those of unknown expressions are built by Hudi alone."""
        return wrote_parquet(written)

    def staging(self, write: PlannedWrite, partitions: Sequence[str]) -> Iterator[EntryStaging]:
        """The expressions that pudi knows are evaluated where files are written."""
        for name in partitions:
            spec = expression_spec(defined_index(write.meta, name), write.schema)
            if spec is not None:
                yield ExpressionStaging(name, spec, renames=write.history is not None)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Evaluate the expressions over the commit's files."""
        staged: tuple[StagedExpression, ...] = ()
        if commit.staging is not None and partitions:
            indexes = [defined_index(commit.meta, name) for name in partitions]
            staged = stage_expressions(commit, commit.staging, indexes)
        return _Changes(commit, staged)

    def removed(
        self, commit: IndexedCommit, files: RemovedFiles, partitions: Sequence[str]
    ) -> Mapping[str, Changes | None]:
        """The statistics and the filters of deleted files go."""
        indexes = [defined_index(commit.meta, name) for name in partitions]
        return {index.partition: expression_removals(index, files, commit.instant.requested) for index in indexes}

    def skip(self, read: IndexRead, plan: ReadPlan) -> ReadPlan:
        """Prune slices by the indexes whose expressions the predicate contains."""
        found = []
        for spec in (defined_index(read.meta, n) for n in read.table.partitions if self.type.includes(n)):
            value = index_value(spec, plan.schema)
            if value is not None and value.type is not None and spec.columns[0] not in read.millis:
                found.append(ExpressionIndex(spec.partition, spec.columns[0], value, spec.method == BLOOM_FILTERS))
        return skip_by_expressions(plan, found, read.by_keys)

    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Evaluate the expressions over all files, except those that pudi doesn't know."""
        schema = check.snapshot.schema.columns
        for name in partitions:
            try:
                spec, snapshot = (
                    expression_spec(defined_index(check.meta, name), schema),
                    PartitionSnapshot.of(check.table, name),
                )
            except UNREADABLE as error:
                yield unreadable(name, error)
                continue
            if spec is None:
                continue
            reading = key_reading(check.snapshot)
            jobs = [ExpressionCheck(n, snapshot, spec, reading, files) for n, files in enumerate(check.portions())]
            check.run(jobs)
            check.compared[f"files by {name}"] = sum(len(job.files) for job in jobs)


@dataclass(frozen=True, slots=True)
class _Changes(CommitChanges):
    """The values of a commit's files."""

    commit: IndexedCommit
    staged: tuple[StagedExpression, ...]

    def changes(self, locked: LockedCommit) -> Mapping[str, Changes | None]:
        """Return the records of each index. An index built after the preparation gets none for these files."""
        commit = self.commit
        names = sorted(name for name in locked.maintained if ExpressionIndexes.type.includes(name))
        indexes = [defined_index(commit.meta, name) for name in names]
        return expression_changes(commit, self.staged, locked, indexes)


def _settings(text: str, table: str) -> Mapping[str, str]:
    """Parse settings: `name=value`, separated by commas (HoodieMetadataConfig.getExpressionIndexOptions)."""
    found = {}
    for pair in filter(None, text.split(",")):
        name, sign, value = pair.partition("=")
        if not sign:
            raise InvalidArgumentError(
                f"{MetadataOptions.expression_index_options}: {pair!r} is no name=value", table=table
            )
        found[name.strip()] = value.strip()
    return found
