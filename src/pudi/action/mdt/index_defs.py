"""What the table says of its indexes beside their records: `.hoodie/.index_defs/index.json`.

Source: FORMAT 7.5; HoodieIndexMetadata, HoodieTableMetaClient.buildIndexDefinition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pudi.action.meta_client import MetaClient
from pudi.action.properties import update_properties
from pudi.config import TableConfig
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup import FileSlice
from pudi.format import INDEX_DEFS
from pudi.metadata.records import COLUMN_STATS, RECORD_INDEX, group_prefix

_PARTITIONED = "isPartitioned"
_PATH = "hoodie.table.index.defs.path"


def read_definitions(meta: MetaClient) -> dict[str, Any]:
    """The definitions of a table's indexes, by the name of their partition of the metadata table; none without a file.

    Raises:
        CorruptError: the file is none.
    """
    try:
        content = json.loads(meta.storage.read(INDEX_DEFS))
        definitions = content["indexDefinitions"]
    except NotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(meta) from error
    if not isinstance(definitions, dict):
        raise _damaged(meta)
    return definitions


def write_definition(meta: MetaClient, name: str, definition: dict[str, object]) -> None:
    """Add or replace the definition of an index; under the table's lock.

    Hudi looks for definitions just where the properties say (HoodieTableMetaClient.getIndexMetadata), and skips no file
    by an index that it finds no definition of.
    """
    definitions = {**read_definitions(meta), name: definition}
    meta.storage.put(INDEX_DEFS, json.dumps({"indexDefinitions": definitions}, indent=2).encode())
    changed = update_properties(meta.storage, meta.context, lambda old: {**old, _PATH: INDEX_DEFS})
    meta.config = TableConfig.parse(changed, table=meta.storage.root)


def record_index_definition(*, partitioned: bool) -> dict[str, object]:
    """The definition of a record index (HoodieTableMetadataUtil.createRecordIndexDefinition)."""
    return {
        "indexName": RECORD_INDEX,
        "indexType": RECORD_INDEX,
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {_PARTITIONED: "true" if partitioned else "false"},
        "version": "V1",
    }


def column_stats_definition(columns: Sequence[str], version: int) -> dict[str, object]:
    """The definition of statistics of columns (HoodieColumnStatsIndexUtils)."""
    return {
        "indexName": COLUMN_STATS,
        "indexType": COLUMN_STATS,
        "indexFunction": COLUMN_STATS,
        "sourceFields": list(columns),
        "indexOptions": {},
        "version": f"V{version}",
    }


def is_partitioned(meta: MetaClient, slices: Sequence[FileSlice]) -> bool:
    """Whether the table's record index is one by partition: by its file groups, or by its definition without any."""
    for each in slices:
        return each.file_id.removeprefix(group_prefix(RECORD_INDEX)).count("-") > 1
    options = read_definitions(meta).get(RECORD_INDEX, {}).get("indexOptions") or {}
    return str(options.get(_PARTITIONED, "false")).lower() == "true"


def _damaged(meta: MetaClient) -> CorruptError:
    return CorruptError("the file doesn't define indexes", table=meta.storage.root, path=INDEX_DEFS)
