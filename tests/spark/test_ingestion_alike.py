"""Ingestion by a session takes in what that of this machine does: equal tables, or one refusal."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.ingest import FileSource, Ingestion
from pudi.ingest.files import CsvOptions

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]

CASES: dict[str, tuple[str, Sequence[str], Rows | None]] = {
    "headers in another order": (
        "csv",
        ["id,a,b\nk1,x,1\n", "b,id,a\n2,k2,y\n"],
        [{"id": "k1", "a": "x", "b": 1}, {"id": "k2", "a": "y", "b": 2}],
    ),
    "a new column and a missing one": (
        "csv",
        ["id,a\nk1,1\n", "c,id\n2.5,k2\n", "id,a\nk3,3\n"],
        [{"id": "k1", "a": 1, "c": None}, {"id": "k2", "a": None, "c": 2.5}, {"id": "k3", "a": 3, "c": None}],
    ),
    "line breaks and delimiters in quotes": (
        "csv",
        ['id,a\nk1,"two\nlines"\nk2,"a ""b"", c"\n', 'id,a\nk3,"x\r\ny"\n'],
        [{"id": "k1", "a": "two\nlines"}, {"id": "k2", "a": 'a "b", c'}, {"id": "k3", "a": "x\r\ny"}],
    ),
    "nulls, days and instants": (
        "csv",
        ["id,n,d,a\nk1,,2020-01-02,NULL\nk2,3,2021-01-02,x\n"],
        None,
    ),
    "new fields, nested too": (
        "json",
        ['{"id": "k1", "s": {"x": 1}}\n', '{"id": "k2", "s": {"x": 2, "y": "new"}, "n": 1.5}\n'],
        [{"id": "k1", "s": {"x": 1, "y": None}, "n": None}, {"id": "k2", "s": {"x": 2, "y": "new"}, "n": 1.5}],
    ),
    "null first": (
        "json",
        ['{"id": "k1", "n": null}\n', '{"id": "k2", "n": 5}\n{"n": 6, "id": "k3"}\n'],
        [{"id": "k1", "n": None}, {"id": "k2", "n": 5}, {"id": "k3", "n": 6}],
    ),
    "a list of structs": (
        "json",
        ['{"id": "k1", "l": [{"x": 1}]}\n', '{"id": "k2", "l": []}\n', '{"id": "k3", "l": [{"x": 3, "y": true}]}\n'],
        [
            {"id": "k1", "l": [{"x": 1, "y": None}]},
            {"id": "k2", "l": []},
            {"id": "k3", "l": [{"x": 3, "y": True}]},
        ],
    ),
}

REFUSED: dict[str, tuple[str, Sequence[str], str]] = {
    "an empty list first": ("json", ['{"id": "k1", "l": []}\n', '{"id": "k2", "l": [{"x": 1}]}\n'], "type null"),
    "texts where numbers were": ("csv", ["id,a\nk1,1\n", "id,a\nk2,x\n"], "'x'|int64 vs string"),
    "too few values": ("csv", ["id,a\nk1\n"], "1 values, 2 are expected"),
    "half a record": ("json", ['{"id": "k1"}\n{"id": \n'], "line 2"),
}


def _taken_in(tmp_path: Path, spark: Any, format: str, texts: Sequence[str], *, at_once: bool) -> Path:
    name = f"{'local' if spark is None else 'spark'}-{at_once}"
    source, target = tmp_path / f"{name}-files", tmp_path / name
    source.mkdir()
    for number, text in enumerate(texts):
        file = source / f"{number}.{format}"
        file.write_text(text, newline="")
        os.utime(file, (1e9 + number, 1e9 + number))
        if not at_once or number == len(texts) - 1:
            Ingestion(FileSource(source, format), target, operation="upsert", record_key="id", spark=spark).run()
    return target


def _table(path: Path) -> pa.Table:
    return pudi.Table(path).scan(meta_fields=False).to_arrow().sort_by("id")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("at_once", [True, False], ids=["one-batch", "a-batch-each"])
@pytest.mark.parametrize("case", CASES)
def test_equal_tables(spark: Any, tmp_path: Path, case: str, at_once: bool) -> None:
    format, texts, expected = CASES[case]
    local = _table(_taken_in(tmp_path, None, format, texts, at_once=at_once))
    by_spark = _table(_taken_in(tmp_path, spark, format, texts, at_once=at_once))
    assert expected is None or local.to_pylist() == expected
    assert by_spark.to_pylist() == local.to_pylist()
    assert by_spark.schema.equals(local.schema)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", REFUSED)
def test_one_refusal(spark: Any, tmp_path: Path, case: str) -> None:
    format, texts, words = REFUSED[case]
    said = []
    for session in (None, spark):
        with pytest.raises(pudi.PudiError, match=words) as caught:
            _taken_in(tmp_path, session, format, texts, at_once=False)
        said.append((type(caught.value), caught.value.message))
    assert said[0] == said[1]


def test_types_of_a_schema_and_other_files(spark: Any, tmp_path: Path) -> None:
    """Without a header names come from the schema; a file may be compressed."""
    schema = pa.schema([("id", pa.string()), ("day", pa.date32()), ("n", pa.float32())])
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.csv.gz").write_bytes(gzip.compress(b"k1;2020-01-02;1.5\nk2;;\n"))
    found = []
    for session in (None, spark):
        target = tmp_path / f"t{len(found)}"
        source = FileSource(tmp_path / "files", "csv", csv=CsvOptions(header=False, delimiter=";"))
        Ingestion(source, target, record_key="id", schema=schema, spark=session).run()
        found.append(_table(target))
    assert found[0].equals(found[1])
    assert [row["n"] for row in found[0].to_pylist()] == [1.5, None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_columns_that_not_every_file_has(spark: Any, tmp_path: Path, format: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number, row in enumerate([{"id": "k1", "a": 1}, {"id": "k2", "a": 2, "n": "new"}]):
        _write(folder / f"{number}.{format}", format, pa.Table.from_pylist([row]))
    found = []
    for session in (None, spark):
        Ingestion(FileSource(folder, format), tmp_path / f"t{len(found)}", record_key="id", spark=session).run()
        found.append(_table(tmp_path / f"t{len(found)}").to_pylist())
    assert found[0] == found[1] == [{"id": "k1", "a": 1, "n": None}, {"id": "k2", "a": 2, "n": "new"}]


def _write(path: Path, format: str, rows: pa.Table) -> None:
    if format == "avro":
        import fastavro

        kinds = {pa.string(): "string", pa.int64(): "long"}
        fields = [{"name": each.name, "type": ["null", kinds[each.type]], "default": None} for each in rows.schema]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows.to_pylist())
    elif format == "orc":
        from pyarrow import orc

        orc.write_table(rows, str(path))
    else:
        import pyarrow.parquet as pq

        pq.write_table(rows, path)
