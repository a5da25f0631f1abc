"""The metadata table as a judge sees it: decoded with fastavro, merged by each partition's rules, held to the files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from pudi.format import Action, decode_table_properties, parse_base_file, parse_log_file
from pudi.format.hfile_read import open_bytes
from pudi.format.log_block import BlockKind, Header, decode_blocks
from pudi.metadata.keys import column_stats_keys
from pudi.timeline import Timeline

SOLO = "00000000000000"


def column_stats_key(column: str, partition: str, file: str) -> str:
    """The key of one column's statistics in one file."""
    keys = column_stats_keys(*(pa.array([text]) for text in (column, partition, file)))
    return str(keys[0])


def metadata_partitions(path: Path) -> list[str]:
    """The partitions that the table says are ready; none may be half built."""
    properties = decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())
    assert not properties.get("hoodie.table.metadata.partitions.inflight"), "a partition is half built"
    text = properties.get("hoodie.table.metadata.partitions", "")
    return text.split(",") if text else []


def timeline_of(path: Path) -> Timeline:
    """The active timeline of a table, or of its metadata table."""
    properties = decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())
    layout: Any = int(properties["hoodie.timeline.layout.version"])
    folder = path / ".hoodie" if layout == 1 else path / ".hoodie" / "timeline"
    return Timeline.from_names((file.name for file in folder.iterdir() if file.is_file()), layout)


def records(path: Path, partition: str) -> dict[str, dict[str, Any]]:
    """The merged records of a partition of the metadata table whose latest slices are found by their names alone."""
    found: dict[str, dict[str, Any]] = {}
    for group in records_by_group(path, partition):
        found.update(group)
    return found


def records_by_group(path: Path, partition: str) -> list[dict[str, dict[str, Any]]]:
    """The same, each file group's for itself."""
    folder = path / ".hoodie" / "metadata" / partition
    ids = {_group(file.name) for file in folder.iterdir() if _is_data(file.name)}
    return [_slice(path, folder, file_id) for file_id in sorted(ids)]


def listed(path: Path) -> dict[str, dict[str, int]]:
    """By partition path the files that the metadata table says are there, with their sizes."""
    merged = records(path, "files")
    everything = merged["__all_partitions__"]["filesystemMetadata"]
    partitions = {name for name, info in everything.items() if not info["isDeleted"]}
    return {
        "" if name == "." else name: {
            file: info["size"]
            for file, info in merged.get(name, {"filesystemMetadata": {}})["filesystemMetadata"].items()
            if not info["isDeleted"]
        }
        for name in partitions
    }


def there(path: Path) -> dict[str, dict[str, int]]:
    """By partition path the data files that the folders hold, with their sizes."""
    found = {}
    for marker in path.rglob(".hoodie_partition_metadata"):
        if ".hoodie" not in marker.relative_to(path).parts[:-1]:
            files = {f.name: f.stat().st_size for f in marker.parent.iterdir() if f.is_file() and _is_data(f.name)}
            relative = str(marker.parent.relative_to(path))
            found["" if relative == "." else relative] = files
    return found


def assert_listing(path: Path) -> None:
    """The metadata table lists just the files that are there; partitions without files aside."""
    left = {partition: files for partition, files in listed(path).items() if files}
    assert left == {partition: files for partition, files in there(path).items() if files}


def _is_data(name: str) -> bool:
    return not name.endswith(".crc") and (parse_log_file(name) or parse_base_file(name)) is not None


def _group(name: str) -> str:
    parsed = parse_log_file(name) or parse_base_file(name)
    assert parsed is not None, name
    return parsed.file_id


def _slice(path: Path, folder: Path, file_id: str) -> dict[str, dict[str, Any]]:
    own = timeline_of(path / ".hoodie" / "metadata")
    completed = {i.requested: i for i in own.instants if i.is_completed}
    start = own.start or ""
    names = [file.name for file in folder.iterdir() if not file.name.endswith(".crc")]
    bases = [n for n in map(parse_base_file, names) if n and n.file_id == file_id and n.instant in completed]
    logs = [n for n in map(parse_log_file, names) if n and n.file_id == file_id]
    base = max(bases, key=lambda n: n.instant, default=None)
    merged: dict[str, dict[str, Any]] = {}
    if base is not None:
        merged = dict(_entries((folder / base.name).read_bytes(), None))
        if own.layout == 1:
            logs = [log for log in logs if log.instant >= base.instant]
        else:
            done = {r: i.completion or "" for r, i in completed.items()}
            logs = [log for log in logs if done.get(log.instant, "") >= base.instant]
    blocks: list[Any] = []
    for log in sorted(logs, key=lambda log: log.sort_key):
        for block in decode_blocks((folder / log.name).read_bytes(), path=log.name):
            if block.kind is BlockKind.COMMAND:
                target = block.headers[Header.TARGET_INSTANT_TIME]
                blocks = [b for b in blocks if b.instant != target]
            else:
                blocks.append(block)
    data = timeline_of(path)
    pending = {i.requested for i in data.pending}
    for block in blocks:
        if block.instant in pending or (block.instant not in completed and block.instant >= start):
            continue
        if block.kind is BlockKind.DELETE:
            for key in _deleted(bytes(block.content)):
                merged.pop(key, None)
            continue
        for key, record in _entries(bytes(block.content), block.headers[Header.SCHEMA]):
            merged[key] = _combined(merged.get(key), record)
    return merged


def _combined(older: dict[str, Any] | None, newer: dict[str, Any]) -> dict[str, Any]:
    if older is None or newer["type"] not in {1, 2}:
        return newer
    files = dict(older["filesystemMetadata"])
    for name, info in newer["filesystemMetadata"].items():
        before = files.get(name)
        if info["isDeleted"] and before is not None and not before["isDeleted"]:
            del files[name]
        elif info["isDeleted"]:
            files[name] = info
        else:
            size = max(info["size"], 0 if before is None else before["size"])
            files[name] = {"size": size, "isDeleted": False}
    return {**newer, "filesystemMetadata": files}


def _entries(content: bytes, schema: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    file = open_bytes(content, path="an HFile of the metadata table")
    assert schema is None or file.avro_schema == schema
    parsed = fastavro.parse_schema(json.loads(file.avro_schema))
    rows = file.scan()
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        text = key.decode()
        yield text, {**fastavro.schemaless_reader(io.BytesIO(value), parsed), "key": text}


def _deleted(content: bytes) -> list[str]:
    """The keys of a delete block: a list of records of a key, no partition path, and the default ordering value."""
    deletes = io.BytesIO(content[8:])
    keys: list[str] = []
    while count := fastavro.schemaless_reader(deletes, "long"):
        for _ in range(count):
            keys.append(str(fastavro.schemaless_reader(deletes, ["null", "string"])))
            fastavro.schemaless_reader(deletes, ["null", "string"])  # the partition, which Hudi says
            assert deletes.read(2) == b"\4\0"
    return keys


def delta_commits(path: Path) -> list[str]:
    """The completed delta commits of the metadata table, but for those that made partitions."""
    found = timeline_of(path / ".hoodie" / "metadata").of(Action.DELTACOMMIT)
    return [i.requested for i in found if not i.requested.startswith(SOLO)]


def base_entries(base: Path) -> list[str]:
    """The data files that a base file of the partition `files` lists."""
    return [name for _, record in _entries(base.read_bytes(), None) for name in record["filesystemMetadata"] or ()]
