"""The definitions of a table's indexes: `.hoodie/.index_defs/index.json`.

Source: HoodieIndexMetadata, HoodieTableMetaClient.buildIndexDefinition.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pudi.action.meta_client import MetaClient
from pudi.action.properties import update_properties
from pudi.config import OtherTableOptions, TableConfig
from pudi.context.lazy import lazy_module
from pudi.errors import CorruptError, NotFoundError
from pudi.format import INDEX_DEFS, MaxBytes
from pudi.metadata.index_spec import IndexSpec

if TYPE_CHECKING:
    from pudi.action.kinds import registry
    from pudi.action.kinds.kind import IndexKind
else:
    registry = lazy_module("pudi.action.kinds.registry")

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
    """Add or replace the definition of an index, if its kind has one; under the table's lock."""
    definition = _kind_of(spec.partition).definition(spec)
    if definition is not None:
        _write(meta, {**read_definitions(meta), spec.partition: definition})


def put_definition(meta: MetaClient, spec: IndexSpec) -> None:
    """Write the definition of a table's first index; the caller puts its path into the properties."""
    _put(meta, {spec.partition: _kind_of(spec.partition).definition(spec)})


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
    """
    definition = read_definitions(meta).get(partition) or {}
    if not isinstance(definition, dict):
        raise _damaged(meta)
    return _kind_of(partition).spec_of(partition, definition, meta.config.version, meta.storage.root)


def _write(meta: MetaClient, definitions: dict[str, Any]) -> None:
    """Write all definitions, and state their path, which Hudi needs (HoodieTableMetaClient.getIndexMetadata)."""
    _put(meta, definitions)
    if meta.config.raw.get(DEFINITIONS_KEY) is None:
        changed = update_properties(meta.storage, meta.context, lambda old: {**old, DEFINITIONS_KEY: INDEX_DEFS})
        meta.update_config(TableConfig.parse(changed, table=meta.storage.root))


def _put(meta: MetaClient, definitions: dict[str, Any]) -> None:
    meta.storage.put(INDEX_DEFS, json.dumps({"indexDefinitions": definitions}, indent=2).encode(), durable=True)


def _kind_of(partition: str) -> IndexKind:
    return registry.kind_of(partition)


def _damaged(meta: MetaClient) -> CorruptError:
    return CorruptError("the file doesn't define indexes", table=meta.storage.root, path=INDEX_DEFS)
