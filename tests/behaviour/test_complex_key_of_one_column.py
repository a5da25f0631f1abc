"""Complex keys of one column stay with or without the column's name, also where no base file has a record."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import pudi

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("q", pa.int32()), ("v", pa.int32())])
WITHOUT_NAMES = {"hoodie.write.complex.keygen.new.encoding": "true"}


def rows(v: int) -> pa.Table:
    return pa.table([["a"], ["x"], [1], [v]], schema=SCHEMA)


def create(path: Path, kind: str, version: int, **options: str) -> pudi.Table:
    given = {"hoodie.write.table.version": str(version), **options}
    return pudi.create(path, SCHEMA, record_key="id", partition_by=["p", "q"], table_type=kind, options=given)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "version", "encoding"), list(product(("cow", "mor"), (6, 8, 9), ({}, WITHOUT_NAMES))))
def test_a_table_whose_records_are_all_deleted_is_written(
    tmp_path: Path, kind: str, version: int, encoding: dict[str, str]
) -> None:
    encoding = encoding if version < 9 else {}
    table = create(tmp_path / "t", kind, version, **encoding)
    table.insert(rows(1))
    table.delete(rows(1))
    if kind == "mor":
        table.compact()
    pudi.Table(table.path, options=encoding).upsert(rows(2))
    pudi.Table(table.path).upsert(rows(3))
    assert pudi.Table(table.path).scan(["id", "v"]).to_arrow().to_pylist() == [{"id": "a", "v": 3}]


@pytest.mark.parametrize(("version", "encoding"), list(product((6, 8), ({}, WITHOUT_NAMES))))
def test_log_files_tell_where_no_base_file_does(tmp_path: Path, version: int, encoding: dict[str, str]) -> None:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    table = create(tmp_path / "t", "mor", version, **buckets, **encoding)
    table.upsert(rows(1))
    assert all(each.base is None for each in table.file_slices())
    pudi.Table(table.path, options=buckets).upsert(rows(2))
    stored = pudi.Table(table.path).scan(["_hoodie_record_key", "v"]).to_arrow().to_pylist()
    assert stored == [{"_hoodie_record_key": "a" if encoding else "id:a", "v": 2}]


@pytest.mark.parametrize(("version", "encoding"), list(product((6, 8, 9), ({}, WITHOUT_NAMES))))
def test_a_table_with_log_files_beside_base_files_is_written(
    tmp_path: Path, version: int, encoding: dict[str, str]
) -> None:
    encoding = encoding if version < 9 else {}
    table = create(tmp_path / "t", "mor", version, **encoding)
    table.insert(rows(1))
    for v in (2, 3):
        pudi.Table(table.path).upsert(rows(v))
    assert any(each.base is not None and each.logs for each in table.file_slices())
    pudi.Table(table.path).delete(rows(3))
    pudi.Table(table.path).upsert(rows(4))
    stored = pudi.Table(table.path).scan(["_hoodie_record_key", "v"]).to_arrow().to_pylist()
    assert stored == [{"_hoodie_record_key": "a" if encoding else "id:a", "v": 4}]
