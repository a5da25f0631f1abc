"""A Hive Metastore with TLS: its certificate is checked, by the catalog and by the lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import TableName, open_catalog
from pudi.catalogs.thrift_client import Connection, Metastores
from pudi.config import HiveClientOptions, LockSettings, resolve_only
from pudi.locks.hive_lock import hive_place
from support.hive import serve_hive, tls_settings

pytest.importorskip("thrift")

USE, FILE = "hive.metastore.use.SSL", "hive.metastore.truststore.path"
NAME = TableName("secret", "trips")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a metastore with TLS, and the options that reach it."""
    folder = tmp_path_factory.mktemp("tls")
    settings, certificate = tls_settings(folder)
    with serve_hive(folder, more=settings) as uri:
        yield uri.removeprefix("thrift://"), {USE: "true", FILE: str(certificate)}


def test_a_table_is_registered_and_locked_by_tls(tmp_path: Path, served: tuple[str, dict[str, str]]) -> None:
    address, options = served
    table = pudi.create(tmp_path / "t", {"id": "long", "city": "string"}, record_key="id", partition_by="city")
    place = {f"hoodie.write.lock.{key}": value for key, value in (
        ("provider", "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"),
        ("hivemetastore.uris", f"thrift://{address}"), ("hivemetastore.database", "secret"),
        ("hivemetastore.table", "trips"),
    )}  # fmt: skip
    concurrent = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    table.insert(pa.table({"id": [1], "city": ["rome"]}), options={**options, **place, **concurrent})
    done = table.sync(f"hive://{address}/secret.trips", options=options)
    assert [str(each) for each in done.tables] == ["secret.trips: created, 1 partition added"]
    assert pudi.Table(f"hive://{address}/secret.trips", options).scan(["id"]).to_arrow().num_rows == 1
    view = LockSettings.of(resolve_only({**options, **place}, LockSettings.declared))
    assert hive_place(view).metastores.tls is not None


def test_an_unknown_authority_is_not_trusted(served: tuple[str, dict[str, str]]) -> None:
    address, _ = served
    with (
        open_catalog("hive", address, {USE: "true"}) as catalog,
        pytest.raises(pudi.RefusedError, match=rf"no trusted answer by TLS: .*certificate verify failed.*{FILE}"),
    ):
        catalog.table(NAME)


def test_a_certificate_for_another_host_is_not_trusted(served: tuple[str, dict[str, str]]) -> None:
    address, options = served
    with (
        open_catalog("hive", address.replace("127.0.0.1", "localhost"), options) as catalog,
        pytest.raises(pudi.RefusedError, match=r"not valid for 'localhost'"),
    ):
        catalog.table(NAME)


def test_a_metastore_without_tls_is_said(
    metastore: str, served: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pudi.catalogs.thrift_client._HANDSHAKE_S", 1.0)
    with (
        open_catalog("hive", metastore.removeprefix("thrift://"), served[1]) as catalog,
        pytest.raises(pudi.RefusedError, match=rf"leave {USE} out if it has no TLS"),
    ):
        catalog.table(NAME)


def test_tls_is_not_gone_without(served: tuple[str, dict[str, str]]) -> None:
    host, port = served[0].split(":")
    connection = Connection(Metastores(((host, int(port)),)), 5)
    with pytest.raises(pudi.UnavailableError, match="doesn't answer"):
        connection.call("get_all_databases", [])


def test_a_keystore_of_java_is_refused(tmp_path: Path) -> None:
    tls_settings(tmp_path)
    with pytest.raises(pudi.InvalidArgumentError, match=rf"{FILE}: .*keys\.jks' can't be read as certificates in PEM"):
        open_catalog("hive", "host:9083", {USE: "true", FILE: str(tmp_path / "keys.jks")})


def test_kerberos_is_refused_by_name() -> None:
    with pytest.raises(pudi.NotSupportedError, match=r"hive\.metastore\.sasl\.enabled.*without Kerberos"):
        open_catalog("hive", "host:9083", {"hive.metastore.sasl.enabled": "true"})
    assert not HiveClientOptions.of(resolve_only({}, HiveClientOptions.declared)).tls
