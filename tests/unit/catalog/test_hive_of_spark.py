"""The metastore of a Spark session is found by its settings, or by the hive-site.xml that Spark reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pudi
from pudi.engine.spark.hive_catalog import METASTORE_URIS, has_hive, metastore_of

SITE = "<configuration><property><name>{}</name><value> {} </value></property></configuration>"


def session(**settings: str) -> Any:
    return SimpleNamespace(conf=settings)


@pytest.fixture(autouse=True)
def no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("key", METASTORE_URIS)
def test_settings_name_it(key: str) -> None:
    hive = {"spark.sql.catalogImplementation": "hive"}
    assert metastore_of(session(**hive, **{key: "thrift://a:1,thrift://b:2"})) == "thrift://a:1,thrift://b:2"
    assert metastore_of(session(**{key: "thrift://a:1"})) == "", "the session's catalog is none of Hive"
    assert metastore_of(session(**hive)) == ""
    assert has_hive(session(**hive))


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("SPARK_CONF_DIR", ""), ("SPARK_HOME", "conf"), ("HADOOP_CONF_DIR", ""), ("YARN_CONF_DIR", "")],
)
def test_a_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / folder).mkdir(exist_ok=True)
    site = tmp_path / folder / "hive-site.xml"
    site.write_text(SITE.format("hive.metastore.uris", "thrift://a:1"))
    hive = session(**{"spark.sql.catalogImplementation": "hive"})
    assert metastore_of(hive) == "thrift://a:1"
    site.write_text(SITE.format("hive.other", "thrift://a:1"))
    assert metastore_of(hive) == ""


def test_a_file_that_cant_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    with pytest.raises(pudi.CorruptError, match=r"configuration of Hive.*hive-site\.xml"):
        metastore_of(session(**{"spark.sql.catalogImplementation": "hive"}))
