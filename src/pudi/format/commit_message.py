"""The JSON that Hudi's commit callbacks send: what a commit did in, text out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pudi.format.instant_json import printed_stat
from pudi.format.instants import WriteStat, stat_record

_PRESENT = {"empty": False, "present": True}
_EMPTY = {"empty": True, "present": False}


def encode_commit_message(commit_time: str, table_name: str, base_path: str, stats: Sequence[WriteStat]) -> bytes:
    """Encode a HoodieWriteCommitCallbackMessage as Hudi's HTTP callback sends it.

    Hudi's Jackson writes an optional value without the value: receivers learn only that there are an action and extra
    metadata.

    Args:
        commit_time: requested time of the commit.
        table_name: the table's name.
        base_path: location of the table's root.
        stats: the files that the commit wrote.

    Source: HoodieWriteCommitCallbackUtil.convertToJsonString.
    """
    printed: dict[str, Any] = {
        "commitTime": commit_time,
        "tableName": table_name,
        "basePath": base_path,
        "hoodieWriteStat": [{**printed_stat(stat_record(stat)), "columnStats": _EMPTY} for stat in stats],
        "commitActionType": _PRESENT,
        "extraMetadata": _PRESENT,
    }
    return json.dumps(printed, ensure_ascii=False, separators=(",", ":")).encode()
