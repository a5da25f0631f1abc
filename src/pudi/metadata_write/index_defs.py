"""The definitions of a table's indexes: `.hoodie/.index_defs/index.json`.

Source: HoodieIndexMetadata, HoodieTableMetaClient.buildIndexDefinition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pudi.client.meta_client import MetaClient
from pudi.client.properties import update_properties
from pudi.config import OtherTableOptions, TableConfig
from pudi.errors import CorruptError, NotFoundError
from pudi.format import INDEX_DEFS, MaxBytes
from pudi.format.metadata_partitions import partition_type
from pudi.metadata.index_spec import IndexSpec, version_said

DEFINITIONS_KEY = OtherTableOptions.index_definitions.key
"""The property that says where the definitions are."""


def read_definitions(meta: MetaClient) -> dict[str, Any]:
    """Return the definitions of a table's indexes by metadata partition; none without a file.

    Raises:
        CorruptError: the file can't be read.
    """
    try:
        content = json.loads(meta.storage.read(INDEX_DEFS, MaxBytes.DEFINITIONS))
        definitions = content["indexDefinitions"]
    except NotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(meta) from error
    if not isinstance(definitions, dict):
        raise _damaged(meta)
    return definitions


def write_definition(meta: MetaClient, spec: IndexSpec) -> None:
    """Add or replace the definition of an index, if it has one; under the table's lock."""
    if spec.type.is_defined:
        _write(meta, {**read_definitions(meta), spec.partition: _definition(spec)})


def put_definition(meta: MetaClient, spec: IndexSpec) -> None:
    """Write the definition of a table's first index; the caller puts its path into the properties."""
    _put(meta, {spec.partition: _definition(spec)})


def set_first_version(meta: MetaClient) -> None:
    """Write the version into definitions that have none, which are of the first; under the table's lock.

    Source: EightToNineUpgradeHandler.populateIndexVersionIfMissing.
    """
    definitions = read_definitions(meta)
    lacking = [name for name, each in definitions.items() if isinstance(each, dict) and each.get("version") is None]
    if lacking:
        _write(meta, {**definitions, **{name: {**definitions[name], "version": "V1"} for name in lacking}})


def delete_definition(meta: MetaClient, partition: str) -> None:
    """Delete the definition of an index, if there is one; under the table's lock."""
    definitions = read_definitions(meta)
    if definitions.pop(partition, None) is not None:
        _write(meta, definitions)


def defined_index(meta: MetaClient, partition: str) -> IndexSpec:
    """Return an index of the table by its definition.

    Raises:
        CorruptError: the definition is damaged.
        NotSupportedError: this release knows no such index.
    """
    definition = read_definitions(meta).get(partition) or {}
    if not isinstance(definition, dict):
        raise _damaged(meta)
    return spec_of(partition, definition, meta.config.version, meta.storage.root)


def spec_of(partition: str, definition: Mapping[str, Any], version: int, table: str | None) -> IndexSpec:
    """Return the index that an entry of `.hoodie/.index_defs/index.json` defines.

    Args:
        partition: the partition that the entry is about.
        definition: the entry; empty for an index without one.
        version: the table's version, which determines the index's version if the entry has none.
        table: location of the table's root, for messages.

    Raises:
        CorruptError: the entry is damaged.
        NotSupportedError: this release knows no such index.
    """
    kind = partition_type(partition)
    columns, options = definition.get("sourceFields") or [], definition.get("indexOptions") or {}
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise CorruptError(f"the definition of the index {partition} names no columns", table=table)
    if not isinstance(options, dict):
        raise CorruptError(f"the options in the definition of the index {partition} aren't a map", table=table)
    return IndexSpec(
        kind,
        partition,
        tuple(columns),
        method=str(definition.get("indexType") or "") if kind.has_methods else "",
        function=str(definition.get("indexFunction") or ""),
        options={str(key): str(value) for key, value in options.items()},
        version=version_said(definition, partition, table) or kind.version(version),
    )


def _write(meta: MetaClient, definitions: dict[str, Any]) -> None:
    """Write all definitions, and state their path, which Hudi needs (HoodieTableMetaClient.getIndexMetadata)."""
    _put(meta, definitions)
    if meta.config.raw.get(DEFINITIONS_KEY) is None:
        changed = update_properties(meta.storage, meta.context, lambda old: {**old, DEFINITIONS_KEY: INDEX_DEFS})
        meta.update_config(TableConfig.parse(changed, table=meta.storage.root))


def _put(meta: MetaClient, definitions: dict[str, Any]) -> None:
    meta.storage.put(INDEX_DEFS, json.dumps({"indexDefinitions": definitions}, indent=2).encode(), durable=True)


def _definition(spec: IndexSpec) -> dict[str, object]:
    return {
        "indexName": spec.partition,
        "indexType": spec.method or spec.type.index_name,
        "indexFunction": spec.function if spec.type.function is None else spec.type.function,
        "sourceFields": list(spec.columns),
        "indexOptions": dict(spec.options),
        "version": f"V{spec.version}",
    }


def _damaged(meta: MetaClient) -> CorruptError:
    return CorruptError("the file doesn't define indexes", table=meta.storage.root, path=INDEX_DEFS)
