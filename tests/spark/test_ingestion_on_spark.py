"""Ingestion by a session keeps bad records apart, as that of this machine does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.ingest import FileSource, Ingestion, sql_transform

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])


def kept(path: Path) -> set[tuple[str, int, str]]:
    found = pudi.Table(path).scan(["source", "position", "record"]).to_arrow().to_pylist()
    return {(row["source"], row["position"], row["record"]) for row in found}


def test_bad_records_are_kept_apart(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "new files"
    (folder / "day 1").mkdir(parents=True)
    good = [json.dumps({"id": f"k{n}", "ts": n, "fare": n / 2}) for n in range(6)]
    bad = ['{"id": "half', '{"id": "z", "fare": "much"}', '{"id": "half', '{"id":null,"ts":1,"fare":null}']
    (folder / "day 1" / "a.json").write_text("\n".join([*good[:2], bad[0], *good[2:4], *bad[1:3], good[4], bad[3]]))
    (folder / "day 1" / "b.json").write_text(good[5])
    settings: dict[str, Any] = {"record_key": "id", "ordering": "ts", "schema": SCHEMA}
    source = FileSource(folder, "json")
    for schema, words in ((SCHEMA, r"3 records.*at line 3: .*an error table"), (None, "go together.*give a schema")):
        with pytest.raises(pudi.CorruptError, match=words) as caught:
            Ingestion(source, tmp_path / "t", spark=spark, **{**settings, "schema": schema}).run()
        assert caught.value.path == "day 1/a.json"
    wrong = [sql_transform("SELECT nope FROM <SRC>")]
    with pytest.raises(pudi.InvalidArgumentError, match=r"query of the transform failed: .*nope"):
        Ingestion(source, tmp_path / "t", spark=spark, transforms=wrong, **settings).run()
    with pytest.raises(pudi.InvalidArgumentError, match="spark must be a SparkSession"):
        Ingestion(source, tmp_path / "t", spark="local[2]", **settings)
    settings["error_table"] = tmp_path / "bad"
    seen: list[Any] = []
    job = Ingestion(source, tmp_path / "t", spark=spark, report=seen.append, **settings)
    assert job.run() == 1
    assert seen[0].bad == 4
    assert pudi.Table(tmp_path / "t").scan(["id"]).to_arrow()["id"].to_pylist() == [f"k{n}" for n in range(6)]
    local = Ingestion(source, tmp_path / "local", **{**settings, "error_table": tmp_path / "local_bad"})
    assert local.run() == 1
    placed = {each for each in kept(tmp_path / "bad") if "up to" not in each[0]}
    assert placed == {("day 1/a.json", 3, bad[0]), ("day 1/a.json", 6, bad[1]), ("day 1/a.json", 7, bad[2])}
    assert placed == {each for each in kept(tmp_path / "local_bad") if "up to" not in each[0]}
    assert len(kept(tmp_path / "bad")) == len(kept(tmp_path / "local_bad")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("with_schema", [False, True])
def test_bad_lines_of_csv_before_a_transform(spark: Any, tmp_path: Path, with_schema: bool) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,ts,fare\na,1,2.5\nb,2\nc,3,1.5\n")
    job = Ingestion(
        FileSource(tmp_path / "csv", "csv"),
        tmp_path / "t",
        spark=spark,
        record_key="id",
        schema=SCHEMA if with_schema else None,
        transforms=[sql_transform("SELECT id, fare * 2 AS twice FROM <SRC>")],
        error_table=tmp_path / "bad",
    )
    assert job.run() == 1
    rows = pudi.Table(tmp_path / "t").scan(meta_fields=False).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": "a", "twice": 5.0}, {"id": "c", "twice": 3.0}]
    assert kept(tmp_path / "bad") == {("a.csv", 3, "b,2")}


def test_a_damaged_file_is_an_error_whatever_the_session_says(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "src" / "a.parquet")
    whole = (tmp_path / "src" / "a.parquet").read_bytes()
    (tmp_path / "src" / "b.parquet").write_bytes(whole[: len(whole) // 2])
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(pudi.CorruptError, match=r"b\.parquet"):
            Ingestion(FileSource(tmp_path / "src", "parquet"), tmp_path / "t", record_key="id", spark=spark).run()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert not (tmp_path / "t").exists()
