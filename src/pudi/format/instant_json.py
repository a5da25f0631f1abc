"""Commit metadata in JSON, as timelines of layout 1 hold it: text in, a checked record out, and back byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pudi.errors import CorruptError

# HoodieWriteStat and its parts as Jackson orders their fields; those of a log file follow where there is one.
_STAT_ORDER = (
    "numInserts", "numUpdates", "numDeletes", "totalLogReadTimeMs", "totalLogRecords", "totalLogFilesCompacted",
    "totalLogSizeCompacted", "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalValidLogBlocks",
    "totalLogBlocksSize", "totalLogBlocksScanTimeMs", "totalCorruptLogBlock", "totalRollbackBlocks", "fileId", "path",
    "cdcStats", "prevCommit", "numWrites", "numUpdateWrites", "totalWriteBytes", "totalWriteErrors", "tempPath",
    "partitionPath", "fileSizeInBytes", "minEventTime", "maxEventTime", "prevBaseFile", "runtimeStats",
)  # fmt: skip
_LOG_STAT_ORDER = ("logVersion", "logOffset", "baseFile", "logFiles")
_RUNTIME_ORDER = ("totalScanTime", "totalUpsertTime", "totalCreateTime")
_JSON_ONLY = {"totalValidLogBlocks": 0, "totalLogBlocksSize": 0, "totalLogBlocksScanTimeMs": 0}
"""Counts of reading logs that the Avro form has no fields for."""

_TEXTS = frozenset({"fileId", "path", "prevCommit", "tempPath", "partitionPath", "prevBaseFile", "baseFile"})


def encode_json_commit(record: Mapping[str, Any]) -> bytes:
    """A commit's record, by the names that Avro has, as Hudi prints it (CommitMetadataSerDeV1).

    Args:
        record: partitionToWriteStats, compacted, extraMetadata, operationType, and partitionToReplaceFileIds where
            it's a replacecommit.
    """
    printed: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [printed_stat(stat) for stat in stats]
            for partition, stats in record["partitionToWriteStats"].items()
        },
        "compacted": record["compacted"],
        "extraMetadata": dict(record["extraMetadata"]),
        "operationType": record["operationType"],
    }
    if "partitionToReplaceFileIds" in record:
        printed["partitionToReplaceFileIds"] = record["partitionToReplaceFileIds"]
    return _pretty(printed, 0).encode()


def decode_json_commit(data: bytes, *, path: str | None = None) -> dict[str, Any]:
    """The record of a commit in JSON, by the names that Avro has; fields that are unknown are passed over, as by Hudi.

    Raises:
        CorruptError: the text is not valid JSON, or a field has an invalid value.
    """
    try:
        parsed = _checked(json.loads(data), dict)
        replaced = parsed.get("partitionToReplaceFileIds")
        record: dict[str, Any] = {
            "partitionToWriteStats": _map(_or_empty(parsed.get("partitionToWriteStats")), _list_of(_stat)),
            "compacted": _checked(parsed.get("compacted", False), bool),
            "extraMetadata": {
                _checked(key, str): _checked(value, str)
                for key, value in _or_empty(parsed.get("extraMetadata")).items()
                if value is not None
            },
            "operationType": _optional(parsed.get("operationType"), str),
            "version": None,
        }
        if replaced is not None:
            record["partitionToReplaceFileIds"] = _map(replaced, _list_of(_text))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"commit metadata in JSON can't be read: {error}", path=path) from error
    return record


def printed_stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a write stat with the fields that Jackson prints, in their order."""
    values = {**_JSON_ONLY, **stat}
    runtime = stat["runtimeStats"]
    values["runtimeStats"] = None if runtime is None else {name: runtime[name] for name in _RUNTIME_ORDER}
    names = _STAT_ORDER if stat["logVersion"] is None else (*_STAT_ORDER, *_LOG_STAT_ORDER)
    return {name: values[name] for name in names}


def _stat(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("a write stat is no object")
    stat: dict[str, Any] = {}
    for name in (*_STAT_ORDER, *_LOG_STAT_ORDER, "totalLogFiles"):
        found = value.get(name)
        if name in _JSON_ONLY:
            continue
        if name == "cdcStats":
            stat[name] = None if found is None else _map(found, _number)
        elif name == "runtimeStats":
            stat[name] = None if found is None else {part: _number(found.get(part) or 0) for part in _RUNTIME_ORDER}
        elif name == "logFiles":
            stat[name] = None if found is None else _list_of(_text)(found)
        else:
            stat[name] = _optional(found, str if name in _TEXTS else int)
    return stat


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r:.80} where a value of type {kind.__name__} must be")
    return value


def _optional(value: Any, kind: type) -> Any:
    return None if value is None else _checked(value, kind)


def _or_empty(value: Any) -> Any:
    return {} if value is None else value


def _text(value: Any) -> str:
    return str(_checked(value, str))


def _number(value: Any) -> int:
    return int(_checked(value, int))


def _map(value: Any, part: Callable[[Any], Any]) -> dict[str, Any]:
    return {key: part(each) for key, each in _checked(value, dict).items()}


def _list_of(part: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda value: [part(each) for each in _checked(value, list)]


def _pretty(value: Any, level: int) -> str:
    """JSON in the layout of Jackson's DefaultPrettyPrinter: objects over lines, arrays in one, ` : ` between."""
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        inner = "\n" + "  " * (level + 1)
        parts = (f"{inner}{_quoted(key)} : {_pretty(each, level + 1)}" for key, each in value.items())
        return "{" + ",".join(parts) + "\n" + "  " * level + "}"
    if isinstance(value, (list, tuple)):
        return f"[ {', '.join(_pretty(each, level) for each in value)} ]" if value else "[ ]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
