"""Make the secondary and expression index that options ask for, before a write, as Hudi's writers do.

Source: HoodieTableMetadataUtil.getIndexPartitionsToInit, getSecondaryOrExpressionIndexName.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pudi.action.mdt.build import next_instant, set_partitions
from pudi.action.mdt.builders import builder_of
from pudi.action.mdt.building import Building, build_whole
from pudi.action.mdt.index_defs import write_definition
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.config import Options
from pudi.errors import InvalidArgumentError
from pudi.format import staging_dir
from pudi.metadata.index_spec import IndexKind, IndexSpec
from pudi.metadata.records import FILES
from pudi.storage import delete_folder
from pudi.task import Engine

_PREFIX = "hoodie.metadata.index"
_KINDS = {"secondary": IndexKind.SECONDARY_INDEX, "expression": IndexKind.EXPRESSION_INDEX}


def build_named_indexes(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Before a write: make the secondary and the expression index that the user asks for, where there are none.

    Args:
        meta: the table, with a metadata table; without one nothing is done.
        engine: who does the work.
        options: the writer's.

    Raises:
        InvalidArgumentError: the table can't have such an index.
    """
    for spec in _wanted(meta, options):
        if FILES not in meta.config.metadata_partitions or spec.partition in meta.config.metadata_partitions:
            continue
        with meta.lock:
            meta.reload()
            ready = meta.config.metadata_partitions
            if FILES in ready and spec.partition not in ready:
                _build(meta, engine, options, spec, ready)


def _build(meta: MetaClient, engine: Engine, options: Options, spec: IndexSpec, ready: tuple[str, ...]) -> None:
    timeline = meta.store.load()
    requested = next_instant(meta, timeline)
    builder = builder_of(Building(meta, engine, options, spec, timeline, requested))
    full = builder.spec()
    builder = builder_of(Building(meta, engine, options, full, timeline, requested))
    heart = Heartbeat(meta.storage, requested, meta.context, options.integer("hoodie.client.heartbeat.interval_in_ms"))
    set_partitions(meta, ready=ready, building=(spec.partition,))
    heart.start()
    try:
        made = build_whole(builder)
    finally:
        heart.stop()
        delete_folder(meta.storage, staging_dir(requested))
    write_definition(meta, full)
    set_partitions(meta, ready=(*ready, *(name for name in made if name not in ready)), building=())


def _wanted(meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
    """The indexes that options name: Hudi makes one of each kind at a time."""
    for word, kind in _KINDS.items():
        column = options.optional_text(f"{_PREFIX}.{word}.column")
        enabled = options.given.get(f"{_PREFIX}.{word}.enable")
        if not column or enabled is False or (kind is IndexKind.EXPRESSION_INDEX and enabled is not True):
            continue
        name = options.optional_text(f"{_PREFIX}.{word}.name") or column
        partition = name if name.startswith(kind.value) else kind.value + name
        spec = IndexSpec(kind, partition, (column,), version=kind.version(meta.config.version))
        if kind is IndexKind.EXPRESSION_INDEX:
            spec = _of_expression(spec, options, meta.storage.root)
        yield spec


def _of_expression(spec: IndexSpec, options: Options, table: str) -> IndexSpec:
    settings = _settings(options.optional_text(f"{_PREFIX}.expression.options") or "", table)
    method = (options.optional_text(f"{_PREFIX}.expression.type") or "column_stats").lower()
    return IndexSpec(
        spec.kind, spec.partition, spec.columns, method, settings.get("expr", "identity"), settings, spec.version
    )


def _settings(text: str, table: str) -> Mapping[str, str]:
    """Settings as `name=value`, with commas between them (HoodieMetadataConfig.getExpressionIndexOptions)."""
    found = {}
    for pair in filter(None, text.split(",")):
        name, sign, value = pair.partition("=")
        if not sign:
            raise InvalidArgumentError(f"{_PREFIX}.expression.options: {pair!r} is no name=value", table=table)
        found[name.strip()] = value.strip()
    return found
