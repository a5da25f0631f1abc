"""Savepoints as Hudi makes them, for tests without Hudi: the schema is that of a golden table's savepoint."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import fastavro

from support.golden import FOLDER

_GOLDEN = "mor_v9_savepoint_restore_rollback"


def savepoint(path: Path, requested: str, completion: str, files: dict[str, list[str]]) -> None:
    """Make a savepoint of a commit of a table of version 8 or 9.

    Args:
        path: the table.
        requested: requested time of the commit.
        completion: completion time of the savepoint.
        files: names of the files that it keeps, by partition path.
    """
    with zipfile.ZipFile(FOLDER / f"{_GOLDEN}.zip") as golden:
        name = next(each for each in golden.namelist() if each.endswith(".savepoint") and "metadata/" not in each)
        reader = fastavro.reader(io.BytesIO(golden.read(name)))
        schema: Any = reader.writer_schema
    record = {
        "savepointedBy": "",
        "savepointedAt": 0,
        "comments": "",
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": names} for partition, names in files.items()
        },
        "version": 1,
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [record])
    timeline = path / ".hoodie" / "timeline"
    (timeline / f"{requested}.savepoint.inflight").touch()
    (timeline / f"{requested}_{completion}.savepoint").write_bytes(out.getvalue())
