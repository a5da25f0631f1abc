"""Who builds which kind of index."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.action.mdt.build_blooms import BloomFiltersBuilder
from pudi.action.mdt.build_index import RecordIndexBuilder
from pudi.action.mdt.build_stats import ColumnStatsBuilder
from pudi.action.mdt.building import Building, IndexBuilder
from pudi.errors import NotSupportedError
from pudi.metadata.index_spec import IndexKind

BUILDERS: Mapping[IndexKind, Callable[[Building], IndexBuilder]] = {
    IndexKind.RECORD_INDEX: RecordIndexBuilder,
    IndexKind.COLUMN_STATS: ColumnStatsBuilder,
    IndexKind.BLOOM_FILTERS: BloomFiltersBuilder,
}
"""Builders by kind of index."""


def builder_of(work: Building) -> IndexBuilder:
    """The builder of an index.

    Raises:
        NotSupportedError: this release doesn't build the kind.
    """
    make = BUILDERS.get(work.spec.kind)
    if make is None:
        raise NotSupportedError(
            f"pudi doesn't build indexes of the kind {work.spec.kind.value.rstrip('_')} yet ({work.spec.partition}): "
            "use Apache Hudi's CREATE INDEX",
            table=work.meta.storage.root,
        )
    return make(work)
