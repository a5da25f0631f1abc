"""A session with a Hive catalog of its own keeps Hudi tables in it: other sessions find, change and drop them there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.catalogs import Catalog, TableName, open_catalog
from support.connect import free_port, has_connect, start_server
from support.hive import serve_hive

pytest.importorskip("thrift")

pytestmark = [pytest.mark.spark]

Job = Callable[..., list[Any]]
COLUMNS = "(id BIGINT, city STRING) USING hudi TBLPROPERTIES (primaryKey = 'id'{}) PARTITIONED BY (city)"
MERGED = COLUMNS.format(", type = 'mor'")
URIS = "spark.hadoop.hive.metastore.uris"


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_hive(tmp_path_factory.mktemp("hive")) as served:
        yield served


@pytest.fixture
def catalog(metastore: str) -> Iterator[Catalog]:
    with open_catalog("hive", metastore.removeprefix("thrift://")) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Run statements in a new Spark process: what each answers."""

    def run(*statements: str, remote: str = "", env: dict[str, str] | None = None, **settings: str) -> list[Any]:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("hive_job.py")), str(tmp_path), remote, json.dumps(settings)],
            input=json.dumps(statements),
            capture_output=True,
            check=False,
            text=True,
            cwd=tmp_path,  # of Derby, where a session has no metastore
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})},
            timeout=300,
        )
        found = done.stdout.partition("ANSWERS")[2]
        assert found, done.stderr[-4000:]
        answers: list[Any] = json.loads(found)
        return [*answers, done.stderr] if "spark.log" in settings else answers

    return run


def cities(catalog: Catalog, name: str) -> list[str]:
    table = catalog.table(TableName("rides", name))
    assert table is not None
    return sorted(each.values[0] for each in catalog.partitions(table))


