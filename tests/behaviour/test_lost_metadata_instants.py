"""A completed file of the metadata table's timeline that somebody deleted, where the table had records before it."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import pudi

SCHEMA = pa.schema([("k", pa.string()), ("p", pa.string()), ("v", pa.int64())])
WHOLE = "hoodie.metadata.global.record.level.index.enable"
BY_PARTITION = "hoodie.metadata.record.level.index.enable"
TYPES = {None: "SIMPLE", WHOLE: "RECORD_INDEX", BY_PARTITION: "RECORD_LEVEL_INDEX"}


def rows(value: int, *keys: int) -> pa.Table:
    return pa.table([[str(k) for k in keys], ["pq"[k % 2] for k in keys], [value] * len(keys)], schema=SCHEMA)


def make(path: Path, kind: str, version: int, index: str | None) -> list[Path]:
    """A table of five records, two of them older than its metadata table; completed files of that one's timeline."""
    bare = {"hoodie.write.table.version": str(version), "hoodie.metadata.enable": "false"}
    table = pudi.create(path, SCHEMA, record_key="k", partition_by="p", table_type=kind, options=bare)
    table.bulk_insert(rows(0, 0, 1))
    options = {"hoodie.metadata.enable": "true"} | ({} if index is None else {index: "true"})
    table = pudi.Table(path, options=options)
    for number in (2, 3, 4):
        table.bulk_insert(rows(0, number))
    folder = path / ".hoodie" / "metadata" / ".hoodie"
    return sorted(file.relative_to(path) for file in folder.rglob("*.deltacommit"))


def read(path: Path) -> tuple[list[str], list[int]]:
    """All keys, and the number of records that each key finds."""
    found = [pudi.Table(path).scan(where=f"k = '{k}'").to_arrow().num_rows for k in range(5)]
    return sorted(pudi.Table(path).scan(["k"]).to_arrow()["k"].to_pylist()), found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(
    ("version", "index"), [(6, None), (6, WHOLE), (8, None), (8, WHOLE), (8, BY_PARTITION), (9, BY_PARTITION)]
)
def test_no_record_is_missed_or_doubled(tmp_path: Path, kind: str, version: int, index: str | None) -> None:
    all_of_them = (["0", "1", "2", "3", "4"], [1] * 5)
    completed = make(tmp_path / "whole", kind, version, index)
    assert read(tmp_path / "whole") == all_of_them
    assert len(completed) >= 4
    for number, file in enumerate(completed):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", path)
        (path / file).unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert read(path) == all_of_them, file.name
            try:
                pudi.Table(path, options={"hoodie.index.type": TYPES[index]}).upsert(rows(1, 0, 1, 2, 3, 4))
            except pudi.CorruptError as error:
                assert "rebuild" in str(error), file.name
            pudi.Table(path).repair()
        assert read(path) == all_of_them, file.name
        assert pudi.Table(path).check().ok, file.name
