"""Kinds of files, their regions, and what may happen to them."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from pudi.format.log_block import BlockKind

_STATES = ("requested", "inflight")
_LOG_MAGIC = b"#HUDI#"
_KIND_AT = 18  # behind magic, length and version of a block
_GONE = None

Damage = Callable[[bytes], bytes | None]
"""What a file holds afterwards; None where it's gone."""


def kinds(path: Path) -> dict[str, tuple[Path, Path | None]]:
    """By kind of file one file of a table, and an older one of the same kind where there is one.

    Of most kinds it's the newest that is damaged. Of completed instants it's one in the middle too.
    """
    found: dict[str, list[Path]] = {}
    for file in sorted(path.rglob("*"), key=lambda each: (_instant(each.name), each.name)):
        if file.is_file() and (kind := _kind(file.relative_to(path).as_posix(), file)):
            found.setdefault(kind, []).append(file)
    chosen: dict[str, tuple[Path, Path | None]] = {}
    for kind, files in found.items():
        chosen[kind] = (files[-1], files[-2] if len(files) > 1 else None)
        if len(files) > 2 and kind.startswith(("completed", "base")):
            chosen[f"older {kind}"] = (files[len(files) // 2], files[len(files) // 2 - 1])
    return chosen


def _instant(name: str) -> str:
    times = re.findall(r"(?<!\d)\d{17,}(?!\d)", name)
    return times[-1][:17] if times else ""


def _kind(name: str, file: Path) -> str | None:
    if name.startswith(".hoodie/metadata/"):
        inner = name.removeprefix(".hoodie/metadata/")
        below = _kind(inner, file)
        partition = "" if inner.startswith(".hoodie/") else f"{inner.partition('/')[0]} "
        return below and f"metadata {partition}{below}"
    last = file.name
    if last.endswith((".lock", ".crc")) or "/.temp/" in name or "/.heartbeat/" in name:
        return None
    if "/.schema/" in name:
        return f"schema history {_state(last)}"
    if "/history/" in name or "/archived/" in name:
        if last.startswith("manifest"):
            return "archive manifest"
        return {"_version_": "archive version"}.get(last, "archive parquet" if "parquet" in last else "archive log")
    if "/consistent_hashing_metadata/" in name:
        return "hashing metadata"
    named = {
        "hoodie.properties": "properties",
        "hoodie.properties.backup": "properties backup",
        "index.json": "index definitions",
        ".hoodie_partition_metadata": "partition metadata",
    }
    if last in named:
        return named[last]
    if name.startswith(".hoodie/"):
        parts = [part for part in last.split(".")[1:] if part not in _STATES]
        return f"{_state(last)} {parts[0] if parts else 'commit'}"
    if ".log." in last:
        return f"log {BlockKind(struct.unpack_from('>i', file.read_bytes(), _KIND_AT)[0]).name.lower()}"
    return f"base {last.rpartition('.')[2]}"


def _state(name: str) -> str:
    state = name.rpartition(".")[2]
    return state if state in _STATES else "completed"


def _flip(at: int) -> Damage:
    def run(data: bytes) -> bytes:
        place = at if at >= 0 else len(data) + at
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return run


def regions(data: bytes) -> dict[str, int]:
    """By name of a region the place of one byte in it."""
    if not data:
        return {}
    if data[:4] == b"PAR1":
        footer = pq.ParquetFile(io.BytesIO(data)).metadata
        last = footer.row_group(0).column(0)
        page = (last.dictionary_page_offset or last.data_page_offset) + last.total_compressed_size - 1
        (size,) = struct.unpack_from("<i", data, len(data) - 8)
        places = {"magic": 0, "page": page, "footer": len(data) - 8 - size // 2, "footer length": len(data) - 8}
        return places | {"trailing magic": len(data) - 1}
    if data[:6] == _LOG_MAGIC:
        (length,) = struct.unpack_from(">q", data, 6)
        places = {"magic": 0, "length": 13, "version": 17, "block type": 21, "header count": 25}
        places |= {"header key": 29, "header size": 33, "header text": 36}
        return places | {"content": 14 + (length * 2) // 3, "trailing length": 14 + length - 1}
    if data[:4] == b"Obj\x01":
        return {"magic": 0, "header": 30, "content": len(data) - 40, "trailer": len(data) - 1}
    return {"start": 0, "middle": len(data) // 2, "end": len(data) - 1}


def damages(file: Path, older: Path | None) -> Mapping[str, Damage]:
    """What may happen to a file, by name."""
    data = file.read_bytes()
    some: dict[str, Damage] = {
        "one byte less": lambda data: data[:-1],
        "half": lambda data: data[: len(data) // 2],
        "nothing": lambda data: b"",
        "garbage": lambda data: data + b"\x07garbage behind",
        "gone": lambda data: _GONE,
    }
    if not data:
        del some["one byte less"], some["half"], some["nothing"]
    for region, at in regions(data).items():
        some[f"flip {region}"] = _flip(at)
    if older is not None and older.read_bytes() != data:
        replaced = older.read_bytes()
        some["replaced by one of its size" if len(replaced) == len(data) else "replaced"] = lambda data: replaced
    return some
