"""What a user asks of an index: kind, columns, name and settings in, an `IndexSpec` out; and what a table has.

Source: HoodieTableMetadataUtil.getSecondaryOrExpressionIndexName; HoodieSparkIndexClient.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pudi.action.mdt.index_defs import defined_index
from pudi.action.mdt.inflight_builds import plan_of
from pudi.action.meta_client import MetaClient
from pudi.config import KEY_PREFIXES, MetadataOptions, Options
from pudi.errors import InvalidArgumentError
from pudi.format import Action, State
from pudi.metadata.index_spec import IndexKind, IndexSpec, record_index_spec

_KINDS = {
    "record_index": IndexKind.RECORD_INDEX,
    "column_stats": IndexKind.COLUMN_STATS,
    "bloom_filters": IndexKind.BLOOM_FILTERS,
    "secondary_index": IndexKind.SECONDARY_INDEX,
}
_METHODS = ("column_stats", "bloom_filters")
"""What can be kept of an expression."""
_IDENTITY = "identity"
_EXPRESSION = "expr"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An index as a user asks for it.

    Attributes:
        kind: `record_index`, `column_stats`, `bloom_filters` or `secondary_index`.
        columns: the columns that it's made of.
        name: its name, where a table may have several of the kind.
        expr: the function whose values statistics or bloom filters are kept of.
        settings: settings of the function by Hudi's names, such as `format`.
    """

    kind: str
    columns: tuple[str, ...] = ()
    name: str | None = None
    expr: str | None = None
    settings: Mapping[str, str] | None = None

    def spec(self, table_version: int, options: Options, table: str) -> IndexSpec:
        """The index.

        Args:
            table_version: version of the table.
            options: the user's.
            table: location of the table's root, for messages.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        kind = _KINDS.get(self.kind.strip().lower())
        if kind is None:
            raise InvalidArgumentError(f"{self.kind!r} is no kind of index: it is {', '.join(_KINDS)}", table=table)
        if self.expr is not None:
            return self._of_expression(kind, table_version, table)
        if self.settings:
            raise InvalidArgumentError(f"an index {self.kind} has no setting {min(self.settings)!r}", table=table)
        if kind is IndexKind.SECONDARY_INDEX:
            partition, column = self._named(kind, table)
            version = kind.version(table_version)
            return IndexSpec(kind, partition, (column,), function=_IDENTITY, version=version)
        if self.name is not None and self.name != kind.value:
            raise InvalidArgumentError(f"a table has one {kind.value} at most, which has that name", table=table)
        if self.columns and kind is not IndexKind.COLUMN_STATS:
            raise InvalidArgumentError(f"an index {kind.value} is over record keys: it takes no columns", table=table)
        if kind is IndexKind.RECORD_INDEX:
            return record_index_spec(partitioned=options.explicit(MetadataOptions.partitioned_record_index) is True)
        return IndexSpec(kind, kind.value, self.columns, version=kind.version(table_version))

    def _of_expression(self, method: IndexKind, table_version: int, table: str) -> IndexSpec:
        function = (self.expr or "").strip().lower()
        if method.value not in _METHODS:
            raise InvalidArgumentError(f"of an expression {' or '.join(_METHODS)} are kept", table=table)
        if not re.fullmatch(r"\w+", function):
            raise InvalidArgumentError(
                f"expr={self.expr!r}: give the function's name, its column as columns=, and its settings in options, "
                "as in create_index('column_stats', 'ts', 'by_day', 'from_unixtime', options={'format': 'yyyy-MM-dd'})",
                table=table,
            )
        kind = IndexKind.EXPRESSION_INDEX
        partition, column = self._named(kind, table)
        options = {_EXPRESSION: function, **(self.settings or {})}
        return IndexSpec(kind, partition, (column,), method.value, function, options, kind.version(table_version))

    def _named(self, kind: IndexKind, table: str) -> tuple[str, str]:
        """The partition's name, and the one column."""
        if len(self.columns) != 1:
            raise InvalidArgumentError("such an index is over one column: name it", table=table)
        name = self.name or self.columns[0]
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(f"{name!r} can't be an index's name: letters, digits, _ . and -", table=table)
        return (name if name.startswith(kind.value) else f"{kind.value}{name}"), self.columns[0]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index of a table.

    Attributes:
        name: its full name, that of its partition of the metadata table.
        kind: as in `create_index`.
        columns: the columns that it's made of, as far as it says.
        expr: the function that it's over; empty for none.
        state: `ready`, `building`, or `planned`.
        instant: requested time of the plan, while it's not ready.
    """

    name: str
    kind: str
    columns: tuple[str, ...] = ()
    expr: str = ""
    state: str = "ready"
    instant: str | None = None


def partition_named(meta: MetaClient, name: str) -> str:
    """The partition of the index that a user calls by its full name, or without what the kind puts before."""
    known = [info.name for info in indexes_of(meta)]
    ends = [each for each in known if (kind := IndexKind.of(each)) and kind.is_named and each == f"{kind.value}{name}"]
    if name in known or not ends:
        return name
    if len(ends) > 1:
        raise InvalidArgumentError(f"{name!r} may be {' or '.join(ends)}: give it whole", table=meta.storage.root)
    return ends[0]


def indexes_of(meta: MetaClient) -> list[IndexInfo]:
    """A table's indexes by name, those that are planned or being built among them.

    Raises:
        CorruptError: a definition or a plan makes no sense.
    """
    timeline = meta.store.load()
    pending = {
        each.partition: instant
        for instant in timeline.of(Action.INDEXING, State.REQUESTED, State.INFLIGHT)
        for each in plan_of(meta, instant)
    }
    ready = meta.config.metadata_partitions
    names = {*ready, *meta.config.metadata_partitions_inflight, *pending}
    found = []
    for name in sorted(names):
        if IndexKind.of(name) is None:
            continue
        instant = None if name in ready else pending.get(name)
        building = instant is None or instant.state is State.INFLIGHT
        state = "ready" if name in ready else "building" if building else "planned"
        found.append(_info(defined_index(meta, name), state, None if instant is None else instant.requested))
    return found


def _info(spec: IndexSpec, state: str, instant: str | None) -> IndexInfo:
    kind = spec.method or spec.kind.value.rstrip("_")
    expr = spec.function if spec.kind is IndexKind.EXPRESSION_INDEX else ""
    return IndexInfo(spec.partition, kind, spec.columns, expr, state, instant)


def split_options(given: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """A user's options: those of Hudi and pudi, and settings of an index, which have no such prefix."""
    options = {key: value for key, value in (given or {}).items() if key.startswith(KEY_PREFIXES)}
    return options, {key: value for key, value in (given or {}).items() if key not in options}


def names_of(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Columns that are given as one name, several or none."""
    return (columns,) if isinstance(columns, str) else tuple(columns or ())
