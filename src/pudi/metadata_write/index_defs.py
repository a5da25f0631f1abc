"""The definitions of a table's indexes: as values, as users ask for them, and in `.hoodie/.index_defs/index.json`.

Source: HoodieIndexDefinition, HoodieIndexMetadata, HoodieTableMetaClient.buildIndexDefinition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pudi.client import MetaClient
from pudi.config import OtherTableOptions
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError
from pudi.format import INDEX_DEFS, MaxBytes
from pudi.format.metadata_partitions import MetadataPartitionType, partition_type

_VERSIONS = {"V1": 1, "V2": 2}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index.

    Attributes:
        type: the partition type.
        partition: its partition of the metadata table, which is its full name.
        columns: the indexed columns; for column statistics, empty means the first columns.
        method: for an expression index, the stored values: `column_stats` or `bloom_filters`.
        function: for an expression index its function, such as `from_unixtime`; `identity` for a secondary index.
        options: settings by Hudi's names: `format` of an expression index, `isPartitioned` of a record index.
        version: 1, or 2.
    """

    type: MetadataPartitionType
    partition: str
    columns: tuple[str, ...] = ()
    method: str = ""
    function: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 1


def version_said(definition: Mapping[str, Any], partition: str, table: str | None) -> int | None:
    """Return the version in an index definition; None if it has none.

    Args:
        definition: the entry of `.hoodie/.index_defs/index.json`.
        partition: the index's partition of the metadata table.
        table: location of the table's root, for messages.

    Raises:
        CorruptError: this release doesn't know the version.
    """
    said = definition.get("version")
    if said is None:
        return None
    if not isinstance(said, str) or said not in _VERSIONS:
        raise CorruptError(f"the index {partition} is of an unknown version {said!r}", table=table)
    return _VERSIONS[said]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An index as a user asks for it.

    Attributes:
        kind: `record_index`, `column_stats`, `bloom_filters` or `secondary_index`.
        columns: the indexed columns.
        name: its name, if a table may have several of its kind.
        expr: the function whose values the index stores statistics or bloom filters of.
        settings: settings of the function by Hudi's names, such as `format`.
    """

    kind: str
    columns: tuple[str, ...] = ()
    name: str | None = None
    expr: str | None = None
    settings: Mapping[str, str] | None = None

    def over_one_column(self, kind: MetadataPartitionType, version: int, table: str) -> IndexSpec:
        """Return an index with a name of its own over one column.

        Args:
            kind: the type of its partition.
            version: the table's version.
            table: location of the table's root, for messages.

        Raises:
            InvalidArgumentError: the request names no column, several, or an impossible name.
        """
        if len(self.columns) != 1:
            raise InvalidArgumentError("such an index is over one column: name it", table=table)
        name = self.name or self.columns[0]
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(f"{name!r} can't be an index's name: letters, digits, _ . and -", table=table)
        return named_spec(kind, self.columns[0], name, version)


def named_spec(kind: MetadataPartitionType, column: str, name: str | None, version: int) -> IndexSpec:
    """Return an index over one column (HoodieTableMetadataUtil.getSecondaryOrExpressionIndexName).

    Args:
        kind: the type of its partition.
        column: the column.
        name: its name, with or without the prefix of the type; None for the column's name.
        version: the table's version.
    """
    name = name or column
    partition = name if name.startswith(kind.name) else f"{kind.name}{name}"
    return IndexSpec(kind, partition, (column,), version=kind.version(version))


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
        meta.change_properties(lambda old: {**old, DEFINITIONS_KEY: INDEX_DEFS})


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
