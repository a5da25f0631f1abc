"""The secondary and expression index that options ask for, which are made before a write, as by Hudi's writers.

Source: HoodieTableMetadataUtil.getIndexPartitionsToInit, getSecondaryOrExpressionIndexName.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pudi.action.meta_client import MetaClient
from pudi.config import MetadataOptions, Options
from pudi.errors import InvalidArgumentError
from pudi.metadata.index_spec import IndexKind, IndexSpec


def named_indexes_asked(meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
    """The secondary and the expression index that a writer's options name: Hudi makes one of each kind at a time.

    Args:
        meta: the table.
        options: the writer's.

    Raises:
        InvalidArgumentError: settings make no sense.
    """
    asked = MetadataOptions.of(options)
    if asked.secondary_index and (column := asked.secondary_index_column):
        yield _spec(meta, IndexKind.SECONDARY_INDEX, column, asked.secondary_index_name)
    if asked.expression_index and (column := asked.expression_index_column):
        spec = _spec(meta, IndexKind.EXPRESSION_INDEX, column, asked.expression_index_name)
        settings = _settings(asked.expression_index_options or "", meta.storage.root)
        method = (asked.expression_index_type or MetadataOptions.expression_index_type.default).lower()
        yield replace(spec, method=method, function=settings.get("expr", "identity"), options=settings)


def _spec(meta: MetaClient, kind: IndexKind, column: str, name: str | None) -> IndexSpec:
    name = name or column
    partition = name if name.startswith(kind.value) else kind.value + name
    return IndexSpec(kind, partition, (column,), version=kind.version(meta.config.version))


def _settings(text: str, table: str) -> Mapping[str, str]:
    """Settings as `name=value`, with commas between them (HoodieMetadataConfig.getExpressionIndexOptions)."""
    found = {}
    for pair in filter(None, text.split(",")):
        name, sign, value = pair.partition("=")
        if not sign:
            raise InvalidArgumentError(
                f"{MetadataOptions.expression_index_options}: {pair!r} is no name=value", table=table
            )
        found[name.strip()] = value.strip()
    return found
