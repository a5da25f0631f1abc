"""The kinds of indexes: one line each, in the order in which they are built."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.indexes.bloom_filters import BloomFilters
from pudi.indexes.column_stats import ColumnStats
from pudi.indexes.expression_index import ExpressionIndexes
from pudi.indexes.kind import IndexKind
from pudi.indexes.record_index import RecordIndex
from pudi.indexes.secondary_index import SecondaryIndexes
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.index_defs import IndexRequest

KINDS: list[IndexKind] = [
    RecordIndex(),
    ColumnStats(),
    BloomFilters(),
    SecondaryIndexes(),
    ExpressionIndexes(),
]


def find_kind(partition: str) -> IndexKind | None:
    """Return the kind of index of a partition of the metadata table; None for `files` and companions of indexes."""
    return next((kind for kind in KINDS if kind.type.includes(partition)), None)


def by_kind(partitions: Collection[str]) -> Iterator[tuple[IndexKind, list[str]]]:
    """Yield each kind of index with its own among some partitions of the metadata table."""
    for kind in KINDS:
        yield kind, [name for name in partitions if kind.type.includes(name)]


def kind_of(partition: str) -> IndexKind:
    """Return the kind of index of a partition of the metadata table.

    Raises:
        NotSupportedError: this release has no such kind of index.
    """
    kind = find_kind(partition)
    if kind is None:
        raise NotSupportedError(
            f"{partition}: this release of pudi knows no such index; use Apache Hudi's CREATE INDEX"
        )
    return kind


def open_builder(work: Building) -> IndexBuilder:
    """Return the builder of the index that a user asks for, with the index's full definition in `work.spec`.

    Raises:
        InvalidArgumentError: the table does not support such an index.
        NotSupportedError: this release can't build it.
    """
    builder = kind_of(work.spec.partition).builder(work)
    builder.work = replace(work, spec=builder.spec())
    return builder


def kind_requested(request: IndexRequest, table: str) -> IndexKind:
    """Return the kind of index that a user asks for.

    Raises:
        InvalidArgumentError: there is no such kind.
    """
    for kind in KINDS:
        if kind.accepts(request):
            return kind
    known = ", ".join(kind.name for kind in KINDS if kind.accepts(IndexRequest(kind.name)))
    raise InvalidArgumentError(f"{request.kind!r} is no kind of index: it is {known}", table=table)


def is_record_level(partition: str) -> bool:
    """Return whether a partition has entries for single records, which are only useful if they are complete."""
    kind = find_kind(partition)
    return kind is not None and kind.is_record_level


def build_order(partition: str) -> int:
    """Return a partition's place in the order in which indexes are built."""
    return next((place for place, kind in enumerate(KINDS) if kind.type.includes(partition)), len(KINDS))