@pytest.mark.slow
def test_tables_live_in_the_hive_catalog(job: Job, metastore: str, catalog: Catalog, tmp_path: Path) -> None:
    """A first session creates; a second one, which finds the metastore by its hive-site.xml, goes on and drops."""
    made = job(
        f"CREATE DATABASE rides LOCATION '{tmp_path}/database'",
        "CREATE TABLE rides.plain (a INT) USING parquet",
        "CREATE TABLE rides.trips " + COLUMNS.format(""),
        f"CREATE TABLE rides.cabs {MERGED} LOCATION '{tmp_path}/database/cabs'",
        "INSERT INTO rides.trips VALUES (1, 'rome'), (2, 'oslo')",
        "INSERT INTO spark_catalog.rides.cabs VALUES (1, 'rome')",
        f"CREATE TABLE rides.plain {COLUMNS.format('')} LOCATION '{tmp_path}/taken'",
        "CREATE TABLE rides.trips " + COLUMNS.format(""),
        "CREATE TABLE IF NOT EXISTS rides.trips " + COLUMNS.format(""),
        **{URIS: metastore},
    )
    assert made[:4] == [[]] * 4
    assert made[4][0][1:3] == ["INSERT", 2]
    assert "TableExistsError" in made[6]
    assert "rides.plain is a table of another format" in made[6]
    assert not (tmp_path / "taken").exists()
    assert "there is a table rides.trips already" in made[7]
    assert made[8] == []
    assert (tmp_path / "database" / "trips" / ".hoodie").exists(), "where the database has its tables"
    assert cities(catalog, "trips") == ["oslo", "rome"]
    assert [cities(catalog, name) for name in ("cabs", "cabs_ro", "cabs_rt")] == [["rome"]] * 3

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "hive-site.xml").write_text(
        "<configuration><property><name>hive.metastore.uris</name>"
        f"<value>{metastore}</value></property></configuration>"
    )
    shown = [["rides", name, False] for name in ("cabs", "cabs_ro", "cabs_rt", "plain", "trips")]
    found = job(
        "SHOW TABLES IN rides",
        "SHOW TABLES IN spark_catalog.rides LIKE 'tr*'",
        "USE rides",
        "SELECT id, city FROM trips ORDER BY id",
        "SELECT count(*) FROM spark_catalog.rides.plain",
        "SELECT id FROM spark_catalog.rides.cabs_ro",
        "DELETE FROM trips WHERE city = 'rome'",
        "INSERT INTO trips VALUES (3, 'lima')",
        "ALTER TABLE trips ADD COLUMNS (tip DOUBLE)",
        "ALTER TABLE trips SET TBLPROPERTIES ('team' = 'rides')",
        env={"SPARK_CONF_DIR": str(tmp_path / "conf")},
    )
    assert found[:6] == [shown, shown[-1:], [], [[1, "rome"], [2, "oslo"]], [[0]], [[1]]]
    assert cities(catalog, "trips") == ["lima", "oslo", "rome"]
    entry = catalog.table(TableName("rides", "trips"))
    assert entry is not None
    assert entry.properties["team"] == "rides"
    assert [each.name for each in entry.columns[-2:]] == ["id", "tip"]

    pudi.create(f"{tmp_path}/other", {"id": "long"}, record_key="id").sync(catalog, "rides.other")
    dropped = job(
        *(f"DROP TABLE rides.{name}" for name in ("trips", "cabs", "other")),
        "SHOW TABLES IN rides",
        "SELECT * FROM rides.trips",
        "DROP TABLE rides.trips",
        **{"hive.metastore.uris": metastore},
    )
    assert dropped[:4] == [[], [], [], [["rides", "plain", False]]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in dropped[4]
    assert "there is no table rides.trips" in dropped[5]
    assert catalog.table_names("rides") == ["plain"]
    assert not (tmp_path / "database" / "trips").exists(), "it was created without LOCATION"
    assert (tmp_path / "database" / "cabs" / ".hoodie").exists(), "it has a LOCATION, though it's the usual one"
    assert (tmp_path / "other" / ".hoodie").exists()


def test_a_session_on_derby_knows_its_tables_alone(job: Job, tmp_path: Path) -> None:
    """No other process can reach that metastore: the session knows the table, and the log says so."""
    found = job(
        f"CREATE TABLE trips {COLUMNS.format('')} LOCATION '{tmp_path}/trips'",
        "INSERT INTO trips VALUES (1, 'rome')",
        "SELECT id FROM trips",
        **{"spark.log": "kept"},
    )
    assert found[2] == [[1]]
    assert "trips is known in this session alone; ATTACH 'hive://host:9083'" in found[-1]


@pytest.mark.slow
def test_connect_registers_or_refuses(
    job: Job, metastore: str, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_connect():
        pytest.skip("this pyspark has no Connect server")
    hive = {"spark.sql.catalogImplementation": "hive"}
    monkeypatch.chdir(tmp_path)
    port = free_port()
    server = start_server(tmp_path / "server", port, {**hive, URIS: metastore})
    try:
        made = job(
            "CREATE DATABASE remote",
            f"CREATE TABLE remote.trips {COLUMNS.format('')} LOCATION '{tmp_path}/trips'",
            "INSERT INTO remote.trips VALUES (1, 'rome')",
            "SHOW TABLES IN remote",
            "DROP TABLE remote.trips",
            remote=f"sc://127.0.0.1:{port}",
        )
    finally:
        server.kill()
        server.wait()
    assert made[1] == []
    assert made[3] == [["remote", "trips", False]]
    assert made[4] == []
    assert catalog.table_names("remote") == []
    port = free_port()
    server = start_server(tmp_path / "second", port, hive)
    try:
        refused = job(
            f"CREATE TABLE trips {COLUMNS.format('')} LOCATION '{tmp_path}/none'", remote=f"sc://127.0.0.1:{port}"
        )
    finally:
        server.kill()
        server.wait()
    assert refused[0].startswith("NotSupportedError")
    assert "ATTACH 'hive://host:9083' AS hive first" in refused[0]
    assert not (tmp_path / "none").exists()
