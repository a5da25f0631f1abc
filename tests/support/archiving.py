"""Archiving as Hudi does it, for tests without Hudi: the oldest commits of a table go to its archive."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pudi.format import decode_table_properties
from support.golden import FOLDER
from support.hudi import commits

_SCHEMA_HEADER = 2
_GOLDEN = "cow_v6_archived/.hoodie/history/.commits_.archive.1_1-0-1"


def archive(path: Path, count: int, per_file: int = 2) -> None:
    """Move the oldest `count` commits out of the active timeline, `per_file` in each file of the archive."""
    properties = decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())
    oldest = commits(path)[:count]
    for number, at in enumerate(range(0, count, per_file), 1):
        batch = oldest[at : at + per_file]
        if properties["hoodie.timeline.layout.version"] == "1":
            _to_log(path, path / ".hoodie" / properties["hoodie.archivelog.folder"], batch, number)
        else:
            _to_history(path, batch, number)


def _to_log(path: Path, folder: Path, batch: list[tuple[str, str]], number: int) -> None:
    with zipfile.ZipFile(FOLDER / "cow_v6_archived.zip") as golden:
        text = _schema_text(golden.read(_GOLDEN))
    schema = fastavro.parse_schema(json.loads(text))
    rows = []
    for requested, _ in batch:
        file = next(f for f in (path / ".hoodie").glob(f"{requested}.*commit"))
        metadata = json.loads(file.read_bytes())
        metadata["version"] = 1
        replaces = file.suffix == ".replacecommit"
        kind = "hoodieReplaceCommitMetadata" if replaces else "hoodieCommitMetadata"
        for state in ("REQUESTED", "INFLIGHT", "COMPLETED"):
            record: dict[str, Any] = {"commitTime": requested, "actionType": file.suffix[1:], "actionState": state}
            if state == "COMPLETED":
                record[kind] = metadata
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, record)
            rows.append(struct.pack(">i", len(out.getvalue())) + out.getvalue())
    content = struct.pack(">ii", 3, len(rows)) + b"".join(rows)
    headers = struct.pack(">iii", 1, _SCHEMA_HEADER, len(text)) + text
    body = struct.pack(">ii", 1, 3) + headers + struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    length = len(body) + 8
    folder.mkdir(exist_ok=True)
    block = b"#HUDI#" + struct.pack(">q", length) + body + struct.pack(">q", length + 6)
    (folder / f".commits_.archive.{number}_1-0-1").write_bytes(block)
    for requested, _ in batch:
        for file in (path / ".hoodie").glob(f"{requested}.*"):
            file.unlink()


def _schema_text(block: bytes) -> bytes:
    at = 6 + 8 + 4 + 4 + 4 + 4
    (size,) = struct.unpack(">i", block[at : at + 4])
    return block[at + 4 : at + 4 + size]


def _to_history(path: Path, batch: list[tuple[str, str]], number: int) -> None:
    timeline = path / ".hoodie" / "timeline"
    folder = timeline / "history"
    folder.mkdir(exist_ok=True)
    files = [next(timeline.glob(f"{requested}_*commit")) for requested, _ in batch]
    rows = pa.table(
        {
            "instantTime": [requested for requested, _ in batch],
            "completionTime": [completed for _, completed in batch],
            "action": [file.suffix[1:] for file in files],
            "metadata": [file.read_bytes() for file in files],
            "plan": pa.nulls(len(batch), pa.binary()),
            "version": pa.array([1] * len(batch), pa.int32()),
        }
    )
    name = f"{batch[0][0]}_{batch[-1][0]}_0.parquet"
    pq.write_table(rows, folder / name, compression="gzip")
    before = json.loads((folder / f"manifest_{number - 1}").read_text())["files"] if number > 1 else []
    entry = {"fileName": name, "fileLen": (folder / name).stat().st_size}
    (folder / f"manifest_{number}").write_text(json.dumps({"files": [*before, entry]}))
    (folder / "_version_").write_text(str(number))
    for requested, _ in batch:
        for file in timeline.glob(f"{requested}[._]*"):
            file.unlink()
