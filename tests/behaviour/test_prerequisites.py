"""What a write needs outside of its table is checked first: nothing is done, and nothing is left, without it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.locks import dynamodb_lock, hive_lock

LOCK, SYNC = "hoodie.write.lock.", "hoodie.datasource.meta.sync.enable"
ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
DYNAMODB = {
    f"{LOCK}provider": "DynamoDBBasedLockProvider",
    f"{LOCK}dynamodb.table": "locks",
    f"{LOCK}dynamodb.partition_key": "t",
    "hoodie.aws.access.key": "test",
    "hoodie.aws.secret.key": "test",
}
ZOOKEEPER = {f"{LOCK}provider": "ZookeeperBasedLockProvider", f"{LOCK}zookeeper.base_path": "/hudi"}
HIVE = {
    f"{LOCK}provider": "HiveMetastoreBasedLockProvider",
    f"{LOCK}hivemetastore.database": "d",
    f"{LOCK}hivemetastore.table": "t",
}
MISSING: dict[str, tuple[Mapping[str, str], str, str]] = {
    "boto3": ({**DYNAMODB, f"{LOCK}dynamodb.endpoint_url": "http://127.0.0.1:9"}, "boto3", "aws"),
    "kazoo": ({**ZOOKEEPER, f"{LOCK}zookeeper.url": "127.0.0.1:9"}, "kazoo.client", "zookeeper"),
    "thrift": ({**HIVE, f"{LOCK}hivemetastore.uris": "thrift://127.0.0.1:9"}, "thrift", "hive"),
    "a catalog": (
        {SYNC: "true", "hoodie.datasource.hive_sync.mode": "hms", "hoodie.datasource.hive_sync.table": "t",
         "hoodie.datasource.hive_sync.metastore.uris": "thrift://127.0.0.1:9"}, "thrift", "hive",
    ),
    "a validator": (
        {"hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator",
         "hoodie.precommit.validators.equality.sql.queries": "SELECT count(*) FROM <TABLE_NAME>"}, "duckdb", "duckdb",
    ),
}  # fmt: skip
SILENT: dict[str, Callable[[int], Mapping[str, str]]] = {
    "dynamodb": lambda port: {**DYNAMODB, f"{LOCK}dynamodb.endpoint_url": f"http://127.0.0.1:{port}"},
    "zookeeper": lambda port: {
        **ZOOKEEPER,
        f"{LOCK}zookeeper.url": f"127.0.0.1:{port}",
        f"{LOCK}zookeeper.connection_timeout_ms": "300",
    },
    "hive": lambda port: {**HIVE, f"{LOCK}hivemetastore.uris": f"thrift://127.0.0.1:{port}"},
}
VERBS: dict[str, Callable[[pudi.Table], Any]] = {
    "insert": lambda table: table.insert(ROWS),
    "upsert": lambda table: table.upsert(ROWS),
    "delete": lambda table: table.delete(where="id = 1"),
    "update": lambda table: table.update({"v": "'c'"}),
    "insert_overwrite_table": lambda table: table.insert_overwrite_table(ROWS),
    "merge": lambda table: table.merge(ROWS, on="id").when_not_matched_insert_all().execute(),
}


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield int(server.getsockname()[1])


@pytest.mark.parametrize("case", MISSING)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_missing_package_is_told_before_anything_is_written(
    tmp_path: Path, case: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, package, extra = MISSING[case]
    pudi.create(tmp_path / "t", ROWS.schema, record_key="id", table_type=kind).insert(ROWS)
    before = files(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    for write in VERBS.values():
        with pytest.raises(pudi.SetupError, match=rf"pip install 'pudi\[{extra}\]'"):
            write(pudi.Table(tmp_path / "t", options=options))
    if case != "a validator":  # which engine writes, and what it needs for SQL, shows with the first data
        with pytest.raises(pudi.SetupError, match=rf"pip install 'pudi\[{extra}\]'"):
            pudi.create(tmp_path / "new", ROWS.schema, record_key="id", table_type=kind, options=options)
    assert files(tmp_path) == before


@pytest.mark.parametrize("service", SILENT)
def test_a_lock_service_that_doesnt_answer(
    tmp_path: Path, service: str, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb_lock, "_ANSWER_S", 0.3)
    monkeypatch.setattr(hive_lock, "_ANSWER_S", 0.3)
    options = SILENT[service](silent)
    table = pudi.create(tmp_path / "t", ROWS.schema, record_key="id")
    table.insert(ROWS)
    before = files(tmp_path)
    with pytest.raises(pudi.UnavailableError):
        pudi.Table(tmp_path / "t", options=options).upsert(ROWS)
    with pytest.raises(pudi.UnavailableError):
        pudi.create(tmp_path / "new", ROWS.schema, record_key="id", options=options)
    assert files(tmp_path) == before


WITHOUT_PUDI = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pudi":
            raise ModuleNotFoundError("No module named 'pudi'", name="pudi")
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.spark
@pytest.mark.parametrize("what", ["no Python", "no pudi", "boto3"])
def test_workers_of_spark_are_asked_before_a_table_is_made(
    spark: Any, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pudi.engine.spark import session

    monkeypatch.setattr(session, "_ready", set())
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}
    expected = "PYSPARK_PYTHON"
    if what == "boto3":
        options |= MISSING["boto3"][0]
        monkeypatch.setitem(sys.modules, "boto3", None)
        expected = "boto3"
    else:
        python = tmp_path / "python"
        if what == "no pudi":
            (tmp_path / "site").mkdir()
            (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT_PUDI)
            python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"}:$PYTHONPATH exec {sys.executable} "$@"\n')
            python.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    frame = spark.sql("SELECT 1 AS id, 'a' AS v")
    with pytest.raises(pudi.SetupError, match=expected):
        pudi.spark.write(frame).options(**options).mode("overwrite").save(str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
