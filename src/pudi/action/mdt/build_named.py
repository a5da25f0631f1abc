"""The secondary and expression index that options ask for, which are made before a write, as by Hudi's writers.

Source: HoodieTableMetadataUtil.getIndexPartitionsToInit, getSecondaryOrExpressionIndexName.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pudi.action.meta_client import MetaClient
from pudi.config import Options
from pudi.errors import InvalidArgumentError
from pudi.metadata.index_spec import IndexKind, IndexSpec

_PREFIX = "hoodie.metadata.index"
_KINDS = {"secondary": IndexKind.SECONDARY_INDEX, "expression": IndexKind.EXPRESSION_INDEX}


def named_indexes_asked(meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
    """The secondary and the expression index that a writer's options name: Hudi makes one of each kind at a time.

    Args:
        meta: the table.
        options: the writer's.

    Raises:
        InvalidArgumentError: settings make no sense.
    """
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
