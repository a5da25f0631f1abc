"""Verbs of a `Table` about its indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pudi.client import CommitResult
from pudi.context.lazy import lazy_module
from pudi.table.base import VerbGroup
from pudi.table.verbs import engine_of

if TYPE_CHECKING:
    from pudi.indexing import index_request, indexing
else:
    index_request = lazy_module("pudi.indexing.index_request")
    indexing = lazy_module("pudi.indexing.indexing")


class IndexVerbs(VerbGroup):
    """Verbs of `Table` about indexes."""

    def create_index(
        self,
        kind: str,
        columns: str | Sequence[str] | None = None,
        name: str | None = None,
        expr: str | None = None,
        *,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Build an index of the table while writers continue; create the metadata table if there is none.

        Every commit that completes after the start of the build is added to the index. Readers use it once it's
        complete. If the process dies, the next writer removes its files; `run_pending` or the same call builds the
        index again.

        Args:
            kind: `record_index` (where each record key is; with `hoodie.metadata.record.level.index.enable=true` for
                each partition by itself), `column_stats` (with them those of partitions), `bloom_filters` (of the
                record keys of base files), or `secondary_index` (the record keys of each value of a column).
            columns: columns of `column_stats`, None for the first ones; the one column of a secondary index, or that
                an expression is made of.
            name: of a secondary or expression index; None for the column's.
            expr: a function, as Hudi calls it (`from_unixtime`, `lower`, …): `column_stats` or `bloom_filters` are kept
                of its values.
            spark: a session to build it on; None for this machine.
            options: options of this call, over those of the `Table`, including settings of the function by Hudi's
                names, such as `format`.

        Returns:
            What was written to the metadata table.

        Raises:
            InvalidArgumentError: the table has the index already, or can't have it; nothing was written.
            NotSupportedError: this release can't write the table, or this kind of index.
            ConflictError: another process is building it, or writers got in the way; nothing of it stays.
        """
        own, settings = index_request.split_options(options)
        meta, resolved = self._for_call(own)
        request = index_request.IndexRequest(kind, index_request.names_of(columns), name, expr, settings)
        spec = index_request.requested_index(request, meta.config.version, resolved, meta.storage.root)
        return indexing.create_index(meta, engine_of(None, spark), spec, resolved)

    def drop_index(self, name: str, *, options: Mapping[str, str] | None = None) -> None:
        """Drop an index, or what a process that died left of it; with `column_stats` those of partitions go.

        Args:
            name: its full name, as `indexes` gives it; of secondary and expression indexes also without
                `secondary_index_` or `expr_index_` before it.
            options: this call's options, over those of the `Table`.

        Raises:
            InvalidArgumentError: the table does not have the index, or a secondary index needs it.
            ConflictError: another process is building it.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        indexing.drop_index(meta, index_request.partition_named(meta, name), resolved)

    def indexes(self) -> list[index_request.IndexInfo]:
        """The table's indexes by name: those that are ready, and those that are planned or being built."""
        self._meta.reload()
        return index_request.indexes_of(self._meta)
