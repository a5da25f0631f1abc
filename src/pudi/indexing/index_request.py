"""Convert a user's request for an index into an `IndexSpec`, and list the indexes of a table.

Source: HoodieTableMetadataUtil.getSecondaryOrExpressionIndexName; HoodieSparkIndexClient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pudi.client import MetaClient
from pudi.client.inflight_builds import plan_of
from pudi.config import KEY_PREFIXES, Options
from pudi.config.arguments import map_given
from pudi.errors import InvalidArgumentError
from pudi.format import Action, State
from pudi.indexes import registry
from pudi.metadata_write.index_defs import IndexRequest, IndexSpec, defined_index

__all__ = ["IndexInfo", "IndexRequest", "indexes_of", "partition_named", "requested_index", "split_options"]


def requested_index(request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
    """Return the index that a user asks for.

    Args:
        request: the request.
        version: the table's version.
        options: the user's.
        table: location of the table's root, for messages.

    Raises:
        InvalidArgumentError: the request contradicts itself, or the table can't have the index.
    """
    return registry.kind_requested(request, table).requested(request, version, options, table)


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index of a table.

    Attributes:
        name: full name: the name of its partition of the metadata table.
        kind: as in `create_index`.
        columns: the indexed columns, if its definition has them.
        expr: the indexed function; empty for none.
        state: `ready`, `building`, or `planned`.
        instant: requested time of the plan, until the index is ready.
    """

    name: str
    kind: str
    columns: tuple[str, ...] = ()
    expr: str = ""
    state: str = "ready"
    instant: str | None = None


def partition_named(meta: MetaClient, name: str) -> str:
    """Return the partition of an index by its full name, or by its name without the prefix of its kind."""
    known = [info.name for info in indexes_of(meta)]
    prefixes = [kind.type.name for kind in registry.KINDS if kind.type.is_named]
    ends = [each for each in known if each in {f"{prefix}{name}" for prefix in prefixes}]
    if name in known or not ends:
        return name
    if len(ends) > 1:
        raise InvalidArgumentError(f"{name!r} may be {' or '.join(ends)}: give it whole", table=meta.storage.root)
    return ends[0]


def indexes_of(meta: MetaClient) -> list[IndexInfo]:
    """Return a table's indexes by name, with planned and unfinished ones.

    Raises:
        CorruptError: a definition or a plan is damaged.
    """
    timeline = meta.store.load()
    pending = {
        each.partition: instant for instant in timeline.pending_of(Action.INDEXING) for each in plan_of(meta, instant)
    }
    ready = meta.config.metadata_partitions
    names = {*ready, *meta.config.metadata_partitions_inflight, *pending}
    found = []
    for name in sorted(names):
        if registry.find_kind(name) is None:
            continue
        instant = None if name in ready else pending.get(name)
        building = instant is None or instant.state is State.INFLIGHT
        state = "ready" if name in ready else "building" if building else "planned"
        found.append(_info(defined_index(meta, name), state, None if instant is None else instant.requested))
    return found


def _info(spec: IndexSpec, state: str, instant: str | None) -> IndexInfo:
    kind = spec.method or registry.kind_of(spec.partition).name
    expr = spec.function if spec.method else ""
    return IndexInfo(spec.partition, kind, spec.columns, expr, state, instant)


def split_options(given: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Separate options (`hoodie.…`, `pudi.…`) from the settings of an index, which have no prefix."""
    both = map_given(given, "options")
    options = {key: value for key, value in both.items() if key.startswith(KEY_PREFIXES)}
    return options, {key: value for key, value in both.items() if key not in options}
